"""Random verbs on several connections: the database and MOVES agree on every status.

A model of the queue, a few dozen lines of plain rules, predicts what each verb does; `MOVES` and
`TURNS` must allow it, and the database must show it. What the model says is refused, the database
refuses. After every step each job is in exactly one place, or in one lease, or has ended.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import psycopg
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from hudhud.domain.job import FINAL, MOVES, TURNS, Status
from tests.support.verbs import WORKER, Verbs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from tests.support.verbs import Row

T = TypeVar("T")

EXAMPLES: Final = int(os.environ.get("HUDHUD_MODEL_EXAMPLES", "20"))
STEPS: Final = 50
LEASE_SECONDS: Final = 30
SUSPECT_SECONDS: Final = 10
MAX_CRASHES: Final = 3
ENDED_BY: Final = {
    Status.SUCCEEDED: "succeed",
    Status.DEAD: "fail",
    Status.CANCELLED: "cancel",
}
WAITS: Final = (Status.PENDING, Status.RETRYABLE)


@dataclass(eq=False)
class Job:
    """What the model knows of a job. Times are seconds since the model's start."""

    id: UUID
    tenant: str
    key: str | None
    max_attempts: int
    expires: int | None
    due: int | None = None  # scheduled until then; None: ready, when it waits at all
    line: int = 2
    status: Status = Status.PENDING
    run: int = 1  # the next run, or the current one
    attempts: int = 0
    crashes: int = 0
    is_suspect: bool = False
    is_asked_to_stop: bool = False
    was_run_again: bool = False
    ends: list[str] = field(default_factory=list)

    def moves(self, verb: str) -> bool:
        """Whether MOVES allows a verb now."""
        return verb in MOVES[self.status]

    def move(self, verb: str, *, turned: str | None = None) -> None:
        """Do a verb, or what TURNS makes of it; both must be in the tables."""
        assert self.moves(verb), (self.status, verb)
        if turned is not None:
            assert turned in TURNS[verb], (verb, turned)
            verb = turned
        self.status = MOVES[self.status][verb]

    @property
    def is_ready(self) -> bool:
        return self.status in WAITS and self.due is None


@dataclass(eq=False)
class Lease:
    """A claim, and what it holds: jobs with the run that was claimed."""

    claim: Row
    runs: list[tuple[Job, int]]
    since: int
    until: int
    is_suspect: bool
    is_open: bool = True

    def holds(self, position: int) -> bool:
        """Whether the run at a position (from 0) has not ended."""
        job, run = self.runs[position]
        return self.is_open and job.run == run and job.status is Status.RUNNING


class New(NamedTuple):
    """A job to enqueue; times in seconds from now."""

    tenant: str
    key: str | None
    policy: str
    delay: int | None
    term: int | None
    max_attempts: int
    life: int | None


VERBS: Final = [
    *["enqueue"] * 4,
    *["claim"] * 5,
    *["finish"] * 5,
    "renew",
    *["rescue"] * 2,
    *["stage"] * 2,
    "prune",
    *["cancel"] * 2,
    "run now",
    "reschedule",
    "replay",
    "resubmit",
]
# The values that each field of New may have.
NEW: Final[list[list[Any]]] = [
    ["a", "b"],
    [None, None, "k", "l"],
    ["return_existing", "reject", "replace"],
    [None, None, None, 5],
    [None, 40],
    [1, 3, 20],
    [None, None, None, 50],
]


