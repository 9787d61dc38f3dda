"""claim: exactly as many as asked, each job to one worker, in the order that is promised."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from hudhud.worker.mark import Mark
from tests.support.sessions import SECONDS
from tests.support.verbs import WORKER, end
from tests.support.wait import until

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Value, Verbs

NORMAL: dict[str, Any] = {"lanes": [2], "tenants": ["default"]}


def fill(db: Verbs, amount: int, **arrays: Value) -> list[UUID]:
    payloads = [{"n": n} for n in range(amount)]
    row = db.answer("enqueue_many", **({"types": ["mail"], "payloads": payloads} | arrays))
    return row.ids  # type: ignore[no-any-return]


def numbers(claim: Row) -> list[int]:
    return [json.loads(payload)["n"] for payload in claim.payloads]


def started(claim: Row) -> list[int]:
    """Return the numbers of a claim's jobs in the order in which a worker starts them."""
    told = numbers(claim)
    return [told[turn - 1] for turn in claim.turns] if claim.turns else told


def test_a_claim_of_nothing_is_no_row_and_no_lease(db: Verbs) -> None:
    assert db.claim() is None
    assert db.claim(**NORMAL) is None
    assert db.value("select count(*) from hudhud.lease") == 0


def test_a_claim_tells_everything_that_a_run_needs(clocked: Verbs) -> None:
    expires_at = datetime(2090, 1, 2, tzinfo=UTC)
    plain = clocked.enqueue("mail", {"a": 1.50})
    full = clocked.enqueue(
        "sms",
        {"n": 18446744073709551615},
        version=2,
        max_attempts=5,
        idempotency_key="k",
        correlation_id="c",
        traceparent="t",
        tags=["x", "y"],
        expires_at=expires_at,
    )
    claim = clocked.claim()
    assert claim.job_ids == [plain, full]
    assert (claim.runs, claim.attempts, claim.crashes) == ([1, 1], [1, 1], [0, 0])
    assert (claim.types, claim.versions) == (["mail", "sms"], [1, 2])
    assert (claim.tenant_ids, claim.max_attempts) == (["default"] * 2, [20, 5])
    assert claim.payloads == ['{"a": 1.5}', '{"n": 18446744073709551615}']
    assert claim.extras[0] is None
    extras = json.loads(claim.extras[1])
    assert datetime.fromisoformat(extras.pop("expires_at")) == expires_at
    assert extras == {
        "idempotency_key": "k",
        "correlation_id": "c",
        "traceparent": "t",
        "tags": ["x", "y"],
    }
    assert claim.expired is None


def test_a_claim_writes_one_lease_until_the_databases_clock_says(clocked: Verbs) -> None:
    """A04."""
    ids = fill(clocked, 3)
    claim = clocked.claim(lease_seconds=45)
    lease = clocked.row("select * from hudhud.lease")
    now = clocked.value("select hudhud.clock()")
    assert (lease.id, lease.worker_id, lease.queue) == (claim.lease_id, WORKER, "default")
    assert (lease.claimed_at, lease.locked_until) == (now, now + timedelta(seconds=45))
    assert (lease.job_ids, lease.runs, lease.attempts) == (ids, [1] * 3, [1] * 3)
    status = clocked.status(ids[0])
    assert (status.status, status.attempts) == ("running", 1)
    assert (status.locked_by, status.locked_until) == (WORKER, lease.locked_until)


def test_a_replay_is_told_its_root(db: Verbs) -> None:
    root = db.enqueue()
    db.run("fail")
    again = db.answer("replay", job_id=root, actor="ann", reason="again")
    claim = db.claim_one()
    assert claim.job_ids == [again]
    assert json.loads(claim.extras[0])["root_id"] == str(root)


def test_jobs_past_their_expiry_are_told_by_position(clocked: Verbs) -> None:
    now = clocked.value("select hudhud.clock()")
    expiries = [None, now + timedelta(seconds=9), now + timedelta(seconds=11), now]
    fill(clocked, 4, expires_at=expiries)
    clocked.advance(9)
    claim = clocked.claim()
    assert numbers(claim) == [0, 1, 2, 3]
    assert claim.expired == [2, 4]


def test_a_row_of_a_job_that_somebody_deleted_shifts_no_other(db: Verbs) -> None:
    ids = fill(db, 3)
    db.connection.execute("delete from hudhud.job where id = %s", [ids[1]])
    claim = db.claim()
    assert claim.job_ids == ids
    assert [payload and json.loads(payload)["n"] for payload in claim.payloads] == [0, None, 2]
    assert claim.types == ["mail", None, "mail"]
    assert db.finish(claim, ends=[end(claim, "retry", 2)]).settled == 3


