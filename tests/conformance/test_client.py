"""hudhud.client: every verb on a connection of the caller's, sync and async alike."""

from __future__ import annotations

import inspect
import uuid
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from typing_extensions import override

from hudhud import Hudhud, NewEvent
from hudhud.client import AsyncClient, Client
from hudhud.domain.job import NewJob, Outcome, Status
from hudhud.errors import ConfigError, InvalidJobError, JobNotFoundError
from hudhud.store import runs
from hudhud.store.status import JobStatus

if TYPE_CHECKING:
    from uuid import UUID

NOBODY = uuid.UUID(int=7)


def kill(connection: psycopg.Connection, job_id: UUID, queue: str) -> None:
    """End a claimed job dead."""
    request = runs.ClaimRequest(uuid.uuid4(), queue, [2], ["default"], [0], [10], 30)
    claimed = Client().run(connection, runs.claim(request))
    assert claimed is not None
    assert claimed.job_ids == [job_id]
    settlement = runs.Settlement(claimed.lease_id, 1, Outcome.FAIL, code="broken")
    call = runs.finish([claimed.lease_id], [True], settlements=[settlement])
    assert Client().run(connection, call).settled == 1


def test_a_job_lives_and_dies_and_is_corrected(connection: psycopg.Connection) -> None:
    client, queue = Client(), uuid.uuid4().hex
    job_id = client.enqueue(connection, NewJob("refund", {"amount": "5"}, queue=queue)).id
    kill(connection, job_id, queue)
    corrected = client.resubmit(connection, job_id, {"amount": 5}, actor="op", reason="was text")
    found = client.status(connection, corrected)
    assert found is not None
    assert (found.status, found.payload) == (Status.PENDING, {"amount": 5})
    kill(connection, corrected, queue)
    replayed = client.replay(connection, corrected, actor="op", reason="the bank was down")
    assert client.cancel(connection, replayed, actor="op") == "cancelled"


def test_many_jobs_are_made_and_looked_after(connection: psycopg.Connection) -> None:
    client = Client()
    made = client.enqueue_many(connection, [NewJob("mail", {"n": n}) for n in range(3)])
    client.reschedule(connection, made[0].id, None, actor="op")
    assert [client.status(connection, one.id) is not None for one in made] == [True] * 3
    assert client.status(connection, made[0].id, tenant_id="other") is None
    assert client.status(connection, NOBODY) is None
    with pytest.raises(JobNotFoundError):
        client.cancel(connection, NOBODY, actor="op")


def test_an_event_is_taken_in_once_per_consumer(connection: psycopg.Connection) -> None:
    client = Client()
    assert client.take_in(connection, "billing", NOBODY)
    assert not client.take_in(connection, "billing", NOBODY)
    assert client.take_in(connection, "mail", NOBODY)
    assert client.take_in(connection, "billing", NOBODY, tenant_id="acme")
    with pytest.raises(InvalidJobError, match=r"^consumer holds U\+0000"):
        client.take_in(connection, "a\0", NOBODY)


def test_a_publish_is_one_statement_in_the_callers_transaction(shared_database: str) -> None:
    class Counted(psycopg.Cursor[Any]):
        statements: ClassVar[list[object]] = []

        @override
        def execute(self, query: Any, *args: Any, **kwargs: Any) -> Self:
            self.statements.append(query)
            return super().execute(query, *args, **kwargs)

    app = Hudhud()
    with psycopg.connect(
        shared_database, cursor_factory=Counted, prepare_threshold=None
    ) as connection:
        for options in ({}, {"aggregate": ("order", 7), "tenant_id": "acme"}):
            Counted.statements.clear()
            app.publish(connection, "order.paid", {"n": 1}, **options)  # type: ignore[arg-type]
            assert len(Counted.statements) == 1
            assert connection.info.transaction_status == TransactionStatus.INTRANS
        connection.rollback()


async def test_the_asynchronous_client_does_the_same(shared_database: str) -> None:
    client = AsyncClient()
    async with await psycopg.AsyncConnection.connect(shared_database) as connection:
        made = await client.enqueue(connection, NewJob("mail", {}))
        [other] = await client.enqueue_many(connection, [NewJob("mail", {})])
        await client.reschedule(connection, other.id, None, actor="op")
        found = await client.status(connection, made.id)
        assert found is not None
        assert found.status is Status.PENDING
        published = await client.publish(connection, NewEvent("order.paid", {"n": 1}))
        assert (published.id.version, published.sequence) == (7, None)
        many = [NewEvent("order.paid", {"n": n}, aggregate=("order", "7")) for n in range(3)]
        assert [one.sequence for one in await client.publish_many(connection, many)] == [1, 2, 3]
        taken = [await client.take_in(connection, "billing", made.id) for _ in range(2)]
        assert taken == [True, False]
        assert await client.cancel(connection, made.id, actor="op") == "cancelled"
        with pytest.raises(JobNotFoundError):
            await client.replay(connection, NOBODY, actor="op", reason="r")
        await connection.rollback()
        with pytest.raises(JobNotFoundError):
            await client.resubmit(connection, NOBODY, {}, actor="op", reason="r")
        await connection.rollback()


def test_both_clients_have_the_same_verbs() -> None:
    def verbs(client: type) -> dict[str, inspect.Signature]:
        functions = inspect.getmembers(client, inspect.isfunction)
        return {name: inspect.signature(one) for name, one in functions}

    assert verbs(Client) == verbs(AsyncClient)


async def test_a_client_says_so_when_it_is_given_the_other_sort_of_connection(
    connection: psycopg.Connection,
) -> None:
    with pytest.raises(ConfigError, match=r"psycopg\.Connection is synchronous. Use Client"):
        await AsyncClient().enqueue(connection, NewJob("mail", {}))


def test_a_status_has_exactly_the_fields_of_the_view(connection: psycopg.Connection) -> None:
    columns = connection.execute(
        "select column_name from information_schema.columns"
        " where table_schema = 'hudhud' and table_name = 'job_status' order by ordinal_position"
    ).fetchall()
    assert [name for (name,) in columns] == [one.name for one in fields(JobStatus)]


def test_what_is_stored_but_cannot_be_read_is_shown_all_the_same(
    connection: psycopg.Connection,
) -> None:
    """A fraction that no float holds, written past `enqueue`: it must not hide the job."""
    row = connection.execute("select id from hudhud.enqueue('odd', '{}')").fetchone()
    assert row is not None
    connection.execute(
        "update hudhud.job set payload = ('{\"n\": 1' || repeat('0', 400) || '.5}')::jsonb"
        " where id = %s",
        row,
    )
    found = Client().status(connection, row[0])
    assert found is not None
    assert found.status is Status.PENDING
