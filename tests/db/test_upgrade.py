"""What a running session keeps, a migration beside it must not break."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.events import NAME, declare, publish, relay_all, subscribe
from tests.support.verbs import WORKER, end
from tests.support.wait import until

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs

TABLES = (
    *("job", "job_kept", "outcome", "outcome_kept", "ready", "scheduled", "waiting", "lease"),
    *("event", "event_job", "event_aggregate", "event_type", "subscription", "subscription_cursor"),
    *("database_epoch", "relay_state"),
    *("idempotency", "job_type", "worker", "queue", "setting", "cancel_request", "audit"),
)


def use_every_verb(db: Verbs) -> None:
    """Lead a few jobs through everything that can happen to one."""
    db.call("announce", types=[{"type": "mail", "version": 1}])
    ids = [db.enqueue(), db.enqueue(delay=timedelta(hours=1)), db.enqueue(idempotency_key="k")]
    db.call("enqueue_many", types=["mail"], payloads=[{}] * 3, idempotency_keys=["k", None, "l"])
    request = {"tenant_id": "acme", "key": str(ids[0]), "fingerprint": b"x"}
    assert db.answer("take_request", **request).state == "new"
    db.call("keep_answer", **request, answer="{}")
    assert db.answer("take_request", **request).state == "answered"
    assert db.answer("take_in", consumer="billing", event_id=ids[0]) is True
    claim = db.claim(10)
    db.call("renew", worker_id=WORKER, leases=[claim.lease_id], lease_seconds=30)
    db.answer("cancel", job_id=claim.job_ids[2], actor="ann")
    db.call("beat", worker_id=WORKER)
    db.answer("settle", lease_id=claim.lease_id, place=1)
    ends = [end(claim, "fail", 2), end(claim, "retry", 3), end(claim, "hand_back", 4)]
    assert db.finish(claim, ends=ends).settled == 3
    db.answer("replay", job_id=claim.job_ids[1], actor="ann", reason="again")
    db.call("reschedule", job_id=ids[1], available_at=None, actor="ann")
    lost = db.claim(10)
    db.connection.execute("update hudhud.lease set locked_until = '-infinity'")
    assert db.answer("rescue").rescued == len(lost.job_ids)
    assert db.status(ids[0]).status == "succeeded"
    db.run("snooze", delay_seconds=60)
    db.call("stage")
    db.call("prune")
    db.value("select hudhud.keep_survivors((clock_timestamp() at time zone 'UTC')::date)")
    db.enqueue(idempotency_key="k", on_conflict="return_existing")


def use_every_verb_of_events(db: Verbs) -> None:
    """Publish, route and keep house for one subscription."""
    declare(db, schema={"required": {"n": "integer"}})
    subscribe(db)
    for n in range(3):
        publish(db, n, aggregate_type="order", aggregate_id="A")
    assert relay_all(db, max_events=2) == 3
    db.call("see_subscriptions", names=[NAME])
    db.answer("change_subscription", subscription=NAME, state="paused", actor="ann")
    db.call("relay_stalls")
    db.answer("silent_subscriptions")
    db.value("select hudhud.mark_relay(1)")
    db.call(
        "release_event_day", day=db.value("select (clock_timestamp() at time zone 'UTC')::date")
    )
    db.connection.execute("update hudhud.database_epoch set identity = '7:7'")
    db.answer("rebase", actor="ann", reason="a test")
    db.answer("change_subscription", subscription=NAME, state="active", actor="ann")
    publish(db, 3)
    assert relay_all(db) == 1


def test_a_session_goes_on_when_a_migration_adds_columns(own: Sessions) -> None:
    """A39: no statement of ours depends on how many columns a table has."""
    worker, migration = own.open(), own.open()
    for _ in range(7):
        with worker.connection.transaction(force_rollback=True):
            use_every_verb(worker)
        use_every_verb_of_events(worker)  # it commits: what is not is not routed
        worker.empty()
    for table in TABLES:
        migration.connection.execute(f"alter table hudhud.{table} add column added_later text")
    use_every_verb(worker)
    use_every_verb_of_events(worker)
    worker.empty()
    use_every_verb(own.open())


@pytest.mark.parametrize("table", ["worker", "queue"])
def test_what_is_updated_all_the_time_is_updated_in_place(own: Sessions, table: str) -> None:
    """A43: no index on what a beat or a mark changes, and room beside each row."""
    db = own.open()
    db.call(
        "register_worker",
        worker_id=WORKER,
        name="w",
        host="h",
        pid=1,
        queues=["default"],
        contracts=[],
        release="1",
    )
    for _ in range(200):
        db.call("beat", worker_id=WORKER)
        db.call("mark_busy", queue="default", seconds=1)
    read = (
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables"
        " where schemaname = 'hudhud' and relname = %s"
    )

    def flushed() -> bool:
        db.value("select pg_stat_force_next_flush()")
        return bool(db.row(read, table).n_tup_upd >= 199)

    until(flushed)
    row = db.row(read, table)
    assert row.n_tup_hot_upd > 0.9 * row.n_tup_upd
