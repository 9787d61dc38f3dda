"""Idempotency keys of a batch: as for one job, and no two batches in each other's way."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import SECONDS

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Value, Verbs


def many(db: Verbs, keys: list[str | None], **arrays: Value) -> Row:
    payloads = [{"n": n} for n in range(len(keys))]
    return db.answer(
        "enqueue_many", types=["mail"], payloads=payloads, idempotency_keys=keys, **arrays
    )


def test_a_batch_finds_the_jobs_that_have_its_keys(db: Verbs) -> None:
    known = db.enqueue(idempotency_key="b")
    answer = many(db, ["a", "b", None, "c", "b"])
    assert answer.deduplicated == [False, True, False, False, True]
    assert answer.ids[1] == answer.ids[4] == known
    assert db.value("select count(*) from hudhud.job") == 4
    assert many(db, ["c", "a"]).ids == [answer.ids[3], answer.ids[0]]


def test_a_key_that_a_batch_names_twice_goes_to_the_first(db: Verbs) -> None:
    answer = many(db, ["a", "a", "a"])
    assert answer.deduplicated == [False, True, True]
    assert len(set(answer.ids)) == 1
    assert db.values("select payload ->> 'n' from hudhud.job") == ["0"]


@pytest.mark.parametrize("policy", ["reject", "replace"])
def test_a_key_that_a_batch_names_twice_is_refused_where_one_must_win(
    db: Verbs, policy: str
) -> None:
    with db.refused("HH003", "position 3", "'a'"):
        many(db, [None, "a", "a"], on_conflicts=[policy])


def test_a_key_that_no_index_row_holds_is_refused_with_its_position(db: Verbs) -> None:
    """Each option is within its own limit; together, in letters of three bytes, they are not."""
    options = {"types": ["\u8a9e" * 200], "tenant_ids": ["\u8a9e" * 200]}
    with db.refused("HH001", "position 2", "2,600 bytes"):
        db.call(
            "enqueue_many",
            payloads=[{}, {}],
            idempotency_keys=["k", "\u8a9e" * 500],
            **options,
        )
    ids, _ = db.answer("enqueue_many", payloads=[{}], idempotency_keys=["\u8a9e" * 466], **options)
    assert len(ids) == 1


def test_policies_of_one_batch_hold_each_for_its_job(db: Verbs) -> None:
    old = {key: db.enqueue(idempotency_key=key) for key in ("r", "e")}
    policies = ["replace", "return_existing", "reject"]
    answer = many(db, ["r", "e", "free"], on_conflicts=policies)
    assert answer.deduplicated == [False, True, False]
    assert db.status(old["r"]).last_error_code == "replaced"
    with db.refused("HH003", "position 2", "'e'", f"DETAIL:  {old['e']}"):
        many(db, ["new", "e"], on_conflicts=["reject"])
    assert db.values("select key from hudhud.idempotency order by 1") == ["e", "free", "r"]


def test_each_job_of_a_batch_has_a_scope_and_a_term_of_its_own(clocked: Verbs) -> None:
    arrays = {
        "tenant_ids": ["a", "b", "a"],
        "types": ["mail", "mail", "sms"],
        "unique_for": [timedelta(minutes=1), None, timedelta(minutes=3)],
        "payloads": [{}] * 3,
        "idempotency_keys": ["k"] * 3,
    }
    assert clocked.answer("enqueue_many", **arrays).deduplicated == [False] * 3
    clocked.advance(60)
    assert clocked.answer("enqueue_many", **arrays).deduplicated == [False, True, True]
    clocked.advance(120)
    assert clocked.answer("enqueue_many", **arrays).deduplicated == [False, True, False]


def test_jobs_without_a_key_stand_beside_those_with_one(db: Verbs) -> None:
    answer = many(db, [None, "a", None])
    assert answer.deduplicated == [False] * 3
    assert many(db, [None, None]).deduplicated == [False] * 2
    assert db.value("select count(*) from hudhud.idempotency") == 1


def test_unique_by_and_keys_exclude_each_other(db: Verbs) -> None:
    with db.refused("HH001", "unique_by"):
        many(db, ["a"], unique_by=['"payload"'])


def test_unique_by_makes_a_key_per_job(db: Verbs) -> None:
    payloads = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 2}]
    by = ['["a"]', '["a"]', '"payload"', None]
    answer = db.answer("enqueue_many", types=["mail"], payloads=payloads, unique_by=by)
    assert answer.deduplicated == [False, True, False, False]
    again = db.answer("enqueue", type="mail", payload=payloads[1], unique_by=["payload"])
    assert again == (answer.ids[2], True)


def test_two_batches_in_opposite_order_make_each_job_once(sessions: Sessions) -> None:
    """A17: 1,000 items, 400 distinct keys, 100 of them known, twice in parallel."""
    first, second = sessions.open(), sessions.open()
    keys: list[str | None] = [f"k{n % 400}" for n in range(1_000)]
    many(first, [f"k{n}" for n in range(0, 400, 4)])

    asked = [
        sessions.start(lambda: many(first, keys)),
        sessions.start(lambda: many(second, keys[::-1])),
    ]
    forth, back = (answer.result(SECONDS) for answer in asked)

    assert first.value("select count(*) from hudhud.job") == 400
    assert forth.ids == back.ids[::-1]
    new = [not known for answer in (forth, back) for known in answer.deduplicated]
    assert sum(new) == 300


@pytest.mark.parametrize("policy", ["return_existing", "replace"])
def test_batches_over_each_others_keys_never_deadlock(sessions: Sessions, policy: str) -> None:
    """A17."""
    keys: list[str | None] = [f"k{n}" for n in range(20)]
    many(sessions.open(), keys[::2])

    def enqueue(db: Verbs, batch: list[str | None]) -> list[bool]:
        return many(db, batch, on_conflicts=[policy]).deduplicated  # type: ignore[no-any-return]

    batches = [keys, keys[::-1], keys[5:] + keys[:5], keys[1::2] + keys[::2]]
    opened = [sessions.open() for _ in batches]
    for _ in range(5):
        asked = [
            sessions.start(partial(enqueue, db, batch))
            for db, batch in zip(opened, batches, strict=True)
        ]
        for answer in asked:
            assert len(answer.result(SECONDS)) == 20

    held = opened[0].values(
        "select s.status from hudhud.idempotency k join hudhud.job_status s on s.id = k.job_id"
    )
    assert held == ["pending"] * 20
