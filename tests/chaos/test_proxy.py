"""The proxy does each harm to a real connection, and says whose it was."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from bench.chaos.proxy import Harm, Messages, Order
from bench.chaos.wire import Wire
from tests.support.proxy import proxy
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from psycopg import AsyncConnection

    from tests.support.proxy import Proxy
    from tests.support.server import Server

NAME = "chaos test"
WRITE = "insert into written values (1)"


@pytest.fixture
async def between(server: Server, database: str) -> AsyncGenerator[Proxy]:
    async with proxy(server, server.direct(database)) as between:
        async with await connected(between) as connection:
            await connection.execute("create table written (number int)")
        await auntil(lambda: not between.plain.lines)
        yield between


async def connected(between: Proxy) -> AsyncConnection:
    return await psycopg.AsyncConnection.connect(
        between.url, application_name=NAME, autocommit=True, prepare_threshold=None
    )


async def written(between: Proxy) -> int:
    async with await connected(between) as connection:
        row = await (await connection.execute("select count(*) from written")).fetchone()
    assert row is not None
    return int(row[0])


async def write_for_ever(connection: AsyncConnection) -> None:
    while True:
        await connection.execute(WRITE)


def test_messages_are_found_however_the_stream_was_cut_into_pieces() -> None:
    startup = b"\0\3\0\0user\0me\0application_name\0it is me\0\0"
    stream = (len(startup) + 4).to_bytes(4, "big") + startup
    stream += b"Q\0\0\0\x0bselect\0" + b"S\0\0\0\x04"
    for size in range(1, len(stream)):
        messages, found = Messages(has_startup=True), list[bytes]()
        for start in range(0, len(stream), size):
            found += [kind + body for kind, body in messages.feed(stream[start : start + size])]
        assert found == [startup, b"Qselect\0", b"S"]
        assert messages.application == "it is me"


async def test_a_lost_reply_is_of_a_statement_that_was_done(between: Proxy) -> None:
    async with await connected(between) as connection:
        between.harm(Order(Harm.LOSE_REPLY, words="into written"))
        with pytest.raises(psycopg.OperationalError):
            await connection.execute(WRITE)
    assert between.hits == [NAME]
    assert await written(between) == 1


async def test_a_lost_request_is_of_a_statement_that_was_not_done(between: Proxy) -> None:
    async with await connected(between) as connection:
        between.harm(Order(Harm.LOSE_REQUEST, words="into written"))
        with pytest.raises(psycopg.OperationalError):
            await connection.execute(WRITE)
    assert await written(between) == 0


async def test_the_reply_to_a_commit_is_lost_and_the_commit_is_not(between: Proxy) -> None:
    between.harm(Order(Harm.LOSE_REPLY, words="COMMIT"))
    with pytest.raises(psycopg.OperationalError):
        async with await connected(between) as connection, connection.transaction():
            await connection.execute(WRITE)
    assert between.cuts == 1
    assert await written(between) == 1


@pytest.mark.parametrize("amount", [0, 1, 30, 90])
async def test_a_line_is_cut_after_so_many_bytes(between: Proxy, amount: int) -> None:
    async with await connected(between) as connection:
        between.harm(Order(Harm.CUT, amount=amount))
        with pytest.raises(psycopg.OperationalError):
            await write_for_ever(connection)
    await auntil(lambda: not between.plain.lines)


async def test_a_hole_is_silent_for_its_time_and_then_the_line_is_gone(between: Proxy) -> None:
    async with await connected(between) as connection:
        between.harm(Order(Harm.HOLE, seconds=0.3))
        began = time.monotonic()
        with pytest.raises(psycopg.OperationalError):
            await connection.execute(WRITE)
        assert time.monotonic() - began >= 0.29


async def test_what_is_late_arrives_all_the_same(between: Proxy) -> None:
    async with await connected(between) as connection:
        between.harm(Order(Harm.DELAY, amount=50, seconds=60))
        began = time.monotonic()
        await connection.execute(WRITE)
        assert time.monotonic() - began >= 0.1  # there and back
    assert await written(between) == 1


@pytest.mark.parametrize("choice", [0, 1])
async def test_a_line_that_is_half_closed_ends_for_its_client(between: Proxy, choice: int) -> None:
    async with await connected(between) as connection:
        between.harm(Order(Harm.HALF_CLOSE, choice=choice))
        with pytest.raises(psycopg.OperationalError):
            await connection.execute(WRITE)
    await auntil(lambda: not between.plain.lines)


async def test_other_connections_are_left_alone(between: Proxy) -> None:
    async with await connected(between) as first, await connected(between) as second:
        between.harm(Order(Harm.CUT, choice=0))
        with pytest.raises(psycopg.OperationalError):
            await first.execute(WRITE)
        await second.execute(WRITE)
    assert await written(between) == 1


def test_in_a_process_of_its_own_it_obeys_and_tells(
    server: Server, database: str, tmp_path: Path
) -> None:
    with Wire(server.direct(database), tmp_path) as wire:
        with psycopg.connect(wire.dsn, application_name=NAME) as connection:
            assert wire.harm(Order(Harm.LOSE_REPLY, words="never said"), 0.05) is None
            assert wire.harm(Order(Harm.CUT), 30) == NAME
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
        psycopg.connect(wire.dsn).close()
