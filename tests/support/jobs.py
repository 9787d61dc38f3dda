"""The database's own view of jobs, for tests that watch a worker from outside."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from hudhud.domain.job import NewJob
from hudhud.drivers.psycopg import arun
from hudhud.store import jobs as verbs
from tests.support.wait import PAUSE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from uuid import UUID

    from typing_extensions import Unpack

    from hudhud.worker.handler import JobOptions

ENDED = ("succeeded", "dead", "cancelled")


class Ended(NamedTuple):
    """One ended run, as `outcome` has it."""

    run: int
    attempt: int
    outcome: str
    code: str | None


class Jobs:
    """Enqueues jobs and reads what became of them, on one connection of its own."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection

    async def add(
        self,
        type: str,  # noqa: A002 - the word for it, everywhere
        payload: dict[str, object] | None = None,
        *,
        version: int = 1,
        **options: Unpack[JobOptions],
    ) -> UUID:
        """Enqueue one job."""
        new = NewJob(type, payload or {}, version=version, **options)
        return (await arun(self.connection, verbs.enqueue(new))).id

    async def add_many(
        self,
        type: str,  # noqa: A002 - as above
        payloads: Sequence[dict[str, object]],
        **options: Unpack[JobOptions],
    ) -> list[UUID]:
        """Enqueue many jobs in one statement."""
        new = [NewJob(type, payload, **options) for payload in payloads]
        return [one.id for one in await arun(self.connection, verbs.enqueue_many(new))]

    async def cancel(self, job_id: UUID) -> str:
        """Cancel a job as an operator."""
        return await arun(self.connection, verbs.cancel(job_id, actor="a test"))

    async def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        cursor = await self.connection.execute(query.encode(), values)
        return await cursor.fetchall()

    async def value(self, query: str, *values: object) -> Any:  # noqa: ANN401 - the query's own type
        """Return the first value of a query."""
        return (await self.rows(query, *values))[0][0]

    async def held(self, worker_id: UUID) -> int:
        """Return how many jobs a worker holds whose runs have not ended."""
        return int(
            await self.value(
                "select count(*) from hudhud.lease l, unnest(l.job_ids, l.runs) r(job_id, run)"
                " where l.worker_id = %s and not exists (select from hudhud.outcome o"
                " where o.job_id = r.job_id and o.run = r.run)",
                worker_id,
            )
        )

    async def lose_all(self) -> None:
        """Let every lease run out at once and be rescued, as after the death of its worker."""
        await self.rows("update hudhud.lease set locked_until = '-infinity' returning id")
        await self.rows("select rescued from hudhud.rescue()")

    async def status(self, job_id: UUID) -> str:
        """Return a job's status as users see it."""
        return str(await self.value("select status from hudhud.job_status where id = %s", job_id))

    async def code(self, job_id: UUID) -> str | None:
        """Return the code of a job's last error."""
        return await self.value(  # type: ignore[no-any-return]
            "select last_error_code from hudhud.job_status where id = %s", job_id
        )

    async def ends(self, job_id: UUID) -> list[Ended]:
        """Return a job's ended runs in order."""
        query = (
            "select run, attempt, outcome, code from hudhud.outcome where job_id = %s order by run"
        )
        return [Ended(*row) for row in await self.rows(query, job_id)]

    async def result(self, job_id: UUID) -> Any:  # noqa: ANN401 - any JSON value
        """Return the result that was kept of a job's last run."""
        text = await self.value(
            "select result::text from hudhud.outcome where job_id = %s order by run desc limit 1",
            job_id,
        )
        return None if text is None else json.loads(text)

    async def until(self, query: str, *values: object, seconds: float = 30) -> Any:  # noqa: ANN401 - as value
        """Return the first value of a query as soon as it is true."""
        deadline = time.monotonic() + seconds
        while not (found := await self.value(query, *values)):
            assert time.monotonic() < deadline, f"still not true after {seconds} s: {query}"
            await asyncio.sleep(PAUSE_SECONDS)
        return found

    async def until_ended(self, *job_ids: UUID, seconds: float = 30) -> list[str]:
        """Return the statuses of jobs as soon as all of them have ended."""
        await self.until(
            "select count(*) = cardinality(%s::uuid[]) from hudhud.outcome"
            " where job_id = any (%s) and outcome in ('succeed', 'fail', 'cancel')",
            list(job_ids),
            list(job_ids),
            seconds=seconds,
        )
        return [await self.status(job_id) for job_id in job_ids]

    async def until_run_ended(self, job_id: UUID, *, run: int = 1) -> Ended:
        """Return what a run came to as soon as it has ended."""
        await self.until(
            "select count(*) > 0 from hudhud.outcome where job_id = %s and run = %s", job_id, run
        )
        return (await self.ends(job_id))[run - 1]


@asynccontextmanager
async def watching(url: str) -> AsyncGenerator[Jobs]:
    """Open the database's own view of jobs."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None)
    async with connection:
        yield Jobs(connection)
