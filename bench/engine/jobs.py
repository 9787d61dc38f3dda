"""The measured jobs: a payload of about 100 bytes, the same as the peers' jobs carry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from bench.engine.app import app
from hudhud.drivers import psycopg as driver
from hudhud.store import runs

if TYPE_CHECKING:
    import psycopg

TYPE: Final = "noop"
BULK: Final = 1_000
# The server makes the payloads, so that a load costs this process next to nothing.
_LOAD: Final = """
select cardinality(ids) from hudhud.enqueue_many(
    types => array[%s],
    payloads => array(
        select jsonb_build_object('i', n, 'user', 'user-' || n, 'template', 'welcome', 'pad', repeat('x', 40))
        from generate_series(%s::bigint, %s::bigint) n))"""  # noqa: E501 - SQL


def payload(number: int) -> dict[str, object]:
    """Return the payload of one job."""
    return {"i": number, "user": f"user-{number}", "template": "welcome", "pad": "x" * 40}


def announce(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Make the type known, as a deployment does: from then on every payload is checked."""
    driver.run(connection, runs.announce(app.registry.announcement()))


def meet(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Enqueue one job and fold in its scan range, as a worker does within its first second."""
    load(connection, 1)
    driver.run(connection, runs.ranges("default"))


def load(
    connection: psycopg.Connection[tuple[Any, ...]],
    amount: int,
    *,
    first: int = 0,
    type_: str = TYPE,
) -> float:
    """Enqueue jobs in bulk; return the seconds that it took."""
    began = time.monotonic()
    for low in range(first, first + amount, BULK):
        high = min(first + amount, low + BULK) - 1
        connection.execute(_LOAD, (type_, low, high))
    return time.monotonic() - began
