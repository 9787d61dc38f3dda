"""The verbs of events: publish, announce, route, and what operators do about subscriptions.

Each returns a `Call`; nothing happens until a driver runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from typing_extensions import override

from hudhud.domain import payload
from hudhud.domain.event import EVENT_BYTES_MAX, Published, check
from hudhud.domain.plain import json_text
from hudhud.errors import InvalidEventError, InvalidJobError
from hudhud.store.call import Arg, Call, given, nothing, one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, datetime

    from hudhud.domain.event import NewEvent
    from hudhud.store.call import Row


class Routed(NamedTuple):
    """What a relay's step came to: jobs made, and whether there is more of the step."""

    routed: int
    is_open: bool


class Stall(NamedTuple):
    """A session that holds events up. `pid` is None for a prepared transaction."""

    kind: Literal["publisher", "subscription"]
    subscription: str | None
    pid: int | None
    role: str
    application: str
    state: str
    since: datetime
    seconds: float

    @override
    def __str__(self) -> str:
        who = f"session {self.pid}" if self.pid else "the prepared transaction"
        what = (
            f"holds subscription {self.subscription}"
            if self.subscription
            else "published and has not ended"
        )
        return f"{who} ({self.application}, role {self.role}) {what} for {self.seconds:.0f} s"


class Released(NamedTuple):
    """Which subscriptions still need a day of events, and which lose by its going."""

    holders: list[str]
    losers: list[str]


def publish(new_event: NewEvent, *, notify: bool = True) -> Call[Published]:
    """Write an event in the caller's transaction: one statement.

    Args:
        new_event: What happened.
        notify: False for callers of PREPARE TRANSACTION; relays then find the event by polling.

    Returns:
        The event's id and its number within its aggregate.

    Raises:
        InvalidEventError: Here for what cannot be sent, when run for what the type's contract or
            the rules refuse; the message names the JSON path or the option.
        PayloadTooLargeError: As above.

    Source: sql/functions/events/publish.sql
    """
    args = given(*_args(new_event), Arg("notify", "boolean", None if notify else False))
    return Call("publish", args, _published)


def publish_many(new_events: Iterable[NewEvent], *, notify: bool = True) -> Call[list[Published]]:
    """Write many events in one statement, in their order, or none of them.

    Args:
        new_events: Any number; about 1,000 a call is a good size.
        notify: As in `publish`.

    Returns:
        One result per event, in order.

    Raises:
        InvalidEventError: As `publish`, with the event's position (from 1).
        PayloadTooLargeError: As above.

    Source: sql/functions/events/publish_many.sql
    """
    documents = [_document(position, one) for position, one in enumerate(new_events, start=1)]
    args = given(
        Arg("events", "jsonb", f"[{','.join(documents)}]"),
        Arg("notify", "boolean", None if notify else False),
    )
    return Call("publish_many", args, _published_many)


def announce_events(
    types: Sequence[Mapping[str, object]], subscriptions: Sequence[Mapping[str, object]]
) -> Call[None]:
    """Make event types and subscriptions known; a new subscription gets its cursor.

    Args:
        types: {type, version, schema, personal: field names, need: why they are there} each.
        subscriptions: {name, event_type, queue, lane, max_attempts, start} each.

    Raises:
        InvalidEventError: When run: what cannot be, with its name.

    Source: sql/functions/events/announce_events.sql
    """
    args = (
        Arg("types", "jsonb", payload.dump_value(list(types))),
        Arg("subscriptions", "jsonb", payload.dump_value(list(subscriptions))),
    )
    return Call("announce_events", args, nothing)


def due_subscriptions() -> Call[list[str]]:
    """Ask which subscriptions have something to be routed; it writes nothing.

    Returns:
        Their names, those first that have waited longest.

    Raises:
        RestoredCopyError: When run in a copy of a database.

    Source: sql/functions/events/due_subscriptions.sql
    """
    return Call("due_subscriptions", (), one)


def relay(subscription: str, max_events: int) -> Call[Routed]:
    """Route the next events of a subscription: one job each, and the cursor, in one commit.

    Args:
        subscription: Its name.
        max_events: At most so many in this step.

    Returns:
        Nothing routed, too, when another relay has the subscription.

    Raises:
        RestoredCopyError: When run in a copy of a database.

    Source: sql/functions/events/relay.sql
    """
    args = (Arg("subscription", "text", subscription), Arg("max_events", "integer", max_events))
    return Call("relay", args, _routed)


def mark_relay(seconds: float) -> Call[None]:
    """Say that this relay polls hard for the next moment, at most 1 s.

    Source: sql/functions/events/mark_relay.sql
    """
    return Call("mark_relay", (Arg("seconds", "real", seconds),), nothing)


