"""Facts of the load: events that are published, and two subscriptions that get each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from uuid import UUID

    import psycopg

    from hudhud import Hudhud

TYPE: Final = "chaos.fact"
NOTE: Final = "news.note"  # its effect is a row
TELL: Final = "news.tell"  # its effect is an act of the ledger
SUBSCRIPTIONS: Final = (NOTE, TELL)
QUEUE: Final = "news"
AGGREGATES: Final = 24
PER_TASK: Final = 100  # numbers of facts for each number of an intent
_SAY: Final = "select chaos.say_fact(%s, %s, %s)"
_KIND: Final = "thing"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that happened.

    Attributes:
        number: No two have the same.
        aggregate: What it is about; None for nothing that has an order.
    """

    number: int
    aggregate: str | None


class FactContract:
    """The payload of the event."""

    number: int


def declare(app: Hudhud) -> None:
    """Say that there is such an event."""
    app.event(TYPE)(FactContract)


def publish(app: Hudhud, connection: psycopg.Connection[Any], fact: Fact) -> UUID:
    """Publish a fact, and say so ourselves, in the caller's transaction."""
    event_id = app.publish(connection, TYPE, {"number": fact.number}, aggregate=_about(fact))
    connection.execute(_SAY, (event_id, fact.number, fact.aggregate))
    return event_id


async def apublish(app: Hudhud, connection: psycopg.AsyncConnection[Any], fact: Fact) -> UUID:
    """As `publish`, on an asynchronous connection."""
    event_id = await app.apublish(connection, TYPE, {"number": fact.number}, aggregate=_about(fact))
    await connection.execute(_SAY, (event_id, fact.number, fact.aggregate))
    return event_id


def _about(fact: Fact) -> tuple[str, str] | None:
    return None if fact.aggregate is None else (_KIND, fact.aggregate)
