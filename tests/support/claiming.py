"""A worker by hand: registered, claiming under real leases, running nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from uuid import UUID, uuid4

import psycopg

from hudhud.domain.job import NewJob
from hudhud.drivers.base import run
from hudhud.store import jobs, runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hudhud.store.call import Statement
    from hudhud.store.runs import Claimed

T = TypeVar("T")

TYPE = "count"


class Claiming:
    """One worker id and an autocommit connection."""

    def __init__(self, url: str) -> None:
        self.worker_id = uuid4()
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        worker = runs.NewWorker(
            self.worker_id, "by hand", "here", 1, ["default"], [f"{TYPE}:1"], "0"
        )
        self.run(runs.register_worker(worker))

    def run(self, statement: Statement[T]) -> T:
        return run(self.connection, statement)

    def enqueue(self, amount: int = 1) -> list[UUID]:
        new_jobs = [NewJob(TYPE, {"n": n}) for n in range(amount)]
        return [made.id for made in self.run(jobs.enqueue_many(new_jobs))]

    def claim(self, amount: int = 1, *, lease_seconds: int = 30) -> Claimed:
        """Claim jobs of the default queue; there must be some."""
        known = self.run(runs.ranges("default"))
        request = runs.ClaimRequest(
            self.worker_id,
            "default",
            known.lanes,
            known.tenants,
            [0] * len(known.lanes),
            [amount] * len(known.lanes),
            lease_seconds,
        )
        claimed = self.run(runs.claim(request))
        assert claimed is not None
        return claimed

    def locked_until(self, lease_id: UUID) -> datetime | None:
        return self._value("select locked_until from hudhud.lease where id = %s", [lease_id])

    def seen_at(self) -> datetime | None:
        return self._value("select seen_at from hudhud.worker where id = %s", [self.worker_id])

    def close(self) -> None:
        self.connection.close()

    def _value(self, query: str, values: Sequence[object]) -> datetime | None:
        row = self.connection.execute(query.encode(), values).fetchone()
        return row[0] if row else None
