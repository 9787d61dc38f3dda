"""Who enqueues waits for nobody else who does, and leaves nothing when rolled back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.sessions import Sessions
    from tests.support.verbs import Value, Verbs

Enqueue: TypeAlias = "Callable[..., None]"

TABLES = (
    "job",
    "ready",
    "scheduled",
    "waiting",
    "idempotency",
    "range",
    "range_new",
    "outcome",
    "audit",
)


def one(db: Verbs, **options: Value) -> None:
    db.call("enqueue", type="mail", payload={}, **options)


def many(db: Verbs, **options: Value) -> None:
    arrays = {f"{name}s": [value] for name, value in options.items()}
    db.call("enqueue_many", types=["mail"], payloads=[{}, {}], **arrays)


@pytest.mark.parametrize("enqueue", [one, many])
@pytest.mark.parametrize("is_known", [True, False], ids=["known tenant", "new tenant"])
def test_an_enqueue_is_not_delayed_by_an_open_one_into_the_same_range(
    sessions: Sessions, enqueue: Enqueue, *, is_known: bool
) -> None:
    first, second = sessions.open(), sessions.open()
    same = {"tenant_id": "acme", "lane": "high", "queue": "post"}
    if is_known:
        one(first, **same)
        first.ranges("post")
    with first.connection.transaction(), second.connection.transaction():
        second.connection.execute("set local lock_timeout = '1ms'")
        enqueue(first, **same)
        enqueue(second, **same)


def test_a_claimer_folds_new_ranges_while_enqueues_are_open(sessions: Sessions) -> None:
    first, second, claimer = sessions.open(), sessions.open(), sessions.open()
    claimer.is_impatient = True
    with first.connection.transaction():
        one(first, tenant_id="open")
        one(second, tenant_id="done")
        assert claimer.ranges().tenants == ["done"]
        with second.connection.transaction():
            one(second, tenant_id="other")
            assert claimer.ranges().tenants == ["done"]
    assert set(claimer.ranges().tenants) == {"done", "open", "other"}


def test_an_enqueue_is_not_delayed_by_an_open_claim_finish_or_stage(sessions: Sessions) -> None:
    worker, other = sessions.open(), sessions.open()
    other.is_impatient = True
    one(worker)
    with worker.connection.transaction():
        claim = worker.claim_one()
        one(other)
        worker.end(claim, "retry")
        one(other)
        worker.answer("stage")
        one(other)


@pytest.mark.parametrize("enqueue", [one, many])
def test_a_rollback_leaves_neither_job_nor_key_nor_range(
    sessions: Sessions, enqueue: Enqueue
) -> None:
    """A49."""
    db = sessions.open()
    with db.connection.transaction(force_rollback=True):
        enqueue(db, queue="post", tenant_id="acme")
        db.call("enqueue", type="mail", payload={}, idempotency_key="k")
    for table in TABLES:
        assert db.value(f"select count(*) from hudhud.{table}") == 0, table  # noqa: S608


@pytest.mark.parametrize("enqueue", [one, many])
def test_a_rollback_to_a_savepoint_takes_back_the_enqueue_alone(
    sessions: Sessions, enqueue: Enqueue
) -> None:
    db = sessions.open()
    with db.connection.transaction():
        one(db, queue="kept")
        with db.connection.transaction(force_rollback=True):
            enqueue(db, queue="gone")
    assert db.values("select queue from hudhud.ready") == ["kept"]


def test_a_job_is_claimable_when_its_transaction_commits_and_not_before(
    sessions: Sessions,
) -> None:
    """A49."""
    user, worker = sessions.open(), sessions.open()
    user.connection.execute("create table if not exists public.business (id integer)")
    with user.connection.transaction():
        one(user)
        user.connection.execute("insert into public.business values (1)")
        assert worker.claim() is None
        assert worker.claim(lanes=[2], tenants=["default"]) is None
    assert len(worker.claim().job_ids) == 1
    assert worker.value("select count(*) from public.business") == 1
    user.connection.execute("drop table public.business")


def test_a_prepared_transaction_takes_an_enqueue_without_a_hint(sessions: Sessions) -> None:
    db = sessions.open()
    db.connection.execute("begin")
    one(db)
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.connection.execute("prepare transaction 'with a hint'")
    db.connection.execute("begin")
    one(db, notify=False)
    db.connection.execute("prepare transaction 'without a hint'")
    assert db.claim() is None
    db.connection.execute("commit prepared 'without a hint'")
    assert len(db.claim().job_ids) == 1
