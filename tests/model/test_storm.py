"""Random verbs, really at once: whatever interleaves, no job is lost and each run ends once."""

from __future__ import annotations

import os
import random
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from tests.support.sessions import SECONDS, Sessions
from tests.support.verbs import end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from tests.support.verbs import Row, Verbs

STORMS: Final = int(os.environ.get("HUDHUD_MODEL_STORMS", "3"))
THREADS: Final = 6
VERBS_EACH: Final = 120
# Refusals that random verbs deserve. Anything else, a deadlock above all, is a fault.
DESERVED: Final = {"HH003", "HH007"}
KEYS: Final = [*[None] * 5, "a", "b", "c"]
FINAL: Final = {"succeed", "fail", "cancel"}


class Actor:
    """One thread's random verbs on its own session; jobs and leases are everybody's."""

    def __init__(self, db: Verbs, seed: str, *, jobs: list[UUID], leases: list[Row]) -> None:
        self.db = db
        self.random = random.Random(seed)  # noqa: S311 - not for secrets
        self.jobs = jobs
        self.leases = leases
        self.worker = uuid.uuid4()
        self.claimed: list[tuple[UUID, int]] = []

    def play(self) -> None:
        verbs: list[Callable[[], object]] = [
            *[self.enqueue] * 3,
            *[self.claim] * 6,
            *[self.finish] * 6,
            *[self.settle] * 2,
            self.renew,
            *[self.rescue] * 2,
            *[self.stage] * 2,
            self.prune,
            *[self.cancel] * 2,
            self.reschedule,
            self.replay,
        ]
        for _ in range(VERBS_EACH):
            try:
                self.random.choice(verbs)()
            except psycopg.Error as error:
                if error.sqlstate not in DESERVED:
                    raise

    def enqueue(self) -> None:
        keys = [self.random.choice(KEYS) for _ in range(self.random.randrange(1, 8))]
        row = self.db.answer(
            "enqueue_many",
            types=["mail"],
            payloads=[{}] * len(keys),
            idempotency_keys=keys,
            on_conflicts=[self.random.choice(["return_existing", "replace"])],
            unique_for=[self.random.choice([None, "5 s"]) if any(keys) else None],
            delays=[self.random.choice([None, None, "3 s"])],
            max_attempts=[self.random.choice([2, 20])],
        )
        self.jobs += row.ids

    def claim(self) -> None:
        claim = self.db.claim(self.random.randrange(1, 5), worker_id=self.worker, lease_seconds=10)
        if claim is not None:
            self.claimed += zip(claim.job_ids, claim.runs, strict=True)
            self.leases.append(claim)

    def finish(self) -> None:
        if not self.leases:
            return
        claim = self.random.choice(self.leases[-6:])
        ends = ["succeed", "retry", "retry", "snooze", "fail", "cancel", "hand_back"]
        named = [
            end(claim, self.random.choice(ends), n, delay_seconds=self.random.choice([0, 2]))
            for n in range(1, len(claim.job_ids) + 1)
            if self.random.random() < 0.6
        ]
        self.db.finish(claim, closes=self.random.random() < 0.6, ends=named)

    def settle(self) -> None:
        if not self.leases:
            return
        claim = self.random.choice(self.leases[-6:])
        with self.db.connection.transaction(force_rollback=self.random.random() < 0.3):
            self.db.call("settle", lease_id=claim.lease_id, place=1)

    def renew(self) -> None:
        leases = [claim.lease_id for claim in self.leases[-6:]]
        self.db.call("renew", worker_id=self.worker, leases=leases, lease_seconds=10)

    def rescue(self) -> None:
        self.db.advance(self.random.choice([0, 1, 4]))
        self.db.call("rescue")

    def stage(self) -> None:
        self.db.call("stage", max_jobs=self.random.choice([2, 100]))

    def prune(self) -> None:
        self.db.call("prune")

    def cancel(self) -> None:
        if self.jobs:
            self.db.call("cancel", job_id=self.random.choice(self.jobs[-20:]), actor="ann")

    def reschedule(self) -> None:
        if self.jobs:
            job_id = self.random.choice(self.jobs[-20:])
            self.db.call("reschedule", job_id=job_id, available_at=None, actor="ann")

    def replay(self) -> None:
        if self.jobs:
            job_id = self.random.choice(self.jobs[-20:])
            self.jobs.append(self.db.answer("replay", job_id=job_id, actor="ann", reason="again"))


@pytest.fixture
def sessions(database: str) -> Iterator[Sessions]:
    sessions = Sessions(database)
    yield sessions
    sessions.close()


@pytest.mark.parametrize("storm", range(STORMS))
def test_whatever_interleaves_each_run_ends_once_and_no_job_is_lost(
    sessions: Sessions, storm: int
) -> None:
    db = sessions.open()
    db.take_clock()
    jobs: list[UUID] = []
    leases: list[Row] = []
    actors = [
        Actor(sessions.open(), f"{storm} {n}", jobs=jobs, leases=leases) for n in range(THREADS)
    ]
    for playing in [sessions.start(actor.play) for actor in actors]:
        playing.result(2 * SECONDS)

    claimed = Counter(run for actor in actors for run in actor.claimed)
    assert len(claimed) > 100
    assert max(claimed.values()) == 1, "no two leases hold one run"
    rows = db.rows(_JOBS)
    assert {row.id for row in rows} == set(jobs)
    for row in rows:
        finals = [one for one in row.ends if one in FINAL]
        assert row.places + row.leases + len(finals) == 1, row
        assert finals == row.ends[-1:] or not finals, row
        assert row.runs == list(range(1, len(row.runs) + 1)), row
        assert not row.places or row.next_run == len(row.runs) + 1, row
        check_attempts(row, claimed)


def check_attempts(row: Row, claimed: Counter[tuple[UUID, int]]) -> None:
    """Attempts are counted by claims, and only by runs that failed or were lost."""
    attempts = 0
    for run, outcome, attempt in zip(row.runs, row.ends, row.attempts, strict=True):
        was_claimed = (row.id, run) in claimed
        assert attempt == attempts + was_claimed, row
        assert was_claimed or outcome == "cancel", row
        if outcome in {"retry", "lost"}:
            attempts = attempt
    assert not row.places or row.attempt == attempts, row


_JOBS: Final = """
select j.id, coalesce(e.ends, '{}') as ends, coalesce(e.runs, '{}') as runs,
       coalesce(e.attempts, '{}') as attempts, p.places, p.next_run, p.attempt,
       (select count(*) from hudhud.lease l, unnest(l.job_ids, l.runs) r(job_id, run)
        where r.job_id = j.id and not exists (
            select from hudhud.outcome o where o.job_id = r.job_id and o.run = r.run)) as leases
from hudhud.job j
left join lateral (
    select count(*) as places, max(run) as next_run, max(attempt) as attempt from (
        select run, attempt from hudhud.ready where job_id = j.id
        union all select run, attempt from hudhud.scheduled where job_id = j.id
        union all select run, attempt from hudhud.waiting where job_id = j.id) w
) p on true
left join lateral (
    select array_agg(outcome order by run) as ends, array_agg(run order by run) as runs,
           array_agg(attempt order by run) as attempts
    from hudhud.outcome where job_id = j.id
) e on true
"""
