"""What publish takes, what it refuses, and what it leaves behind in the caller's transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support.events import TYPE, declare, publish

if TYPE_CHECKING:
    from tests.support.server import Server
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs

ABOUT: dict[str, Any] = {"aggregate_type": "order", "aggregate_id": "A"}


def event(db: Verbs, event_id: object) -> Any:  # noqa: ANN401 - a row
    return db.row("select * from hudhud.event where id = %s", event_id)


def test_an_event_is_kept_as_it_was_published(db: Verbs) -> None:
    cause = db.value("select gen_random_uuid()")
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    published = publish(
        db,
        7,
        version=2,
        tenant_id="acme",
        occurred_at=at,
        correlation_id="request-1",
        causation_id=cause,
        traceparent="00-ab-cd-01",
        **ABOUT,
    )
    row = event(db, published.id)
    assert (row.type, row.version, row.tenant_id, row.payload) == (TYPE, 2, "acme", {"n": 7})
    assert (row.aggregate_type, row.aggregate_id, row.sequence) == ("order", "A", 1)
    assert (row.occurred_at, row.correlation_id, row.causation_id) == (at, "request-1", cause)
    assert (row.traceparent, row.epoch, published.id.version) == ("00-ab-cd-01", 0, 7)


def test_what_is_not_said_has_its_default(db: Verbs) -> None:
    published = publish(db)
    row = event(db, published.id)
    assert published.sequence is None
    assert row.correlation_id == str(published.id)
    assert (row.causation_id, row.aggregate_type, row.traceparent) == (None, None, None)
    assert row.occurred_at == db.value("select hudhud.clock()") or row.occurred_at is not None


def test_events_of_an_aggregate_are_numbered_without_gaps(db: Verbs) -> None:
    others = {"aggregate_type": "order", "aggregate_id": "B"}
    found = [publish(db, **about).sequence for about in (ABOUT, ABOUT, others, ABOUT)]
    assert found == [1, 2, 1, 3]
    assert publish(db, tenant_id="acme", **ABOUT).sequence == 1
    with db.connection.transaction(force_rollback=True):
        publish(db, **ABOUT)
    assert publish(db, **ABOUT).sequence == 4


def test_without_order_nobody_waits_and_nothing_is_numbered(sessions: Sessions) -> None:
    one, other = sessions.open(), sessions.open()
    other.is_impatient = True
    with one.connection.transaction():
        assert publish(one, ordered=False, **ABOUT).sequence is None
        assert publish(other, ordered=False, **ABOUT).sequence is None
        publish(one, **ABOUT)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            publish(other, **ABOUT)
        assert publish(other, aggregate_type="order", aggregate_id="B").sequence == 1


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"type": ""}, "type"),
        ({"type": "x" * 201}, "type"),
        ({"version": 0}, "version"),
        ({"version": 40_000}, "version"),
        ({"tenant_id": ""}, "tenant_id"),
        ({"aggregate_type": "order"}, "aggregate"),
        ({"aggregate_id": "A"}, "aggregate"),
        ({"aggregate_type": "order", "aggregate_id": "x" * 201}, "aggregate_id"),
        ({"correlation_id": ""}, "correlation_id"),
        ({"traceparent": "x" * 201}, "traceparent"),
        ({"occurred_at": "infinity"}, "occurred_at"),
    ],
    ids=str,
)
def test_what_no_event_may_carry_is_refused_by_its_name(
    db: Verbs, options: dict[str, Any], word: str
) -> None:
    with db.refused("HH011", word):
        db.call("publish", **{"type": TYPE, "payload": {}} | options)


@pytest.mark.parametrize("payload", ["[]", "7", '"text"', "null"])
def test_a_payload_is_an_object(db: Verbs, payload: str) -> None:
    with db.refused("HH011", "JSON object"):
        db.value("select id from hudhud.publish(%s, %s::jsonb)", TYPE, payload)


def test_a_payload_has_at_most_16_kib(db: Verbs) -> None:
    room = 16_384 - len('{"text": ""}')
    db.call("publish", type=TYPE, payload={"text": "x" * room})
    with db.refused("HH002", "16385", "16384"):
        db.call("publish", type=TYPE, payload={"text": "x" * (room + 1)})
    db.connection.execute("update hudhud.setting set event_bytes_max = 1024")
    with db.refused("HH002", "1024"):
        db.call("publish", type=TYPE, payload={"text": "x" * 2_000})


def test_a_contract_that_was_announced_holds_for_every_publish(db: Verbs) -> None:
    declare(
        db,
        schema={
            "required": {"n": "integer"},
            "optional": {"note": ["string", "null"]},
            "open": False,
        },
    )
    publish(db, 7)
    db.call("publish", type=TYPE, payload={"n": 7, "note": None})
    for payload, path in (({}, "$.n"), ({"n": "7"}, "$.n"), ({"n": 7, "more": 1}, "$.more")):
        with db.refused("HH011", TYPE, path):
            db.call("publish", type=TYPE, payload=payload)
    db.call("publish", type=TYPE, payload={"anything": 1}, version=2)
    declare(db, schema={"required": {}, "open": True})
    db.call("publish", type=TYPE, payload={"more": 1})


def test_personal_fields_are_refused_unless_the_type_states_its_need(db: Verbs) -> None:
    schema = {"required": {"id": "integer"}, "optional": {"email": "string"}}
    declare(db, schema=schema, personal=["email"])
    db.call("publish", type=TYPE, payload={"id": 7})
    with db.refused("HH011", "$.email", "personal"):
        db.call("publish", type=TYPE, payload={"id": 7, "email": "a@example.org"})
    declare(
        db, schema=schema, personal=["email"], need="the receipt goes to the address of that day"
    )
    db.call("publish", type=TYPE, payload={"id": 7, "email": "a@example.org"})


def test_a_version_that_nobody_declared_hides_no_personal_field(db: Verbs) -> None:
    declare(db, schema={"optional": {"email": "string"}}, personal=["email"])
    db.call("publish", type=TYPE, payload={"id": 7}, version=2)
    with db.refused("HH011", "$.email", "personal"):
        db.call("publish", type=TYPE, payload={"email": "a@example.org"}, version=2)
    db.call("publish", type="another", payload={"email": "a@example.org"})


@pytest.mark.parametrize(
    ("declared", "word"),
    [
        ({"version": 0}, "version"),
        ({"type": ""}, "type"),
        ({"schema": {"required": {"n": "int"}}}, "$.n"),
        ({"schema": {"optional": {"n": []}}}, "$.n"),
    ],
    ids=str,
)
def test_a_contract_that_nothing_could_fit_is_refused(
    db: Verbs, declared: dict[str, Any], word: str
) -> None:
    with db.refused("HH011", word):
        declare(db, **{"event_type": declared.pop("type", TYPE)} | declared)


def test_a_rollback_leaves_neither_event_nor_number_nor_hint(sessions: Sessions) -> None:
    """A49."""
    db = sessions.open()
    with psycopg.connect(sessions.dsn, autocommit=True) as listener:
        listener.execute("listen hudhud")
        with db.connection.transaction(force_rollback=True):
            publish(db, **ABOUT)
        for table in ("event", "event_aggregate"):
            assert db.value(f"select count(*) from hudhud.{table}") == 0, table  # noqa: S608
        listener.execute("notify hudhud, 'end'")
        assert [one.payload for one in listener.notifies(timeout=10, stop_after=1)] == ["end"]


def test_a_hint_is_sent_once_a_transaction_and_not_while_a_relay_polls_hard(
    sessions: Sessions, server: Server
) -> None:
    db = sessions.open()
    with psycopg.connect(server.direct(sessions.dsn), autocommit=True) as listener:
        listener.execute("listen hudhud")
        with db.connection.transaction():
            publish(db)
            publish(db)
        publish(db, notify=False)
        db.value("select hudhud.mark_relay(1)")
        publish(db)
        db.connection.execute("notify hudhud, 'end'")
        heard = [one.payload for one in listener.notifies(timeout=10, stop_after=2)]
    assert heard == ["!events", "end"]


def test_a_prepared_transaction_takes_an_event_without_a_hint(own: Sessions) -> None:
    db = own.open()
    db.connection.execute("begin")
    publish(db, notify=False)
    db.connection.execute("prepare transaction 'an event'")
    assert db.value("select count(*) from hudhud.event") == 0
    db.connection.execute("commit prepared 'an event'")
    assert db.value("select count(*) from hudhud.event") == 1


def test_a_role_with_execute_alone_can_publish(server: Server, own: Sessions) -> None:
    with psycopg.connect(server.admin(own.dsn)) as connection:
        for statement in (
            "create role publisher_alone",
            "grant usage on schema hudhud to publisher_alone",
            "grant execute on function hudhud.publish to publisher_alone",
            "set local role publisher_alone",
        ):
            connection.execute(statement.encode())
        connection.execute(
            "select id from hudhud.publish('a', '{}', aggregate_type => 'b', aggregate_id => 'c')"
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select * from hudhud.event")
        connection.rollback()