def test_of_each_range_at_most_its_quantum_is_taken(db: Verbs) -> None:
    fill(db, 10, tenant_ids=["a"])
    fill(db, 10, tenant_ids=["b"])
    fill(db, 2, tenant_ids=["c"])
    ask: dict[str, Any] = {"lanes": [2] * 3, "tenants": ["a", "b", "c"], "marks": [0] * 3}
    claim = db.claim(**ask, quanta=[3, 0, 5])
    assert claim.counts == [3, 0, 2]
    assert claim.tenant_ids == ["a"] * 3 + ["c"] * 2
    claim = db.claim(**ask, quanta=[20, 20, 20])
    assert claim.counts == [7, 10, 0]


def test_only_the_ranges_asked_for_are_looked_at(db: Verbs) -> None:
    fill(db, 1, tenant_ids=["a"])
    fill(db, 1, tenant_ids=["a"], lanes=["high"])
    fill(db, 1, tenant_ids=["b"])
    fill(db, 1, tenant_ids=["a"], queues=["post"])
    claim = db.claim(lanes=[2], tenants=["a"])
    assert (claim.tenant_ids, claim.counts) == (["a"], [1])
    assert db.claim(lanes=[2], tenants=["a"]) is None


def test_urgent_lanes_come_first(db: Verbs) -> None:
    lanes = ["bulk", "normal", "critical", "high", "bulk", "critical"]
    fill(db, 6, lanes=lanes)
    claim = db.claim()
    assert numbers(claim) == [0, 1, 2, 3, 4, 5]
    assert started(claim) == [2, 5, 3, 1, 0, 4]


def test_within_a_lane_what_comes_back_is_started_before_first_runs(db: Verbs) -> None:
    fill(db, 3, lanes=["bulk", "bulk", "high"])
    claim = db.claim()
    db.finish(claim, ends=[end(claim, "retry", n) for n in (2, 3)])
    fill(db, 2, lanes=["bulk", "high"])
    claim = db.claim()
    lanes = [{1: "high", 3: "bulk"}[lane] for lane in db.values(_LANES, claim.job_ids)]
    told = [(lanes[turn - 1], claim.runs[turn - 1]) for turn in claim.turns]
    assert told == [("high", 2), ("high", 1), ("bulk", 2), ("bulk", 1)]


_LANES = "select lane from hudhud.job where id = any (%s) order by id"


def test_a_lane_is_walked_in_the_order_of_its_enqueues(db: Verbs) -> None:
    fill(db, 50)
    fill(db, 50)
    taken = [number for _ in range(10) for number in numbers(db.claim(10))]
    assert taken == [*range(50), *range(50)]


def test_jobs_that_come_back_are_taken_before_first_runs(db: Verbs) -> None:
    first, second, third = fill(db, 3)
    claim = db.claim(2)
    db.finish(claim, ends=[end(claim, "retry", 1), end(claim, "hand_back", 2)])
    assert db.claim(2).job_ids == [first, second]
    assert db.claim(2).job_ids == [third]


def test_jobs_that_come_back_count_towards_the_quantum_and_not_towards_the_mark(
    db: Verbs,
) -> None:
    back, *fresh = fill(db, 5)
    db.run("retry")
    claim = db.claim(3)
    assert claim.job_ids == [back, *fresh[:2]]
    assert claim.counts == [3]
    top = db.value("select max(seq) from hudhud.ready")
    assert claim.tops == [top - 2]
    db.finish(claim, ends=[end(claim, "retry", n) for n in (1, 2, 3)])
    assert db.claim(3).tops == [None]


def test_a_mark_hides_what_lies_at_or_below_it(db: Verbs) -> None:
    fill(db, 5)
    seqs = db.values("select seq from hudhud.ready order by seq")
    claim = db.claim(**NORMAL, marks=[seqs[1]])
    assert numbers(claim) == [2, 3, 4]
    assert claim.tops == [seqs[4]]
    assert numbers(db.claim(**NORMAL)) == [0, 1]


def test_a_mark_does_not_hide_what_comes_back(db: Verbs) -> None:
    fill(db, 1)
    job_id = db.run("retry")
    assert db.claim(**NORMAL, marks=[10**15]).job_ids == [job_id]