class Queue(RuleBasedStateMachine):
    """One queue, two tenants, three sessions and a clock that only moves when told."""

    dsn: str

    def __init__(self) -> None:
        super().__init__()
        self.connections = [
            psycopg.connect(self.dsn, autocommit=True, prepare_threshold=None) for _ in range(3)
        ]
        self.sessions = [Verbs(connection) for connection in self.connections]
        for connection in self.connections:
            connection.execute("set jit = off")  # a look at every job is worth no compiling
        self.now = 0
        self.jobs: list[Job] = []
        self.leases: list[Lease] = []
        self.keys: dict[tuple[str, str], tuple[Job, float]] = {}

    @override
    def teardown(self) -> None:
        self.sessions[0].empty()
        for connection in self.connections:
            connection.close()

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        """Draw by a seed: hypothesis's own draws cling to the simple, and a queue needs variety."""
        self.random = random.Random(seed)  # noqa: S311 - not for secrets
        self.sessions[0].take_clock()

    @rule()
    def act(self) -> None:
        verb = self.pick(VERBS)
        db = self.pick(self.sessions)
        note(verb)
        match verb:
            case "enqueue":
                self.enqueue(db, New(*(self.pick(values) for values in NEW)))
            case "claim":
                self.claim(db, self.pick([1, 2, 3, 4]))
            case "finish" | "renew":
                self.work(db, verb)
            case "rescue" | "stage" | "prune":
                self.maintain(db, verb)
            case _:
                self.operate(db, verb)

    def pick(self, values: Sequence[T]) -> T:
        return self.random.choice(values)

    # The verbs of those who make jobs.

    def enqueue(self, db: Verbs, new: New) -> None:
        key, holder = new.key, self.holder(new.tenant, new.key)
        options = {
            "tenant_id": new.tenant,
            "idempotency_key": key,
            "on_conflict": new.policy,
            "delay": None if new.delay is None else f"{new.delay} s",
            "unique_for": None if key is None or new.term is None else f"{new.term} s",
            "max_attempts": new.max_attempts,
            "expires_at": None if new.life is None else self.instant(new.life),
        }
        if holder is not None and new.policy == "return_existing":
            assert db.answer("enqueue", type="mail", payload={}, **options) == (holder.id, True)
            return
        if holder is not None and not (new.policy == "replace" and holder.moves("replace")):
            with db.refused("HH003", str(holder.id)):
                db.call("enqueue", type="mail", payload={}, **options)
            return
        answer = db.answer("enqueue", type="mail", payload={}, **options)
        assert answer.deduplicated is False
        if holder is not None:
            self.end_waiting(holder, "replace")
        expires = None if new.life is None else self.now + new.life
        job = Job(answer.id, new.tenant, key, new.max_attempts, expires)
        job.due = None if new.delay is None else self.now + new.delay
        self.jobs.append(job)
        if key is not None:
            until = float("inf") if new.term is None else self.now + new.term
            self.keys[new.tenant, key] = (job, until)

    def holder(self, tenant: str, key: str | None) -> Job | None:
        if key is None or (tenant, key) not in self.keys:
            return None
        job, until = self.keys[tenant, key]
        return job if until > self.now else None

    def end_waiting(self, job: Job, verb: str) -> None:
        job.move(verb)
        job.ends.append("cancel")

    # The verbs of a worker.

    def work(self, db: Verbs, verb: str) -> None:
        if not self.leases:
            return
        lease = self.pick(self.leases[-4:])
        if verb == "finish":
            self.finish(db, lease)
        else:
            self.renew(db, lease)

    def claim(self, db: Verbs, quantum: int) -> None:
        claim = db.claim(quantum, lease_seconds=LEASE_SECONDS, suspects=quantum)
        is_trying = any(
            one.is_open and one.is_suspect and one.since > self.now - SUSPECT_SECONDS
            for one in self.leases
        )
        ready = [job for job in self.jobs if job.is_ready and not (is_trying and job.line <= 0)]
        if claim is None:
            assert not ready
            return
        taken = [self.job(job_id) for job_id in claim.job_ids]
        self.check_choice(ready, taken, quantum)
        for position, job in enumerate(taken):
            assert job.is_ready
            job.move("claim")
            job.attempts += 1
            told = (claim.runs[position], claim.attempts[position], claim.crashes[position])
            assert told == (job.run, job.attempts, job.crashes)
        lease = Lease(
            claim,
            [(job, job.run) for job in taken],
            self.now,
            self.now + LEASE_SECONDS,
            is_suspect=taken[0].line <= 0,
        )
        self.leases.append(lease)
        self.expire(db, lease)

    def check_choice(self, ready: list[Job], taken: list[Job], quantum: int) -> None:
        """Suspects come apart; else a quantum of each tenant, those that come back first.

        The sessions are one worker's, and a worker waits with the next suspects.
        """
        lines = [job.line for job in ready]
        if -1 in lines or 0 in lines:
            expected = [-1] if -1 in lines else [0] * min(quantum, lines.count(0))
            assert [job.line for job in taken] == expected
            return
        for tenant in ("a", "b"):
            offered = sorted(job.line for job in ready if job.tenant == tenant)
            assert sorted(job.line for job in taken if job.tenant == tenant) == offered[:quantum]

    def expire(self, db: Verbs, lease: Lease) -> None:
        """Settle jobs past their expiry without a run, as a worker does."""
        late = [
            position
            for position, (job, _) in enumerate(lease.runs, 1)
            if job.expires is not None and job.expires <= self.now
        ]
        assert (lease.claim.expired or []) == late
        ends = [self.end(lease, position, "fail") for position in late]
        assert db.finish(lease.claim, closes=False, ends=ends) == (len(late), [], 0)
        for position in late:
            job, _ = lease.runs[position - 1]
            job.status = Status.PENDING if job.run == 1 else Status.RETRYABLE
            job.move("expire")
            job.ends.append("fail")

    def finish(self, db: Verbs, lease: Lease) -> None:
        ends: list[str | None] = [
            None,
            "part",
            "succeed",
            "retry",
            "retry",
            "snooze",
            "fail",
            "cancel",
            "hand_back",
        ]
        asked = [self.pick(ends) for _ in lease.runs]
        delay, closes = self.pick([0, 0, 7]), self.pick([True, False])
        answer = db.finish(
            lease.claim,
            closes=closes,
            parts=[(lease.claim, n) for n, verb in enumerate(asked, 1) if verb == "part"],
            ends=[
                self.end(lease, n, verb, delay=delay)
                for n, verb in enumerate(asked, 1)
                if verb not in {None, "part"}
            ],
        )
        settled, refused = 0, 0
        for position, verb in enumerate(asked):
            holds = lease.holds(position)
            if verb is not None:
                refused += not holds
            if holds and (verb is not None or closes):
                settled += 1
                job, _ = lease.runs[position]
                self.settle(job, "succeed" if verb in {None, "part"} else str(verb), delay)
        lost = [] if lease.is_open else [lease.claim.lease_id]
        assert answer == (settled, lost, refused)
        lease.is_open = lease.is_open and not closes

    def settle(self, job: Job, verb: str, delay: int) -> None:
        """End a job's run as asked, or as the rules turn it."""
        goes_on = verb in {"retry", "snooze", "hand_back"}
        if goes_on and job.is_asked_to_stop:
            job.move(verb, turned="cancel")
        elif verb == "retry" and (self.is_superseded(job) or job.attempts >= job.max_attempts):
            job.move(verb, turned="fail")
        else:
            job.move(verb)
        job.ends.append(ENDED_BY.get(job.status, verb))
        if job.status in FINAL:
            return
        job.is_suspect = job.is_suspect and verb == "hand_back"
        job.attempts -= verb != "retry"
        self.put_back(job, delay)

    def put_back(self, job: Job, delay: int) -> None:
        job.run += 1
        job.line = -1 if job.is_suspect else 1
        job.due = self.now + delay if delay else None

    def is_superseded(self, job: Job) -> bool:
        row = self.keys.get((job.tenant, job.key)) if job.key else None
        return row is not None and row[0] is not job

    def end(
        self, lease: Lease, position: int, verb: str | None, *, delay: int = 0
    ) -> dict[str, object]:
        return {
            "lease": str(lease.claim.lease_id),
            "position": position,
            "outcome": verb,
            "delay_seconds": delay,
        }

    def renew(self, db: Verbs, lease: Lease) -> None:
        renewed = db.answer(
            "renew",
            worker_id=WORKER,
            leases=[lease.claim.lease_id],
            lease_seconds=LEASE_SECONDS,
        )
        assert renewed == ([lease.claim.lease_id] if lease.is_open else [])
        if lease.is_open:
            lease.until = self.now + LEASE_SECONDS

    # The verbs of a maintainer.

    def maintain(self, db: Verbs, verb: str) -> None:
        seconds = self.pick([0, 1, 7, 31, 61])
        db.advance(seconds)
        self.now += seconds
        {"rescue": self.rescue, "stage": self.stage, "prune": self.prune}[verb](db)

    def rescue(self, db: Verbs) -> None:
        rescued, dead = 0, 0
        for lease in self.leases:
            if not lease.is_open or lease.until > self.now:
                continue
            held = [lease.runs[n][0] for n in range(len(lease.runs)) if lease.holds(n)]
            lease.is_open = False
            for job in held:
                self.lose(job, lease)
                rescued += job.status is Status.RETRYABLE
                dead += job.status is not Status.RETRYABLE
        assert db.answer("rescue", max_leases=100) == (rescued, dead)

    def lose(self, job: Job, lease: Lease) -> None:
        is_alone = len(lease.runs) == 1
        job.crashes += is_alone
        job.attempts -= lease.is_suspect and not is_alone
        is_over = job.attempts >= job.max_attempts or job.crashes >= MAX_CRASHES
        if job.is_asked_to_stop:
            job.move("rescue", turned="cancel")
        elif is_over or self.is_superseded(job):
            job.move("rescue", turned="fail")
        else:
            job.move("rescue")
        job.ends.append(ENDED_BY.get(job.status, "lost"))
        if job.status is Status.RETRYABLE:
            job.is_suspect = True
            self.put_back(job, 0)
            job.line = -1 if is_alone or lease.is_suspect else 0

    def stage(self, db: Verbs) -> None:
        due = [
            j for j in self.jobs if j.status in WAITS and j.due is not None and j.due <= self.now
        ]
        assert db.answer("stage") == len(due)
        for job in due:
            job.move("stage")
            job.due = None
            job.line = 2 if job.run == 1 else job.line

    def prune(self, db: Verbs) -> None:
        db.answer("prune")
        self.keys = {name: row for name, row in self.keys.items() if row[1] > self.now}

    # The verbs of an operator.

    def operate(self, db: Verbs, verb: str) -> None:
        if not self.jobs:
            return
        job = self.pick(self.jobs[-8:])
        if verb == "cancel":
            self.cancel(db, job)
        elif verb in {"run now", "reschedule"}:
            self.reschedule(db, job, None if verb == "run now" else 20)
        else:
            self.run_again(db, job, verb)

    def cancel(self, db: Verbs, job: Job) -> None:
        if not job.moves("cancel"):
            with db.refused("HH007", str(job.id)):
                db.call("cancel", job_id=job.id, actor="ann")
            return
        answer = db.answer("cancel", job_id=job.id, actor="ann")
        if job.status is Status.RUNNING:
            assert answer == "requested"
            job.is_asked_to_stop = True
        else:
            assert answer == "cancelled"
            self.end_waiting(job, "cancel")

    def reschedule(self, db: Verbs, job: Job, delay: int | None) -> None:
        options = {"job_id": job.id, "available_at": None, "actor": "ann"}
        if delay is not None:
            options["available_at"] = self.instant(delay)
        if not job.moves("reschedule"):
            with db.refused("HH007", str(job.id)):
                db.call("reschedule", **options)
            return
        if delay is not None and job.expires is not None and job.expires <= self.now + delay:
            with db.refused("HH001", "expires"):
                db.call("reschedule", **options)
            return
        db.call("reschedule", **options)
        job.move("reschedule")
        job.due = None if delay is None else self.now + delay
        job.line = -1 if job.is_suspect else 1

    def run_again(self, db: Verbs, old: Job, verb: str) -> None:
        options: dict[str, object] = {"job_id": old.id, "actor": "ann", "reason": "again"}
        if verb == "resubmit":
            options["payload"] = {"n": 1}
        if old.status is not Status.DEAD or old.was_run_again:
            with db.refused("HH007", str(old.id)):
                db.call(verb, **options)
            return
        old.was_run_again = True
        expires = old.expires if old.expires is not None and old.expires > self.now else None
        new = Job(db.answer(verb, **options), old.tenant, old.key, old.max_attempts, expires)
        self.jobs.append(new)
        if old.key is not None:
            row = self.keys.get((old.tenant, old.key))
            if row is not None and row[0] is old:
                self.keys[old.tenant, old.key] = (new, row[1])

    # What must always hold.

    @invariant()
    def agrees(self) -> None:
        told = {row.id: row for row in self.sessions[-1].rows(_SHOWN)}
        assert set(told) == {job.id for job in self.jobs}
        for job in self.jobs:
            row = told[job.id]
            assert (row.status, row.attempts, row.ends) == (job.status, job.attempts, job.ends)
            assert row.runs == list(range(1, len(job.ends) + 1)), "runs are dense"
            assert row.is_settled is (job.status in FINAL)
            is_running = job.status is Status.RUNNING
            expected = (int(job.status in WAITS), int(is_running))
            assert (row.places, row.leases) == expected, "in one place, or one lease, or ended"
            if job.status in WAITS:
                assert (row.place_run, row.crashes) == (job.run, job.crashes)
                assert row.waiting_for == (None if job.due is None else "time")

    def job(self, job_id: UUID) -> Job:
        (found,) = (job for job in self.jobs if job.id == job_id)
        return found

    def instant(self, seconds: int) -> Row:
        return self.sessions[0].value("select hudhud.clock() + make_interval(secs => %s)", seconds)


