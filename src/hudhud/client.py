"""Enqueue and look after jobs, and take events in, on your own connection, in your own transaction.

A job enqueued in a transaction exists when that transaction commits, and never when it rolls back.
The connection may be of any driver that `hudhud.drivers` knows. Nothing here opens, commits or
retries; errors of the database arrive as classes of `hudhud.errors`, and as with any statement of
yours a refused one has aborted the transaction it was in (use a savepoint to go on).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hudhud.domain.cause import followed_by_event, followed_by_job
from hudhud.drivers.base import arun, run
from hudhud.store import events, idempotency, jobs
from hudhud.store.status import status_of, status_read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

    from hudhud.domain.event import NewEvent, Published
    from hudhud.domain.job import Enqueued, NewJob
    from hudhud.store.call import Statement
    from hudhud.store.status import JobStatus

T = TypeVar("T")


class Client:
    """The verbs for synchronous connections: psycopg, SQLAlchemy, Django.

    The verbs that act on one job take `tenant_id`: the caller's tenant, for which other tenants'
    jobs do not exist; None is for operators, who see all. `actor` is who does it, for the audit.
    """

    def run(self, connection: object, statement: Statement[T]) -> T:
        """Run any call or read of `hudhud.store` on a connection."""
        return run(connection, statement)

    def enqueue(self, connection: object, new_job: NewJob, *, notify: bool = True) -> Enqueued:
        """Make a job, or find the one that has its key; see `store.jobs.enqueue` for errors."""
        return run(connection, jobs.enqueue(followed_by_job(new_job), notify=notify))

    def enqueue_many(
        self, connection: object, new_jobs: Iterable[NewJob], *, notify: bool = True
    ) -> list[Enqueued]:
        """Make many jobs in one statement; one result per job, in order."""
        return run(connection, jobs.enqueue_many(map(followed_by_job, new_jobs), notify=notify))

    def publish(self, connection: object, new_event: NewEvent, *, notify: bool = True) -> Published:
        """Write an event: it happened if the transaction commits; see `store.events.publish`."""
        return run(connection, events.publish(followed_by_event(new_event), notify=notify))

    def publish_many(
        self, connection: object, new_events: Iterable[NewEvent], *, notify: bool = True
    ) -> list[Published]:
        """Write many events in one statement; one result per event, in order."""
        call = events.publish_many(map(followed_by_event, new_events), notify=notify)
        return run(connection, call)

    def take_in(
        self, connection: object, consumer: str, event_id: UUID, *, tenant_id: str = "default"
    ) -> bool:
        """Take an event into a consumer's inbox; True the first time, and only then act on it.

        In the transaction that does what follows: if that rolls back, the event is as new again.
        See `store.idempotency.take_in` for the rest.
        """
        return run(connection, idempotency.take_in(consumer, event_id, tenant_id=tenant_id))

    def status(
        self, connection: object, job_id: UUID, *, tenant_id: str | None = None
    ) -> JobStatus | None:
        """Return how a job stands, None when there is none."""
        return status_of(run(connection, status_read(job_id, tenant_id)))

    def cancel(
        self,
        connection: object,
        job_id: UUID,
        *,
        actor: str,
        reason: str | None = None,
        tenant_id: str | None = None,
    ) -> str:
        """Cancel a job; returns "cancelled", or "requested" when a worker runs it."""
        return run(connection, jobs.cancel(job_id, actor=actor, reason=reason, tenant_id=tenant_id))

    def reschedule(
        self,
        connection: object,
        job_id: UUID,
        available_at: datetime | None,
        *,
        actor: str,
        reason: str | None = None,
        tenant_id: str | None = None,
    ) -> None:
        """Let a waiting job become available at another instant; None: now."""
        call = jobs.reschedule(
            job_id, available_at, actor=actor, reason=reason, tenant_id=tenant_id
        )
        run(connection, call)

    def replay(
        self,
        connection: object,
        job_id: UUID,
        *,
        actor: str,
        reason: str,
        tenant_id: str | None = None,
    ) -> UUID:
        """Run a dead job again as a new job with the same payload; returns the new job's id."""
        return run(connection, jobs.replay(job_id, actor=actor, reason=reason, tenant_id=tenant_id))

    def resubmit(
        self,
        connection: object,
        job_id: UUID,
        payload: Mapping[str, object],
        *,
        actor: str,
        reason: str,
        tenant_id: str | None = None,
    ) -> UUID:
        """Run a dead job again as a new job with a corrected payload; returns its id."""
        call = jobs.resubmit(job_id, payload, actor=actor, reason=reason, tenant_id=tenant_id)
        return run(connection, call)


