"""ranges: which scan ranges a queue has, told once, by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.sessions import SECONDS

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs


def pairs(db: Verbs, queue: str = "default", after: int = 0) -> tuple[list[tuple[int, str]], int]:
    told = db.answer("ranges", queue=queue, after=after)
    return list(zip(told.lanes, told.tenants, strict=True)), told.newest


def test_a_queue_without_jobs_has_no_ranges(db: Verbs) -> None:
    assert pairs(db) == ([], 0)


def test_a_range_is_a_lane_of_a_tenant_in_a_queue(db: Verbs) -> None:
    for tenant, lane in (("a", "high"), ("b", "high"), ("a", "bulk"), ("a", "high")):
        db.enqueue(tenant_id=tenant, lane=lane)
    db.enqueue(queue="post")
    known, _ = pairs(db)
    assert sorted(known) == [(1, "a"), (1, "b"), (3, "a")]
    assert pairs(db, "post")[0] == [(2, "default")]


def test_only_what_is_new_is_told_again(db: Verbs) -> None:
    db.enqueue(tenant_id="a")
    known, newest = pairs(db)
    assert known == [(2, "a")]
    assert pairs(db, after=newest) == ([], newest)
    db.enqueue(tenant_id="a")
    db.enqueue(tenant_id="b")
    told, newer = pairs(db, after=newest)
    assert told == [(2, "b")]
    assert newer > newest
    assert sorted(pairs(db)[0]) == [(2, "a"), (2, "b")]


def test_a_known_range_is_not_appended_again(db: Verbs) -> None:
    db.enqueue()
    db.ranges()
    for _ in range(3):
        db.enqueue()
    assert db.value("select count(*) from hudhud.range_new") == 0


def test_ten_thousand_enqueues_without_a_claimer_fold_to_their_ranges(db: Verbs) -> None:
    db.connection.execute(
        "insert into hudhud.range_new (shard, queue, lane, tenant_id)"
        " select 0, 'default', 2, 't' || n % 3 from generate_series(1, 10000) n"
    )
    known: list[tuple[int, str]] = []
    newest = 0
    while db.value("select count(*) from hudhud.range_new"):
        told, newest = pairs(db, after=newest)
        known += told
    assert sorted(known) == [(2, "t0"), (2, "t1"), (2, "t2")]


def test_claimers_at_once_wait_for_nobody_and_miss_no_range(sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    first.enqueue(tenant_id="a")
    second.is_impatient = True
    with first.connection.transaction():
        assert pairs(first)[0] == [(2, "a")]
        told, newest = pairs(second)
        assert told == []
    assert pairs(second, after=newest)[0] == [(2, "a")]


def test_numbers_are_told_in_the_order_of_their_commits(sessions: Sessions) -> None:
    """Else a claimer that has seen a later one would never ask for an earlier one."""
    tenants = [f"t{n:02}" for n in range(40)]

    def enqueue(share: list[str]) -> None:
        session = sessions.open()
        for tenant in share:
            session.enqueue(tenant_id=tenant)

    def learn() -> set[str]:
        session, newest, seen = sessions.open(), 0, set[str]()
        while len(seen) < len(tenants):
            told, newest = pairs(session, after=newest)
            seen |= {tenant for _, tenant in told}
        return seen

    learned = [sessions.start(learn) for _ in range(3)]
    for n in range(4):
        sessions.start(lambda share=tenants[n::4]: enqueue(share))  # type: ignore[misc]
    for answer in learned:
        assert answer.result(SECONDS) == set(tenants)
