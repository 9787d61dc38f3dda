"""Events as SQL sees them, for tests of the outbox: published, subscribed to, routed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.verbs import Row, Verbs

TYPE: Final = "order.paid"
NAME: Final = "order.paid:ship"
BEGINNING: Final = "3:3:"


def announce(
    db: Verbs,
    types: Sequence[dict[str, object]] = (),
    subscriptions: Sequence[dict[str, object]] = (),
) -> None:
    """Announce event types and subscriptions."""
    db.call("announce_events", types=Jsonb(list(types)), subscriptions=Jsonb(list(subscriptions)))


def subscribe(db: Verbs, name: str = NAME, event_type: str = TYPE, **options: object) -> str:
    """Announce a subscription; return its name."""
    subscription = {"name": name, "event_type": event_type, **options}
    announce(db, subscriptions=[subscription])
    return name


def declare(db: Verbs, event_type: str = TYPE, version: int = 1, **options: object) -> None:
    """Announce an event type with its contract."""
    declared = {"type": event_type, "version": version, **options}
    announce(db, types=[declared])


def publish(db: Verbs, n: int = 1, event_type: str = TYPE, **options: object) -> Row:
    """Publish an event that carries a number; return its id and sequence."""
    return db.answer("publish", type=event_type, payload={"n": n}, **options)


def make_day(db: Verbs, days_ago: int) -> None:
    """Make a day's partitions of events in the past; for a database of the test's own."""
    db.connection.execute(
        b"""
        do $$
        declare
            day date := (clock_timestamp() at time zone 'UTC')::date - DAYS;
            parent text;
        begin
            foreach parent in array array['event', 'event_job'] loop
                execute format(
                    'create table hudhud.%I partition of hudhud.%I for values from (%L) to (%L)',
                    parent || '_' || to_char(day, 'YYYYMMDD'), parent,
                    hudhud.first_id(day::timestamp at time zone 'UTC'),
                    hudhud.first_id((day + 1)::timestamp at time zone 'UTC'));
            end loop;
        end $$
        """.replace(b"DAYS", str(days_ago).encode())
    )


def publish_on(db: Verbs, days_ago: int, n: int) -> None:
    """Publish an event as if it had been done some days ago, whose partition is there."""
    with db.connection.transaction():
        event_id = publish(db, n, notify=False).id
        db.connection.execute(
            """
            with gone as (delete from hudhud.event where id = %(id)s returning *)
            insert into hudhud.event (
                id, shard, version, epoch, position, xid, occurred_at, type, tenant_id,
                correlation_id, payload)
            select overlay(
                       hudhud.first_id(clock_timestamp() - make_interval(days => %(days)s))::text
                       placing right(id::text, 12) from 25)::uuid,
                   shard, version, epoch, position, xid, occurred_at, type, tenant_id,
                   correlation_id, payload
            from gone
            """,
            {"id": event_id, "days": days_ago},
        )


def relay(db: Verbs, name: str = NAME, max_events: int = 1_000) -> Row:
    """Take one step of a subscription."""
    return db.answer("relay", subscription=name, max_events=max_events)


def relay_all(db: Verbs, name: str = NAME, max_events: int = 1_000) -> int:
    """Take steps until there is nothing left; return how many events were routed."""
    routed = 0
    while name in due(db):
        routed += relay(db, name, max_events).routed
    return routed


def due(db: Verbs) -> list[str]:
    """Return the subscriptions that have something to be routed."""
    return db.answer("due_subscriptions")  # type: ignore[no-any-return]


def documents(db: Verbs, name: str = NAME) -> list[dict[str, Any]]:
    """Return the events that became jobs of a subscription, in the order of routing."""
    return db.values(
        "select j.payload -> 'event' from hudhud.ready r join hudhud.job j on j.id = r.job_id"
        " where j.type = %s order by r.seq",
        name,
    )


def numbers(db: Verbs, name: str = NAME) -> list[int]:
    """Return the numbers that the events of `publish` carry, in the order of routing."""
    return [document["payload"]["n"] for document in documents(db, name)]


def cursor(db: Verbs, name: str = NAME) -> Row:
    """Return how far a subscription is."""
    return db.row(
        "select * from hudhud.subscription_cursor where subscription = %s"
        " order by number desc limit 1",
        name,
    )


def replaced(db: Verbs, point: str, action: str = "raise exception 'killed'") -> None:
    """Let something happen at a failpoint inside a function; for a database of the test's own."""
    db.connection.execute(
        f"""
        create or replace function hudhud.reach(point text) returns void language plpgsql as $$
        begin
            if point = '{point}' then {action}; end if;
        end $$
        """.encode()
    )


def in_aggregate(found: list[dict[str, Any]], aggregate_id: str) -> Iterator[int]:
    """Yield the sequence numbers of an aggregate's events, in the order of routing."""
    for document in found:
        if document["aggregate"] and document["aggregate"]["id"] == aggregate_id:
            yield document["sequence"]