class AsyncClient:
    """`Client` for asynchronous connections: psycopg, asyncpg, SQLAlchemy; the same verbs."""

    async def run(self, connection: object, statement: Statement[T]) -> T:
        """Run any call or read of `hudhud.store` on a connection."""
        return await arun(connection, statement)

    async def enqueue(
        self, connection: object, new_job: NewJob, *, notify: bool = True
    ) -> Enqueued:
        """Make a job, or find the one that has its key; see `store.jobs.enqueue` for errors."""
        return await arun(connection, jobs.enqueue(followed_by_job(new_job), notify=notify))

    async def enqueue_many(
        self, connection: object, new_jobs: Iterable[NewJob], *, notify: bool = True
    ) -> list[Enqueued]:
        """Make many jobs in one statement; one result per job, in order."""
        return await arun(
            connection, jobs.enqueue_many(map(followed_by_job, new_jobs), notify=notify)
        )

    async def publish(
        self, connection: object, new_event: NewEvent, *, notify: bool = True
    ) -> Published:
        """Write an event: it happened if the transaction commits; see `store.events.publish`."""
        return await arun(connection, events.publish(followed_by_event(new_event), notify=notify))

    async def publish_many(
        self, connection: object, new_events: Iterable[NewEvent], *, notify: bool = True
    ) -> list[Published]:
        """Write many events in one statement; one result per event, in order."""
        call = events.publish_many(map(followed_by_event, new_events), notify=notify)
        return await arun(connection, call)

    async def take_in(
        self, connection: object, consumer: str, event_id: UUID, *, tenant_id: str = "default"
    ) -> bool:
        """Take an event into a consumer's inbox; True the first time, and only then act on it.

        In the transaction that does what follows: if that rolls back, the event is as new again.
        See `store.idempotency.take_in` for the rest.
        """
        return await arun(connection, idempotency.take_in(consumer, event_id, tenant_id=tenant_id))

    async def status(
        self, connection: object, job_id: UUID, *, tenant_id: str | None = None
    ) -> JobStatus | None:
        """Return how a job stands, None when there is none."""
        return status_of(await arun(connection, status_read(job_id, tenant_id)))

    async def cancel(
        self,
        connection: object,
        job_id: UUID,
        *,
        actor: str,
        reason: str | None = None,
        tenant_id: str | None = None,
    ) -> str:
        """Cancel a job; returns "cancelled", or "requested" when a worker runs it."""
        return await arun(
            connection, jobs.cancel(job_id, actor=actor, reason=reason, tenant_id=tenant_id)
        )

    async def reschedule(
        self,
        connection: object,
        job_id: UUID,
        available_at: datetime | None,
        *,
        actor: str,
        reason: str | None = None,
        tenant_id: str | None = None,
    ) -> None:
        """Let a waiting job become available at another instant; None: now."""
        call = jobs.reschedule(
            job_id, available_at, actor=actor, reason=reason, tenant_id=tenant_id
        )
        await arun(connection, call)

    async def replay(
        self,
        connection: object,
        job_id: UUID,
        *,
        actor: str,
        reason: str,
        tenant_id: str | None = None,
    ) -> UUID:
        """Run a dead job again as a new job with the same payload; returns the new job's id."""
        return await arun(
            connection, jobs.replay(job_id, actor=actor, reason=reason, tenant_id=tenant_id)
        )

    async def resubmit(
        self,
        connection: object,
        job_id: UUID,
        payload: Mapping[str, object],
        *,
        actor: str,
        reason: str,
        tenant_id: str | None = None,
    ) -> UUID:
        """Run a dead job again as a new job with a corrected payload; returns its id."""
        call = jobs.resubmit(job_id, payload, actor=actor, reason=reason, tenant_id=tenant_id)
        return await arun(connection, call)