def test_a_suspect_is_claimed_alone_and_first(clocked: Verbs) -> None:
    """A11."""
    ids = fill(clocked, 3)
    clocked.claim(2)
    clocked.advance(31)
    assert clocked.answer("rescue") == (2, 0)
    fill(clocked, 1, lanes=["critical"])
    taken = [clocked.claim(100, worker_id=uuid4()) for _ in range(3)]
    assert [claim.job_ids for claim in taken[:2]] == [[ids[0]], [ids[1]]]
    assert (taken[0].tops, taken[0].counts) == (None, None)
    assert len(taken[2].job_ids) == 2
    assert clocked.claim(100) is None


def test_a_worker_tries_one_suspect_at_a_time_beside_its_other_work(clocked: Verbs) -> None:
    """A11: or the death of one costs the others a second attempt, and counts against them."""
    fill(clocked, 3)
    clocked.claim(3)
    clocked.advance(31)
    assert clocked.answer("rescue") == (3, 0)
    first = clocked.claim(100)
    assert len(first.job_ids) == 1
    assert clocked.claim(100) is None
    fresh = fill(clocked, 2)
    assert clocked.claim(100).job_ids == fresh
    clocked.end(first, "succeed")
    second = clocked.claim(100)
    assert (len(second.job_ids), second.tops) == (1, None)
    # One that has lived for a while lets the next one begin.
    clocked.advance(10)
    third = clocked.claim(100)
    assert (len(third.job_ids), third.tops) == (1, None)


def test_as_many_suspects_are_claimed_as_are_asked_for_and_nobody_beside_them(
    clocked: Verbs,
) -> None:
    """A11: a worker asks for more of them the more it has lived through."""
    fill(clocked, 5)
    clocked.claim(5)
    clocked.advance(31)
    assert clocked.answer("rescue") == (5, 0)
    fresh = fill(clocked, 2)
    first = clocked.claim(100, suspects=2)
    assert (len(first.job_ids), first.tops) == (2, None)
    assert clocked.claim(100, suspects=100).job_ids == fresh
    clocked.finish(first)
    second = clocked.claim(100, suspects=100)
    assert (len(second.job_ids), second.job_ids) == (3, sorted(second.job_ids))


def test_a_suspect_that_must_be_alone_goes_before_the_others(clocked: Verbs) -> None:
    """A11: its last run was lost beside other suspects, or it was alone when it was lost."""
    ids = fill(clocked, 4)
    clocked.claim(4)
    clocked.advance(31)
    clocked.answer("rescue")
    together = clocked.claim(100, suspects=2)
    clocked.advance(31)
    assert clocked.answer("rescue") == (2, 0)
    for expected in together.job_ids:
        alone = clocked.claim(100, suspects=100)
        assert alone.job_ids == [expected]
        clocked.finish(alone)
    assert clocked.claim(100, suspects=100).job_ids == [
        job_id for job_id in ids if job_id not in together.job_ids
    ]


def test_a_claim_of_one_queue_leaves_the_others_alone(db: Verbs) -> None:
    fill(db, 2, queues=["post", "bank"])
    assert numbers(db.claim(queue="bank")) == [1]
    assert db.value("select queue from hudhud.ready") == "post"


@pytest.mark.parametrize("limit", [1, 7])
@pytest.mark.parametrize(
    "off",
    [
        (),
        ("enable_hashjoin", "enable_mergejoin", "enable_material"),
        ("enable_nestloop", "enable_hashjoin"),
        ("enable_indexscan", "enable_bitmapscan", "enable_indexonlyscan"),
        ("enable_tidscan", "enable_sort"),
    ],
    ids=str,
)
def test_the_limit_holds_whatever_the_planner_believes(
    db: Verbs, limit: int, off: tuple[str, ...]
) -> None:
    """A40: 10,000 rows, statistics of an empty table, claimed and owned exactly as many."""
    db.connection.execute("analyze hudhud.ready")
    db.connection.execute(_FILL)
    for switch in off:
        db.connection.execute(f"set local {switch} = off".encode())
    for turn in range(1, 4):
        claim = db.claim(limit, **NORMAL)
        assert len(claim.job_ids) == limit
        assert db.value("select count(*) from hudhud.ready") == 10_000 - turn * limit
        assert db.value("select sum(cardinality(job_ids)) from hudhud.lease") == turn * limit


_FILL = b"""
with new as (
    insert into hudhud.job (
        id, shard, version, lane, max_attempts, created_at, tenant_id, type, queue, payload)
    select id, 0, 1, 2, 20, clock_timestamp(), 'default', 'mail', 'default', '{}'
    from unnest(hudhud.new_ids(10000)) id
    returning id)
insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
select id, 1, 0, 2, 2, 0, 0, 'default', 'default' from new
"""


