"""announce: types become known, with their queue and contract; held jobs are freed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import SECONDS

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Value, Verbs


def announce(db: Verbs, *types: dict[str, Value]) -> None:
    db.call("announce", types=list(types))


def hold(db: Verbs, type_: str = "mail", version: int = 1, **options: Value) -> Value:
    db.enqueue(type_, version=version, **options)
    return db.run("hand_back", code="no_handler")


def test_everything_that_is_announced_is_kept(clocked: Verbs) -> None:
    schema = {
        "required": {"id": "integer", "note": ["string", "null"]},
        "optional": {"a": "any"},
        "open": False,
    }
    options = {"queue": "post", "lane": "high", "max_attempts": 4, "max_crashes": 2}
    announce(clocked, {"type": "mail", "version": 3, "schema": schema} | options)
    row = clocked.row("select * from hudhud.job_type")
    assert (row.type, row.version, row.queue, row.lane) == ("mail", 3, "post", 1)
    assert (row.max_attempts, row.max_crashes, row.is_open) == (4, 2, False)
    assert row.field_names == ["a", "id", "note"]
    assert row.field_types == ["|any|", "|integer|", "|string|null|"]
    assert row.field_needed == [False, True, True]
    assert row.announced_at == clocked.value("select hudhud.clock()")


def test_what_is_left_out_has_its_default(db: Verbs) -> None:
    db.connection.execute("update hudhud.setting set max_crashes = 5")
    announce(db, {"type": "mail", "version": 1})
    row = db.row("select * from hudhud.job_type")
    assert (row.queue, row.lane, row.max_attempts, row.max_crashes) == ("default", 2, 20, 5)
    assert (row.field_names, row.is_open) == ([], True)


def test_a_later_announcement_replaces_an_earlier_one(db: Verbs) -> None:
    announce(db, {"type": "mail", "version": 1, "queue": "a"}, {"type": "sms", "version": 1})
    announce(db, {"type": "mail", "version": 1, "queue": "b"}, {"type": "mail", "version": 2})
    told = db.rows("select type, version, queue from hudhud.job_type order by 1, 2")
    assert told == [("mail", 1, "b"), ("mail", 2, "default"), ("sms", 1, "default")]


def test_announcing_nothing_is_no_error(db: Verbs) -> None:
    db.call("announce", types="[]")


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"lane": "urgent"}, "lane"),
        ({"version": 0}, "version"),
        ({"version": None}, "version"),
        ({"type": None}, "type"),
        ({"type": ""}, "type"),
        ({"queue": "!x"}, "queue"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_crashes": 0}, "max_crashes"),
        ({"schema": {"required": {"a": "text"}}}, "$.a"),
        ({"schema": {"optional": {"a": ["string", "int"]}}}, "$.a"),
        ({"schema": {"optional": {"a": []}}}, "$.a"),
    ],
    ids=str,
)
def test_a_wrong_announcement_is_refused_by_the_name_of_what_is_wrong(
    db: Verbs, wrong: dict[str, Value], word: str
) -> None:
    """Else every enqueue of that type would be refused, or go where nobody meant it to."""
    with db.refused("HH001", word):
        announce(db, {"type": "mail", "version": 1} | wrong)
    assert db.value("select count(*) from hudhud.job_type") == 0


def test_jobs_that_were_held_for_the_type_are_freed(db: Verbs) -> None:
    freed = [hold(db), hold(db, lane="bulk")]
    kept = [hold(db, version=2), hold(db, "sms")]
    announce(db, {"type": "mail", "version": 1}, {"type": "push", "version": 1})
    assert [db.place(job_id) for job_id in freed + kept] == ["ready"] * 2 + ["waiting"] * 2
    claim = db.claim()
    assert (claim.runs, claim.attempts) == ([2, 2], [1, 1])


def test_more_held_jobs_than_one_step_frees_are_freed_by_stage(clocked: Verbs) -> None:
    clocked.call("enqueue_many", types=["mail"], payloads=[{}] * 1_005)
    claim = clocked.claim(2_000)
    ends = [
        {"lease": str(claim.lease_id), "position": n, "outcome": "hand_back", "code": "no_handler"}
        for n in range(1, 1_006)
    ]
    assert clocked.finish(claim, ends=ends).settled == 1_005
    clocked.advance(6)
    clocked.call(
        "register_worker",
        worker_id="00000000-0000-0000-0000-000000000007",
        name="w",
        host="h",
        pid=1,
        queues=["default"],
        contracts=["mail:1"],
        release="1",
    )
    announce(clocked, {"type": "mail", "version": 1})
    clocked.answer("stage")
    assert clocked.value("select count(*) from hudhud.ready") == 1_005


def test_workers_that_announce_at_once_in_any_order_do_not_deadlock(sessions: Sessions) -> None:
    """A42: a fleet starts at once."""
    kinds: list[dict[str, Value]] = [{"type": f"t{n:02}", "version": 1} for n in range(20)]

    def start(order: list[dict[str, Value]]) -> None:
        session = sessions.open()
        for _ in range(10):
            announce(session, *order)

    asked = [
        sessions.start(lambda: start(kinds)),
        sessions.start(lambda: start(kinds[::-1])),
        sessions.start(lambda: start(kinds[7:] + kinds[:7])),
    ]
    for answer in asked:
        answer.result(SECONDS)
    assert sessions.open().value("select count(*) from hudhud.job_type") == 20
