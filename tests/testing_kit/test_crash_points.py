"""Laws of the crash injector: it dies as a process dies, and finds what such a death breaks."""

from __future__ import annotations

import asyncio
import gc
import re
import socketserver
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from typing_extensions import override

from hudhud import Context, Hudhud, NewJob, Retryable
from hudhud.errors import ConfigError
from hudhud.testing import NeverDrainedError, crash_points, drain, set_clock
from hudhud.testing.mortal import Life, live
from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from hudhud.worker.handler import AnyHandler
    from hudhud.worker.runner import Attempt


class Bank:
    """An application with right and wrong ways to move money, and the accounts."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = app = Hudhud(url)
        self.cleaned_up: list[str] = []
        self.charges: list[int] = []

        @app.handler("withdraw")
        async def withdraw(ctx: Context, account: int, amount: int) -> None:
            try:
                async with ctx.transaction() as connection:
                    await take(connection, account, amount)
                    await app.aenqueue(connection, tell, account=account)
            except BaseException:
                self.cleaned_up.append("withdraw")
                raise

        @app.handler("withdraw.twice")
        async def withdraw_twice(_ctx: Context, account: int, amount: int) -> None:
            # The planted bug: a transaction of its own, which knows nothing of the job's success.
            async with await psycopg.AsyncConnection.connect(url) as connection:
                await take(connection, account, amount)

        @app.handler("withdraw.plain")
        def withdraw_plain(ctx: Context, account: int, amount: int) -> None:
            with ctx.transaction() as connection:
                connection.execute(TAKE, (amount, account))

        @app.handler("withdraw.plain_twice")
        def withdraw_plain_twice(_ctx: Context, account: int, amount: int) -> None:
            with psycopg.connect(url) as connection:
                connection.execute(TAKE, (amount, account))

        @app.handler("charge")
        async def charge(_ctx: Context, account: int) -> None:
            await asyncio.sleep(0)
            self.charges.append(account)
            await asyncio.sleep(0)

        @app.handler("tell")
        async def tell(_ctx: Context, account: int) -> None:
            pass

        self.withdraw, self.withdraw_twice = withdraw, withdraw_twice
        self.withdraw_plain, self.withdraw_plain_twice = withdraw_plain, withdraw_plain_twice
        self.charge = charge
        self.value("create table account (id serial primary key, balance integer) returning 1")

    def value(self, statement: str, *values: object) -> Any:  # noqa: ANN401 - a column's
        with psycopg.connect(self.url, prepare_threshold=None) as connection:
            cursor = connection.execute(statement.removesuffix(" returning 1").encode(), values)
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

    def open_account(self) -> int:
        return int(self.value("insert into account (balance) values (100) returning id"))

    def balance(self, account: int) -> int:
        return int(self.value("select balance from account where id = %s", account))


TAKE = "update account set balance = balance - %s where id = %s"


async def take(connection: psycopg.AsyncConnection[Any], account: int, amount: int) -> None:
    await connection.execute(TAKE, (amount, account))


@pytest.fixture
def bank(database: str) -> Iterator[Bank]:
    bank = Bank(database)
    yield bank
    bank.app.close()


def balances(bank: Bank, handler: AnyHandler) -> dict[str, int]:
    """Return for each crash point how much is left of 100 after a withdrawal of 30."""
    left: dict[str, int] = {}
    for point in crash_points(bank.app):
        account = bank.open_account()
        point.run(handler.job(account=account, amount=30))
        left[str(point)] = bank.balance(account)
    return left


def test_a_handler_with_its_effect_in_the_transaction_is_right_everywhere(bank: Bank) -> None:
    left = balances(bank, bank.withdraw)
    assert set(left.values()) == {70}
    assert len(left) >= 8  # before, five awaits and more, after the return, and one that lives


def test_a_handler_with_its_effect_outside_the_transaction_is_found_out(bank: Bank) -> None:
    left = balances(bank, bank.withdraw_twice)
    assert [point for point, amount in left.items() if amount == 40]
    assert set(left.values()) == {70, 40}
    *_, after_return, lived = left
    assert "after its return" in after_return
    assert left[after_return] == 40
    assert left[lived] == 70


def test_an_effect_between_two_awaits_outside_the_database_is_found_out(bank: Bank) -> None:
    charges: list[int] = []
    for point in crash_points(bank.app):
        bank.charges.clear()
        point.run(bank.charge.job(account=1))
        charges.append(len(bank.charges))
    # Before it, at the await before it, at the one after it, after the return, and alive.
    assert charges == [1, 1, 2, 2, 1]


def test_no_cleaning_up_of_the_handler_runs(bank: Bank) -> None:
    for point in crash_points(bank.app):
        point.run(bank.withdraw.job(account=bank.open_account(), amount=30))
    gc.collect()
    assert bank.cleaned_up == []


def test_no_cleaning_up_runs_when_the_interpreter_ends(database: str) -> None:
    program = textwrap.dedent("""
        import asyncio, sys
        from hudhud import Hudhud
        from hudhud.testing import CrashPoint

        app = Hudhud(sys.argv[1])
        alive = [True]

        @app.handler("leave_traces")
        async def leave_traces(ctx):
            crashed = alive[0]
            alive[0] = False
            try:
                await asyncio.sleep(0)
            finally:
                if crashed:
                    print("cleaned up")

        point = CrashPoint(app, sys.argv[1], 1)
        point.run(leave_traces.job())
        print(point.has_crashed)
    """)
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program, database],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("True\n", "", 0)


def test_tasks_middleware_and_lifespan_die_with_it(database: str) -> None:
    told: list[str] = []

    async def middleware(ctx: Context, call_next: Attempt) -> object:
        try:
            return await call_next(ctx)
        finally:
            told.append("middleware")

    app = Hudhud(database, middleware=[middleware])

    @app.lifespan
    async def lifespan() -> AsyncGenerator[None]:
        yield
        told.append("lifespan")

    async def beside() -> None:
        try:
            while True:
                await asyncio.sleep(0)
                told.append("beat")
        finally:
            told.append("task")

    @app.handler("fan_out")
    async def fan_out(_ctx: Context) -> None:
        task = asyncio.create_task(beside())
        await asyncio.sleep(0.01)
        told.clear()
        await asyncio.sleep(0)
        task.cancel()

    with app.transaction() as connection:
        app.enqueue(connection, fan_out)
    app.close()
    life = Life(point=2)  # at the second sleep, while the task beside it beats
    live(app, database, life)
    assert life.where is not None
    gc.collect()
    assert set(told) == {"beat"}
    beats = len(told)
    gc.collect()
    assert len(told) == beats


def test_the_sessions_are_cut_whoever_opened_them(bank: Bank) -> None:
    """The lock that the dead run held would keep the next run waiting for ever."""
    pool: list[psycopg.AsyncConnection[Any]] = []

    @bank.app.handler("hold")
    async def hold(ctx: Context, account: int) -> None:
        connection = await psycopg.AsyncConnection.connect(bank.url)
        pool.append(connection)
        await connection.execute("select from account where id = %s for update", (account,))
        async with ctx.transaction() as own:
            if ctx.run > 1:
                await connection.rollback()
                await own.execute(TAKE, (30, account))
        await connection.close()

    before = open_files()
    for point in crash_points(bank.app):
        account = bank.open_account()
        drained = point.run(hold.job(account=account))
        assert all(run.outcome == "succeed" for run in drained), point
    sessions = bank.value(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and backend_type = 'client backend'"
    )
    assert sessions == 0
    assert open_files() - before < 2 * point.number


def test_the_other_ends_of_its_sockets_see_them_closed(bank: Bank) -> None:
    begun: list[object] = []
    ended: list[object] = []

    class Provider(socketserver.BaseRequestHandler):
        @override
        def handle(self) -> None:
            begun.append(self)
            self.request.settimeout(30)
            self.request.sendall(b"welcome")
            with suppress(ConnectionResetError):
                while self.request.recv(1):
                    pass
            ended.append(self)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        @bank.app.handler("call")
        async def call(_ctx: Context) -> None:
            reader, writer = await asyncio.open_connection(*server.server_address)
            await reader.readexactly(7)
            await asyncio.sleep(0)
            writer.close()
            await writer.wait_closed()

        for point in crash_points(bank.app):
            point.run(call.job())
            until(lambda: len(ended) == len(begun))
        server.shutdown()
    assert len(begun) > point.number


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_an_idle_session_of_before_that_the_run_has_begun_to_use_is_cut_too(bank: Bank) -> None:
    with psycopg.connect(bank.url, prepare_threshold=None) as shared:
        shared.execute("select 1")
        shared.rollback()
        account = bank.open_account()

        @bank.app.handler("borrow")
        async def borrow(ctx: Context) -> None:
            if ctx.run == 1:
                shared.execute("select from account where id = %s for update", (account,))
            await asyncio.sleep(0)
            async with ctx.transaction() as own:
                await take(own, account, 30)

        points = iter(crash_points(bank.app))
        next(points).run(borrow.job())
        next(points).run(borrow.job())
        assert shared.closed
    assert bank.balance(account) == 40


def test_a_session_that_was_busy_before_is_left_alone(bank: Bank) -> None:
    with psycopg.connect(bank.url, prepare_threshold=None) as mine:
        mine.execute("select 1")  # and so in a transaction of the test's own
        for point in crash_points(bank.app):
            point.run(bank.charge.job(account=1))
        assert mine.execute("select 1").fetchone() == (1,)


def test_plain_functions_are_killed_before_and_after(bank: Bank) -> None:
    assert set(balances(bank, bank.withdraw_plain).values()) == {70}
    left = balances(bank, bank.withdraw_plain_twice)
    assert list(left.values()) == [70, 40, 40, 70]
    first, *after, _ = left
    assert "before its first line" in first
    assert all("after its return" in point for point in after)


def test_a_point_tells_where_it_was(bank: Bank) -> None:
    told = list(balances(bank, bank.withdraw_twice))
    assert told[0] == "crash point 0: before its first line"
    assert re.match(r"crash point 1: killed at (.*/)?test_crash_points\.py:\d+ in ", told[1])
    assert "in withdraw_twice, `await take(connection, account, amount)`" in "\n".join(told)
    assert told[-2].endswith("after its return, before that was recorded")
    assert told[-1].endswith("lived to its end")


def test_the_runs_after_the_crash_are_returned_to_the_last_one(bank: Bank) -> None:
    for point in crash_points(bank.app):
        drained = point.run(bank.withdraw.job(account=bank.open_account(), amount=1))
        assert drained.of("tell"), point
        if not point.has_crashed:
            assert [(run.type, run.run) for run in drained] == [("withdraw", 1), ("tell", 1)]
        drained.succeeded()


def test_retries_after_the_crash_are_run_at_once(bank: Bank) -> None:
    @bank.app.handler("reconcile")
    async def reconcile(ctx: Context) -> str:
        await asyncio.sleep(0)
        if ctx.run == 2:
            raise Retryable(after_seconds=3600)
        return "done"

    for point in crash_points(bank.app):
        drained = point.run(reconcile.job())
        assert drained[-1].result == "done", point


def test_a_failure_may_be_lost_with_the_process_too(bank: Bank) -> None:
    @bank.app.handler("fail")
    async def fail(ctx: Context) -> None:
        if ctx.run == 1:
            raise Retryable

    told = []
    for point in crash_points(bank.app):
        assert point.run(fail.job())[-1].outcome == "succeed"
        told.append(str(point))
    assert told[1] == "crash point 1: after it raised Retryable, before that was recorded"
    assert len(told) == 3


def test_a_handler_with_one_attempt_ends_dead(bank: Bank) -> None:
    @bank.app.handler("once", max_attempts=1)
    async def once(_ctx: Context) -> None:
        pass

    drain(bank.app)  # so that its one attempt is known when it is enqueued
    for point in crash_points(bank.app):
        drained = point.run(once.job())
        assert len(drained) == (0 if point.has_crashed else 1)
    codes = bank.value("select json_agg(last_error_code order by id) from hudhud.job_status")
    assert codes == ["worker_lost", "worker_lost", None]


def test_a_job_that_is_due_already_can_be_crashed(bank: Bank) -> None:
    for point in crash_points(bank.app):
        bank.charges.clear()
        with psycopg.connect(bank.url, prepare_threshold=None) as connection:
            bank.app.enqueue(connection, bank.charge, account=5)
        assert point.run()
        assert set(bank.charges) == {5}


def test_it_goes_with_a_clock_that_stands_still(bank: Bank) -> None:
    with set_clock(bank.url, datetime(2030, 1, 1, tzinfo=UTC)):
        assert set(balances(bank, bank.withdraw).values()) == {70}


async def test_in_an_asynchronous_test_the_loop_stays_free(bank: Bank) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.001)

    beating = asyncio.create_task(beat())
    for point in crash_points(bank.app):
        account = await asyncio.to_thread(bank.open_account)
        beats = 0
        await point.arun(bank.withdraw.job(account=account, amount=30))
        assert beats > 5
        assert await asyncio.to_thread(bank.balance, account) == 70, point
    beating.cancel()


async def test_it_does_not_block_a_running_loop(bank: Bank) -> None:
    point = next(crash_points(bank.app))
    with pytest.raises(ConfigError, match="arun"):
        point.run(bank.charge.job(account=1))


def test_a_turn_that_runs_nothing_is_a_mistake_that_is_told(bank: Bank) -> None:
    points = crash_points(bank.app)
    assert str(next(points)) == "crash point 0: not run yet"
    with pytest.raises(ConfigError, match=r"point\.run"):
        next(points)
    point = next(crash_points(bank.app))
    with pytest.raises(ConfigError, match="Nothing is due"):
        point.run()


def test_a_handler_that_awaits_without_end_is_an_error(bank: Bank) -> None:
    points = crash_points(bank.app, points_max=2)
    for _ in range(2):
        next(points).run(bank.charge.job(account=1))
    with pytest.raises(NeverDrainedError, match="points_max"):
        next(points)


def test_what_keeps_the_worker_from_starting_is_raised(database: str) -> None:
    app = Hudhud(database)

    @app.lifespan
    async def lifespan() -> AsyncGenerator[None]:
        await asyncio.open_connection("127.0.0.1", 1)
        yield

    point = next(crash_points(app))
    with pytest.raises(ConnectionRefusedError):
        point.run(NewJob("any", {}))