_SHOWN: Final = """
select s.id, s.status, s.attempts, s.waiting_for, p.places, p.run as place_run, p.crashes,
       coalesce(e.ends, '{}') as ends, coalesce(e.runs, '{}') as runs,
       coalesce(e.finals, 0) = 1 as is_settled,
       (select count(*) from hudhud.lease l, unnest(l.job_ids, l.runs) r(job_id, run)
        where r.job_id = s.id and not exists (
            select from hudhud.outcome o where o.job_id = r.job_id and o.run = r.run)) as leases
from hudhud.job_status s
left join lateral (
    select count(*) as places, max(run) as run, max(crashes) as crashes from (
        select run, crashes from hudhud.ready where job_id = s.id
        union all select run, crashes from hudhud.scheduled where job_id = s.id
        union all select run, crashes from hudhud.waiting where job_id = s.id) w
) p on true
left join lateral (
    select array_agg(outcome order by run) as ends, array_agg(run order by run) as runs,
           count(*) filter (where outcome in ('succeed', 'fail', 'cancel')) as finals
    from hudhud.outcome where job_id = s.id
) e on true
"""


def test_the_database_makes_exactly_the_moves_of_the_table(database: str) -> None:
    Queue.dsn = database
    run_state_machine_as_test(
        Queue,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