def test_claimers_at_once_never_share_a_job_and_leave_none(sessions: Sessions) -> None:
    fill(sessions.open(), 2_000)
    sessions.open().ranges()

    def drain(db: Verbs) -> list[UUID]:
        taken: list[UUID] = []
        while claim := db.claim(7, **NORMAL):
            assert len(claim.job_ids) <= 7
            taken += claim.job_ids
        return taken

    asked = [sessions.start(partial(drain, sessions.open())) for _ in range(4)]
    taken = [job_id for answer in asked for job_id in answer.result(SECONDS)]
    assert len(taken) == len(set(taken)) == 2_000
    assert sessions.open().value("select count(*) from hudhud.ready") == 0


def test_a_claim_skips_what_another_claim_holds_and_never_waits(sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    fill(first, 4)
    second.is_impatient = True
    with first.connection.transaction():
        held = first.claim(2, **NORMAL)
        assert numbers(held) == [0, 1]
        assert numbers(second.claim(2, **NORMAL)) == [2, 3]
        assert second.claim(2, **NORMAL) is None


def test_a_claim_skips_a_suspect_that_another_claim_holds(sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    first.take_clock()
    fill(first, 2)
    first.claim()
    first.advance(31)
    first.answer("rescue")
    with first.connection.transaction(force_rollback=True):
        held = first.claim()
        other = second.claim()
        assert len(held.job_ids) == len(other.job_ids) == 1
        assert held.job_ids != other.job_ids
    assert second.claim(worker_id=uuid4()).job_ids == held.job_ids


class Walker:
    """Claims one range as a claimer does: beyond its mark, and every second time from the start."""

    def __init__(self, db: Verbs) -> None:
        self.db = db
        self.mark = Mark()
        self.claims = 0

    def claim(self, *, is_look: bool = False) -> list[UUID]:
        self.claims += 1
        claim = self.db.claim(1, **NORMAL, marks=[0 if is_look else self.mark.seq])
        if claim is None:
            return []
        self.mark.visited(claim.tops[0], xid=claim.xid, xmin=claim.xmin, was_full=True)
        return claim.job_ids  # type: ignore[no-any-return]


def test_old_rows_of_a_claim_that_is_rolled_back_are_claimed_within_two_looks(
    sessions: Sessions,
) -> None:
    other, walker = sessions.open(), Walker(sessions.open())
    old, *rest = fill(other, 10)
    with other.connection.transaction(force_rollback=True):
        assert other.claim(1, **NORMAL).job_ids == [old]
        taken = [walker.claim() for _ in rest]
    assert taken == [[job_id] for job_id in rest]
    assert walker.mark.seq == 0
    assert [walker.claim(), walker.claim(is_look=True)].count([old]) == 1


def test_the_mark_waits_for_an_enqueue_that_commits_late(sessions: Sessions) -> None:
    user, other, walker = sessions.open(), sessions.open(), Walker(sessions.open())
    with user.connection.transaction():
        (late,) = fill(user, 1)
        ids = fill(other, 6)
        assert [walker.claim() for _ in range(4)] == [[job_id] for job_id in ids[:4]]
        assert walker.mark.seq == 0
    assert walker.claim() == [late]


def test_the_mark_moves_when_nothing_older_is_open(sessions: Sessions) -> None:
    db, walker = sessions.open(), Walker(sessions.open())
    fill(db, 5)
    seqs = db.values("select seq from hudhud.ready order by seq")
    for last in [0, 0, *seqs[:3]]:
        assert walker.mark.seq == last
        until(lambda: db.value(_NOTHING_IS_OPEN))
        walker.claim()
    assert walker.mark.seq == seqs[3]


# Of other tests on the same server either.
_NOTHING_IS_OPEN = """
    select pg_snapshot_xmin(pg_current_snapshot()) = pg_snapshot_xmax(pg_current_snapshot())
"""


def test_the_attempt_is_counted_when_the_job_is_claimed(db: Verbs) -> None:
    """A11: not when it fails, which a crash never does."""
    (job_id,) = fill(db, 1)
    assert db.status(job_id).attempts == 0
    db.claim_one()
    assert db.status(job_id).attempts == 1


def test_a_claim_need_not_wait_for_the_disk(sessions: Sessions) -> None:
    db = sessions.open()
    fill(db, 1)
    with db.connection.transaction():
        db.connection.execute("set local synchronous_commit = on")
        db.claim_one()
        assert db.value("show synchronous_commit") == "off"
