"""What an enqueue adds to a business transaction, with one client and with eight at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.engine import business, jobs, raw
from bench.engine.clients import compare
from bench.engine.measurement import Control, Target, middle
from hudhud.client import Client
from hudhud.domain.job import NewJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.engine.measurement import Measurement
    from bench.engine.server import Connection, Server
    from bench.engine.sizes import Size

# What a queue is while a worker polls it hard: enqueues spare their hint then.
_BUSY: Final = """
insert into hudhud.queue as q (name, busy_until) values ('default', 'infinity')
on conflict (name) do update set busy_until = excluded.busy_until"""


@dataclass(frozen=True, slots=True)
class Variant:
    """One kind of enqueue.

    Attributes:
        name: Added to the bench's name.
        is_keyed: Each job has an idempotency key.
        is_notifying: Each enqueue notifies; else the queue counts as busy.
    """

    name: str
    is_keyed: bool
    is_notifying: bool
    target: float | None
    goal: float
    note: str


VARIANTS: Final = (
    Variant("", False, False, 0.9, 1.0, "Queue busy, so no NOTIFY."),  # noqa: FBT003 - a table
    Variant("_key", True, False, None, 0.8, "Each with an idempotency key."),  # noqa: FBT003
    Variant("_notify", False, True, None, 0.45, "Each with its NOTIFY; raw has none."),  # noqa: FBT003
)


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """BEGIN, business insert, enqueue, COMMIT against the same with raw inserts."""
    for variant in VARIANTS:
        for clients in size.clients:
            bench = f"transaction{variant.name}_{clients}"
            with server.database() as database:
                with database.connect() as connection:
                    jobs.announce(connection)
                    jobs.meet(connection)
                    connection.execute(business.MAKE)
                    if not variant.is_notifying:
                        connection.execute(_BUSY.encode())
                database.settle()
                ours, raws = compare(
                    database.dsn,
                    partial(transact, variant=variant),
                    clients=clients,
                    rounds=size.client_rounds,
                )
            noun = "client" if clients == 1 else "clients"
            measured = middle(
                bench,
                "transactions/s",
                ours,
                against=Control("raw inserts", raws),
                target=Target("ratio", ">=", variant.target) if variant.target else None,
                goal=Target("ratio", ">=", variant.goal),
                note=f"BEGIN, business insert, enqueue, COMMIT; {clients} {noun}. {variant.note}",
            )
            say(f"{bench}: {measured.value:,.0f}/s, {measured.ratio:.2f} of raw")
            yield measured


def transact(
    connection: Connection, number: int, key: str, *, is_raw: bool, variant: Variant
) -> None:
    """Do one transaction."""
    payload = jobs.payload(number)
    own_key = key if variant.is_keyed else None
    with connection.transaction():
        connection.execute(business.INSERT, (business.NOTE,))
        if is_raw:
            raw.enqueue(connection, jobs.TYPE, payload, key=own_key)
        else:
            Client().enqueue(connection, NewJob(jobs.TYPE, payload, idempotency_key=own_key))