def see_subscriptions(names: Sequence[str]) -> Call[None]:
    """Say that a worker is there which can run the jobs of these subscriptions.

    Source: sql/functions/events/see_subscriptions.sql
    """
    return Call("see_subscriptions", (Arg("names", "text[]", list(names)),), nothing)


def silent_subscriptions() -> Call[list[str]]:
    """Ask which subscriptions nobody has announced for so long that nothing is kept for them.

    Source: sql/functions/events/silent_subscriptions.sql
    """
    return Call("silent_subscriptions", (), one)


def relay_stalls(stall_seconds: float = 60) -> Call[list[Stall]]:
    """Ask who holds events up, and for how long already.

    Args:
        stall_seconds: How long a transaction may take before it is named.

    Source: sql/functions/events/relay_stalls.sql
    """
    args = (Arg("stall_seconds", "double precision", stall_seconds),)
    return Call("relay_stalls", args, _stalls)


def change_subscription(
    subscription: str,
    state: Literal["active", "paused", "stopped"],
    *,
    actor: str,
    reason: str | None = None,
) -> Call[str]:
    """Pause a subscription, let it go on, or stop it for good.

    Args:
        subscription: Its name.
        state: Paused, its events are kept for it; stopped, they are not.
        actor: Who does it, for the audit.
        reason: Why, for the audit.

    Returns:
        The state that it was in.

    Raises:
        InvalidEventError: When run and there is none of this name.

    Source: sql/functions/events/change_subscription.sql
    """
    args = given(
        Arg("subscription", "text", subscription),
        Arg("state", "text", state),
        Arg("actor", "text", actor),
        Arg("reason", "text", reason),
    )
    return Call("change_subscription", args, one)


def rebase(*, actor: str, reason: str) -> Call[int]:
    """Let a copy of a database route its events itself, from where the original was.

    Returns:
        The new epoch.

    Raises:
        MoveRefusedError: When run and this is no copy.

    Source: sql/functions/events/rebase.sql
    """
    return Call("rebase", (Arg("actor", "text", actor), Arg("reason", "text", reason)), one)


def event_day_to_drop() -> Call[date | None]:
    """Ask for the oldest day of events that has been kept long enough, None when there is none.

    Source: sql/functions/events/event_day_to_drop.sql
    """
    return Call("event_day_to_drop", (), one)


def release_event_day(day: date) -> Call[Released]:
    """Find out whether a day of events can go, and take note of who loses by it.

    Raises:
        psycopg.errors.LockNotAvailable: When run: a transaction that published then is still open.

    Source: sql/functions/events/release_event_day.sql
    """
    return Call("release_event_day", (Arg("day", "date", day),), _released)


def _args(new_event: NewEvent) -> tuple[Arg, ...]:
    check(new_event)
    try:
        document = payload.dump(new_event.payload, bytes_max=EVENT_BYTES_MAX)
    except InvalidJobError as error:
        raise InvalidEventError(str(error)) from error
    aggregate_type, aggregate_id = new_event.aggregate or (None, None)
    return given(
        Arg("type", "text", new_event.type),
        Arg("payload", "jsonb", document),
        Arg("version", "integer", _unless(1, new_event.version)),
        Arg("tenant_id", "text", _unless("default", new_event.tenant_id)),
        Arg("aggregate_type", "text", aggregate_type),
        Arg("aggregate_id", "text", aggregate_id),
        Arg("ordered", "boolean", None if new_event.ordered else False),
        Arg("occurred_at", "timestamptz", new_event.occurred_at),
        Arg("correlation_id", "text", new_event.correlation_id),
        Arg("causation_id", "uuid", new_event.causation_id),
        Arg("traceparent", "text", new_event.traceparent),
    )


def _document(position: int, new_event: NewEvent) -> str:
    """Return the JSON text of one event of a batch; its payload is spliced in untouched."""
    try:
        args = _args(new_event)
    except InvalidEventError as error:
        message = f"The event at position {position} was refused: {error}"
        raise InvalidEventError(message) from error
    fields = (
        f'"{arg.name}":{arg.value if arg.name == "payload" else json_text(arg.value)}'
        for arg in args
    )
    return f"{{{','.join(fields)}}}"


def _unless(default: object, value: object) -> object:
    """Leave out what the function has as its default."""
    return None if value == default else value


def _published(rows: Sequence[Row]) -> Published:
    event_id, sequence = rows[0]
    return Published(event_id, sequence)


def _published_many(rows: Sequence[Row]) -> list[Published]:
    ids, sequences = rows[0]
    return [Published(*pair) for pair in zip(ids, sequences, strict=True)]


def _stalls(rows: Sequence[Row]) -> list[Stall]:
    return [Stall(*row) for row in rows]


def _released(rows: Sequence[Row]) -> Released:
    return Released(*rows[0])


def _routed(rows: Sequence[Row]) -> Routed:
    return Routed(*rows[0])
