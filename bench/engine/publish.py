"""How soon a subscriber hears of an event, and what a publish adds to a business transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.engine import business, jobs, pickup, raw
from bench.engine.clients import compare
from bench.engine.listening import TYPE, announce
from bench.engine.measurement import Control, middle
from bench.engine.process import worker
from hudhud.client import Client
from hudhud.domain.event import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench.engine.measurement import Measurement
    from bench.engine.server import Connection, Server
    from bench.engine.sizes import Size

# What the outbox is while a relay polls hard: publishes spare their hint then.
_BUSY: Final = "update hudhud.relay_state set busy_until = 'infinity'"
AGGREGATES: Final = 100
ROUNDS_MIN: Final = 2  # the first only warms


@dataclass(frozen=True, slots=True)
class Variant:
    """One kind of publish.

    Attributes:
        name: Added to the bench's name.
        is_ordered: Each event is about an aggregate, of a hundred that a client has to itself.
        is_notifying: Each publish notifies; else a relay counts as busy.
    """

    name: str
    is_ordered: bool
    is_notifying: bool
    note: str


VARIANTS: Final = (
    Variant("", False, False, "A relay is busy, so no NOTIFY."),  # noqa: FBT003 - a table
    Variant("_ordered", True, False, "Numbered within its aggregate; raw, too."),  # noqa: FBT003
    Variant("_notify", False, True, "Each with its NOTIFY; raw has none."),  # noqa: FBT003
)


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Publish one event after another when nothing else happens; then as clients do."""
    with server.database() as database, listener(database.dsn) as process:
        database.wait_for_worker()
        time.sleep(pickup.SETTLE_SECONDS)
        found = pickup.probe(database, process, size.pickups, send=send)
    note = "From the moment when the client knows of the commit until the subscriber's job starts."
    bounds = ((None, None), (50.0, 25.0))
    for measurement in pickup.figures("publish", found, bounds=bounds, note=note):
        say(f"{measurement.bench} {measurement.value:.2f} ms")
        yield measurement
    rounds = max(ROUNDS_MIN, size.client_rounds // 2)
    for variant in VARIANTS:
        for clients in size.clients:
            measured = compared(server, variant, clients=clients, rounds=rounds)
            say(f"{measured.bench}: {measured.value:,.0f}/s, {measured.ratio:.2f} of raw")
            yield measured


def send(connection: Connection, payload: Mapping[str, object]) -> None:
    """Publish one event."""
    Client().publish(connection, NewEvent(TYPE, payload))


listener = partial(worker, concurrency=pickup.CONCURRENCY, application="listening")


def compared(server: Server, variant: Variant, *, clients: int, rounds: int) -> Measurement:
    """BEGIN, business insert, publish, COMMIT against the same with a raw insert."""
    with server.database() as database:
        with database.connect() as connection:
            announce(connection)
            connection.execute(business.MAKE)
            if not variant.is_notifying:
                connection.execute(_BUSY)
        database.settle()
        work = partial(transact, variant=variant)
        ours, raws = compare(database.dsn, work, clients=clients, rounds=rounds)
    noun = "client" if clients == 1 else "clients"
    return middle(
        f"publish{variant.name}_{clients}",
        "transactions/s",
        ours,
        against=Control("raw insert", raws),
        note=f"BEGIN, business insert, publish, COMMIT; {clients} {noun}. {variant.note}",
    )


def transact(
    connection: Connection, number: int, key: str, *, is_raw: bool, variant: Variant
) -> None:
    """Do one transaction."""
    payload = jobs.payload(number)
    client = key.partition("-")[0]
    aggregate = ("thing", f"{client}-{number % AGGREGATES}") if variant.is_ordered else None
    with connection.transaction():
        connection.execute(business.INSERT, (business.NOTE,))
        if is_raw:
            raw.publish(connection, TYPE, payload, aggregate=aggregate)
        else:
            Client().publish(connection, NewEvent(TYPE, payload, aggregate=aggregate))
