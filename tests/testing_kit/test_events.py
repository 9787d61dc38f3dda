"""Laws of the testing kit for events: a drain routes them; what was published can be asserted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from hudhud import Context, Event, Hudhud
from hudhud.testing import (
    aassert_published,
    assert_published,
    check_upcasters,
    crash_points,
    drain,
    inline,
)

if TYPE_CHECKING:
    from uuid import UUID


@pytest.fixture
def app(database: str) -> Hudhud:
    return Hudhud(database)


def publish(app: Hudhud, url: str, n: int = 1, **options: Any) -> UUID:  # noqa: ANN401 - options of publish
    with psycopg.connect(url, prepare_threshold=None) as connection:
        return app.publish(connection, "order.paid", {"n": n}, **options)


def test_a_drain_routes_what_was_published_before_it_and_by_its_handlers(
    database: str, app: Hudhud
) -> None:
    @app.on("order.paid")
    async def ship(ctx: Context, event: Event) -> int:
        async with ctx.transaction(result=event.payload["n"]) as connection:
            await app.apublish(connection, "order.shipped", {"n": event.payload["n"]})
        return 0

    seen: list[Event] = []

    @app.on("order.shipped")
    def thank(_ctx: Context, event: Event) -> None:
        seen.append(event)

    event_id = publish(app, database, 7)
    runs = drain(app).succeeded()
    assert [(one.type, one.result) for one in runs] == [
        ("order.paid:ship", 7),
        ("order.shipped:thank", None),
    ]
    (shipped,) = seen
    assert (shipped.correlation_id, shipped.causation_id) == (str(event_id), event_id)
    assert list(drain(app)) == []
    with psycopg.connect(database, prepare_threshold=None) as connection:
        (found,) = assert_published(connection, "order.shipped", {"n": 7}, causation_id=event_id)
    assert found.id == shipped.id


def test_inline_handles_an_event_when_the_commit_returns(database: str, app: Hudhud) -> None:
    seen: list[int] = []

    @app.on("order.paid")
    def ship(_ctx: Context, event: Event) -> None:
        seen.append(event.payload["n"])

    with inline(app), psycopg.connect(database, prepare_threshold=None) as connection:
        app.publish(connection, "order.paid", {"n": 1})
        assert seen == []
        connection.commit()
        assert seen == [1]
        app.publish(connection, "order.paid", {"n": 2})
        connection.rollback()
        assert seen == [1]


async def test_inline_handles_an_event_of_an_asynchronous_connection(
    database: str, app: Hudhud
) -> None:
    seen: list[int] = []

    @app.on("order.paid")
    async def ship(_ctx: Context, event: Event) -> None:
        seen.append(event.payload["n"])

    with inline(app):
        async with await psycopg.AsyncConnection.connect(
            database, prepare_threshold=None
        ) as connection:
            await app.apublish(connection, "order.paid", {"n": 1})
            await aassert_published(connection, "order.paid", count=1)
        assert seen == [1]


def test_a_subscriber_is_crashed_at_every_await(database: str, app: Hudhud) -> None:
    @app.on("order.paid")
    async def ship(ctx: Context, event: Event) -> None:
        async with ctx.transaction() as connection:
            await app.apublish(connection, "order.shipped", {"n": event.payload["n"]})

    number = 0
    for point in crash_points(app):
        number += 1
        publish(app, database, number)
        point.run()
        with psycopg.connect(database, prepare_threshold=None) as connection:
            assert_published(connection, "order.shipped", {"n": number}, count=1)
    assert number > 3


def test_what_was_published_is_compared_field_by_field(database: str, app: Hudhud) -> None:
    with psycopg.connect(database, prepare_threshold=None) as connection:
        event_id = app.publish(
            connection,
            "order.paid",
            {"n": 1, "lines": [{"id": 2}]},
            aggregate=("order", 7),
            tenant_id="acme",
        )
        (found,) = assert_published(
            connection,
            "order.paid",
            {"n": 1},
            aggregate=("order", 7),
            tenant_id="acme",
            sequence=1,
            correlation_id=str(event_id),
            causation_id=None,
            version=1,
            count=1,
        )
        assert (found.id, found.payload["lines"]) == (event_id, [{"id": 2}])
        with pytest.raises(AssertionError) as caught:
            assert_published(connection, "order.paid", {"n": 2}, aggregate=("order", 8))
        assert str(caught.value).splitlines() == [
            'No event order.paid with payload {"n": 2} and aggregate ["order", "8"].',
            "Events of this type, the closest first:",
            f'  {event_id}: payload.n is 1, not 2; aggregate is ["order", "7"], not ["order", "8"]',
        ]
        with pytest.raises(AssertionError, match=r"Other types: order\.paid \(1\)"):
            assert_published(connection, "order.gone")
        connection.rollback()
        with pytest.raises(AssertionError, match=r"There are no events at all\. Was it published"):
            assert_published(connection, "order.paid")


def upcast_app() -> Hudhud:
    app = Hudhud()

    @app.event("order.paid", version=3)
    class _OrderPaid:
        order_id: str
        rial: int

    @app.upcaster("order.paid", 1, sample={"order": 7, "toman": 5})
    def to_2(payload: dict[str, Any]) -> dict[str, Any]:
        return {"order_id": payload["order"], "toman": payload["toman"]}

    @app.upcaster("order.paid", 2, sample={"order_id": 8, "toman": 6})
    def to_3(payload: dict[str, Any]) -> dict[str, Any]:
        return {"order_id": str(payload["order_id"]), "rial": 10 * payload["toman"]}

    return app


def test_every_golden_sample_is_upcast_to_the_newest_version() -> None:
    found = check_upcasters(upcast_app())
    assert [(one.version, one.to_version, one.upcast) for one in found] == [
        (1, 3, {"order_id": "7", "rial": 50}),
        (2, 3, {"order_id": "8", "rial": 60}),
    ]


def test_an_upcaster_that_changes_its_argument_is_found_out() -> None:
    app = Hudhud()

    @app.upcaster("order.paid", 1, sample={"n": 1})
    def rename(payload: dict[str, Any]) -> dict[str, Any]:
        payload["m"] = payload.pop("n")
        return payload

    with pytest.raises(AssertionError, match=r"order\.paid:1 changes its argument"):
        check_upcasters(app)


def test_an_upcaster_that_is_not_pure_is_found_out() -> None:
    app, calls = Hudhud(), iter(range(9))

    @app.upcaster("order.paid", 1, sample={"n": 1})
    def count(_payload: dict[str, Any]) -> dict[str, Any]:
        return {"n": next(calls)}

    with pytest.raises(AssertionError, match="not pure"):
        check_upcasters(app)


@pytest.mark.parametrize(
    ("sample", "made", "words"),
    [
        ({"old": 1}, {"n": "text"}, r"order\.paid:2 .*\$\.n must be integer"),
        ({"old": "1"}, {"n": 1}, r"order\.paid:1 .*\$\.old must be integer"),
        ({"old": 1}, {"n": {1}}, "upcaster of order.paid:1 is no payload"),
    ],
)
def test_what_does_not_fit_its_contract_is_found_out(
    sample: dict[str, Any], made: dict[str, Any], words: str
) -> None:
    app = Hudhud()

    @app.event("order.paid", version=1)
    class _First:
        old: int

    @app.event("order.paid", version=2)
    class _Second:
        n: int

    @app.upcaster("order.paid", 1, sample=sample)
    def convert(_payload: dict[str, Any]) -> dict[str, Any]:
        return made

    with pytest.raises(AssertionError, match=words):
        check_upcasters(app)
