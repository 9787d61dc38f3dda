"""Laws of the relay in a running worker: from a publish in somebody's transaction to a handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from hudhud import Hudhud
from tests.support.application import working
from tests.support.wait import auntil

if TYPE_CHECKING:
    from hudhud.domain.event import Event
    from hudhud.worker.context import Context


@pytest.fixture
def app(database: str) -> Hudhud:
    return Hudhud(database)


async def connect(url: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(url, prepare_threshold=None)


async def test_an_event_reaches_its_subscriber_as_it_was_published(
    database: str, app: Hudhud
) -> None:
    seen: list[tuple[str, Event]] = []

    @app.on("comment.created")
    async def tell_followers(ctx: Context, event: Event) -> None:
        seen.append((ctx.tenant_id, event))

    async with working(app, database):
        async with await connect(database) as connection:
            event_id = await app.apublish(
                connection,
                "comment.created",
                {"comment_id": 7, "gone": None},
                aggregate=("comment", 7),
                tenant_id="acme",
            )
        await auntil(lambda: seen)
    [(tenant_id, event)] = seen
    assert tenant_id == "acme"
    assert (event.id, event.type, event.version) == (event_id, "comment.created", 1)
    assert (event.aggregate, event.sequence) == (("comment", "7"), 1)
    assert (event.correlation_id, event.causation_id) == (str(event_id), None)
    assert event.payload == {"comment_id": 7, "gone": None}
    assert event.occurred_at.utcoffset() is not None
