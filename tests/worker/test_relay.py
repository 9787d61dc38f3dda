"""Laws of the relay in a running worker: from a publish in somebody's transaction to a handler."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from hudhud import Hudhud, NewEvent, NewJob
from hudhud.config import WorkerConfig
from hudhud.domain.retry import RetryPolicy
from hudhud.errors import InvalidEventError
from hudhud.worker.maintainer import Housekeeping
from hudhud.worker.relay import Relay
from hudhud.worker.relay_watch import RelayWatch
from hudhud.worker.worker import Addresses, Worker
from tests.support.application import working
from tests.support.children import enqueue_and_publish
from tests.support.events import (
    NAME,
    TYPE,
    make_day,
    numbers,
    publish,
    publish_on,
    relay_all,
    subscribe,
)
from tests.support.jobs import Jobs, watching
from tests.support.proxy import proxy
from tests.support.verbs import Verbs
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from hudhud.domain.event import Event
    from hudhud.worker.context import Context
    from tests.support.proxy import Cut
    from tests.support.server import Server
    from tests.support.told import Told

_FAIL = f"""
create function fail() returns trigger language plpgsql as $$
begin
    raise exception 'no room for this one' using errcode = 'CODE';
end $$;
create trigger fail before insert on hudhud.job for each row when (new.type = '{NAME}')
    execute function fail();
"""


@pytest.fixture
def app(database: str) -> Hudhud:
    return Hudhud(database)


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


@pytest.fixture
def verbs(database: str) -> Iterator[Verbs]:
    with psycopg.connect(database, autocommit=True, prepare_threshold=None) as connection:
        yield Verbs(connection)


@asynccontextmanager
async def relaying(url: str, **options: Any) -> AsyncGenerator[Relay]:  # noqa: ANN401 - its own
    """Run a relay alone."""
    watch = options.pop("watch", RelayWatch([]))
    relay = Relay(url, asyncio.Event(), watch=watch, **options)
    relay.start()
    try:
        await relay.ready()
        yield relay
    finally:
        await relay.stop()


async def test_an_event_reaches_its_subscriber_as_it_was_published(
    database: str, app: Hudhud, jobs: Jobs
) -> None:
    seen: list[tuple[str, Event]] = []

    @app.on("comment.created")
    async def tell_followers(ctx: Context, event: Event) -> None:
        seen.append((ctx.tenant_id, event))

    async with working(app, database):
        event_id = await app.apublish(
            jobs.connection,
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


async def test_each_subscription_gets_each_event_once_from_whichever_relay(
    database: str, app: Hudhud, jobs: Jobs
) -> None:
    seen: list[tuple[str, int]] = []

    @app.on("order.paid")
    async def ship(_ctx: Context, event: Event) -> None:
        seen.append(("ship", event.payload["n"]))

    @app.on("order.paid", queue="post", lane="high")
    def bill(_ctx: Context, event: Event) -> None:
        seen.append(("bill", event.payload["n"]))

    queues = ("default", "post")
    async with working(app, database, queues=queues), working(app, database, queues=queues):
        for n in range(50):
            await app.apublish(jobs.connection, "order.paid", {"n": n})
        await auntil(lambda: len(seen) >= 100)
        await jobs.until("select count(*) = 100 from hudhud.outcome where outcome = 'succeed'")
    assert sorted(seen) == sorted(itertools.product(("ship", "bill"), range(50)))
    assert await jobs.value("select count(*) from hudhud.job") == 100


async def test_correlation_and_causation_are_carried_from_event_to_job_to_event(
    database: str, app: Hudhud, jobs: Jobs
) -> None:
    seen: dict[str, Event] = {}

    @app.handler("receipt.send")
    def send_receipt(ctx: Context) -> None:
        with ctx.transaction() as connection:
            app.publish(connection, "receipt.sent", {})

    @app.on("order.paid")
    def ship(ctx: Context, event: Event) -> None:
        seen["order.paid"] = event
        with ctx.transaction() as connection:
            app.publish(connection, "order.shipped", {})
            app.enqueue(connection, send_receipt)
            app.enqueue_many(
                connection, [NewJob("other", {}), NewJob("own", {}, correlation_id="x")]
            )
            app.publish(connection, "order.own", {}, correlation_id="y", causation_id=ctx.job_id)

    for name in ("order.shipped", "receipt.sent", "order.own"):

        @app.on(name, name=name)
        async def keep(_ctx: Context, event: Event) -> None:
            seen[event.type] = event

    async with working(app, database):
        event_id = await app.apublish(
            jobs.connection, "order.paid", {}, correlation_id="request-1", traceparent="00-a-b-01"
        )
        await auntil(lambda: len(seen) == 4)
    rows = await jobs.rows("select type, id, correlation_id, traceparent from hudhud.job")
    made = {row[0]: row[1:] for row in rows}
    assert made["order.paid:ship"][1:] == ("request-1", "00-a-b-01")
    assert made["receipt.send"][1] == made["other"][1] == "request-1"
    assert made["own"][1] == "x"
    assert {name: one.correlation_id for name, one in seen.items()} == {
        "order.paid": "request-1",
        "order.shipped": "request-1",
        "receipt.sent": "request-1",
        "order.own": "y",
    }
    assert seen["order.shipped"].causation_id == event_id
    assert seen["receipt.sent"].causation_id == made["receipt.send"][0]
    assert seen["order.own"].causation_id == made["order.paid:ship"][0]


async def test_a_flow_that_nobody_named_begins_with_its_job(
    database: str, app: Hudhud, jobs: Jobs
) -> None:
    app.handler("work", kind="process")(enqueue_and_publish)

    @app.handler("work.async")
    async def work(_ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(
            database, prepare_threshold=None
        ) as connection:
            await app.aclient.enqueue(connection, NewJob("made.async", {}))
            await app.apublish(connection, "made.async", {})

    async with working(app, database):
        first = await jobs.add("work", {"url": database})
        other = await jobs.add("work.async")
        assert await jobs.until_ended(first, other) == ["succeeded", "succeeded"]
    for name, cause in (("made", first), ("made.async", other)):
        query = "select correlation_id from hudhud.job where type = %s"
        assert await jobs.value(query, name) == str(cause)
        query = "select correlation_id, causation_id from hudhud.event where type = %s"
        assert await jobs.rows(query, name) == [(str(cause), cause)]


async def test_an_old_version_is_upcast_and_a_newer_one_waits_for_a_worker_that_knows_it(
    database: str, jobs: Jobs
) -> None:
    """An event that is newer than any handler is held, not lost."""
    seen: list[tuple[int, int, dict[str, Any]]] = []

    def made(version: int) -> Hudhud:
        app = Hudhud(database)

        @app.upcaster("order.paid", 1, sample={"n": 1})
        def to_2(payload: dict[str, Any]) -> dict[str, Any]:
            return {"m": payload["n"]}

        @app.on("order.paid", version=version, name="ship")
        async def ship(ctx: Context, event: Event) -> None:
            seen.append((ctx.version, event.version, dict(event.payload)))

        @app.upcaster("order.paid", 2, sample={"m": 1})
        def to_3(payload: dict[str, Any]) -> dict[str, Any]:
            return {"k": payload["m"]}

        return app

    async with working(made(2), database):
        for version, name in ((1, "n"), (2, "m"), (3, "k")):
            event = NewEvent("order.paid", {name: version}, version=version)
            await made(2).aclient.publish(jobs.connection, event)
        await auntil(lambda: len(seen) == 2)
        await jobs.until("select count(*) = 1 from hudhud.waiting where contract = 'ship:3'")
    assert sorted(seen) == [(1, 2, {"m": 1}), (2, 2, {"m": 2})]
    seen.clear()
    async with working(made(3), database):
        await auntil(lambda: seen)
        await made(3).aclient.publish(jobs.connection, NewEvent("order.paid", {"n": 9}))
        await auntil(lambda: len(seen) == 2)
    assert seen == [(3, 3, {"k": 3}), (1, 3, {"k": 9})]


async def test_a_job_of_a_subscription_that_holds_no_event_is_dead_at_once(
    database: str, app: Hudhud, jobs: Jobs
) -> None:
    @app.on("order.paid", name="ship")
    async def ship(_ctx: Context, _event: Event) -> None:
        raise NotImplementedError

    async with working(app, database):
        malformed = [await jobs.add("ship", {"event": event}) for event in ({}, {"id": 7})]
        assert await jobs.until_ended(*malformed) == ["dead", "dead"]
        assert [await jobs.code(one) for one in malformed] == ["malformed", "malformed"]


@pytest.mark.parametrize(
    "forged", [{"tenant_id": "other"}, {"type": "order.lost"}, {"version": 2}, {"payload": []}]
)
async def test_a_job_is_not_believed_about_an_event_that_is_not_its_own(
    database: str, app: Hudhud, jobs: Jobs, *, forged: dict[str, object]
) -> None:
    @app.on("order.paid", name="ship")
    async def ship(_ctx: Context, _event: Event) -> None:
        raise NotImplementedError

    document = {
        "id": "00000000-0000-7000-8000-000000000001",
        "type": "order.paid",
        "version": 1,
        "tenant_id": "default",
        "aggregate": None,
        "sequence": None,
        "position": 1,
        "occurred_at": "2026-01-01T00:00:00+00:00",
        "correlation_id": "c",
        "causation_id": None,
        "payload": {},
    }
    async with working(app, database):
        job = await jobs.add("ship", {"event": document | forged})
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.code(job) == "malformed"


async def test_what_an_upcaster_raises_is_an_error_like_a_handlers(
    database: str, app: Hudhud, jobs: Jobs
) -> None:
    """It is retried, so that a deploy can mend it, whatever its class."""
    at_once = RetryPolicy(base_seconds=0.001, delay_seconds_max=0.001)

    @app.on("order.paid", name="ship", version=2, max_attempts=2, retry=at_once)
    async def ship(_ctx: Context, _event: Event) -> None:
        raise NotImplementedError

    @app.upcaster("order.paid", version=1, sample={"n": 1})
    def broken(payload: dict[str, object]) -> dict[str, object]:
        return {"n": payload["absent"]}

    async with working(app, database):
        await app.aclient.publish(jobs.connection, NewEvent("order.paid", {"n": 1}))
        await jobs.until("select count(*) = 2 from hudhud.outcome")
    assert await jobs.rows("select run, code from hudhud.outcome order by run") == [
        (1, "key_error"),
        (2, "key_error"),
    ]


async def test_events_are_found_by_polling_when_no_hint_comes(
    database: str, verbs: Verbs, told: Told
) -> None:
    subscribe(verbs)
    async with relaying(database, poll_seconds_max=0.05):
        publish(verbs, 1, notify=False)
        await auntil(lambda: told.of("relay.routed"))
    assert told.of("relay.routed") == [{"subscription": NAME, "events": 1}]
    assert relay_all(verbs) == 0


async def test_a_long_backlog_is_routed_in_steps_that_let_others_have_their_turn(
    database: str, verbs: Verbs, told: Told
) -> None:
    subscribe(verbs)
    subscribe(verbs, "other", "order.gone")
    for n in range(10):
        publish(verbs, n)
    publish(verbs, 1, "order.gone")
    async with relaying(database, events_max=4) as relay:
        await auntil(lambda: relay.routed == 11)
    steps = [(one["subscription"], one["events"]) for one in told.of("relay.routed")]
    assert sorted(steps) == sorted([(NAME, 4), ("other", 1), (NAME, 4), (NAME, 2)])
    assert ("other", 1) in steps[:2]


@pytest.mark.parametrize("code", ["P0001", "57014", "53400"])
async def test_a_subscription_whose_steps_fail_costs_no_other_its_turn(
    database: str, verbs: Verbs, told: Told, *, code: str
) -> None:
    subscribe(verbs)
    subscribe(verbs, "other", "order.gone")
    verbs.connection.execute(_FAIL.replace("CODE", code).encode())
    publish(verbs, 1)
    async with relaying(database, poll_seconds_max=0.01) as relay:
        await auntil(lambda: len(told.of("relay.failed")) > 1)
        publish(verbs, 2, "order.gone")
        await auntil(lambda: relay.routed == 1)
        verbs.connection.execute("drop trigger fail on hudhud.job")
        await auntil(lambda: relay.routed == 2)
    assert {one["subscription"] for one in told.of("relay.failed")} == {NAME}
    assert told.of("service.crashed") == []


async def test_a_relay_that_routes_much_spares_publishes_their_hints(
    database: str, verbs: Verbs
) -> None:
    subscribe(verbs)
    publish(verbs, 0)
    async with relaying(database):
        verbs.rows(
            "select count(hudhud.publish(%s, '{}', notify => false)) from generate_series(1, 2000)",
            TYPE,
        )
        await auntil(
            lambda: verbs.value("select busy_until > clock_timestamp() from hudhud.relay_state")
        )


async def test_a_copy_is_told_once_and_routes_nothing_until_it_is_rebased(
    database: str, verbs: Verbs, told: Told
) -> None:
    subscribe(verbs)
    publish(verbs, 1)
    verbs.connection.execute("update hudhud.database_epoch set identity = '7:7'")
    async with relaying(database, poll_seconds_max=0.01) as relay:
        await auntil(lambda: told.of("relay.refused"))
        assert relay.routed == 0
        verbs.answer("rebase", actor="ann", reason="restored")
        await auntil(lambda: relay.routed == 1)
    assert len(told.of("relay.refused")) == 1
    assert told.of("service.crashed") == []


async def test_who_holds_events_up_is_told_once_with_a_name(
    database: str, verbs: Verbs, told: Told
) -> None:
    with psycopg.connect(database, prepare_threshold=None) as slow:
        publish(Verbs(slow))
        pid = Verbs(slow).pid
        watch = RelayWatch([], stall_seconds=0, look_seconds=0)
        async with relaying(database, poll_seconds_max=0.01, watch=watch) as relay:
            await auntil(lambda: told.of("relay.stalled"))
            subscribe(verbs, start="beginning")
            publish(verbs, 2)
            await auntil(lambda: relay.routed == 1)  # it looked again meanwhile
        slow.rollback()
    (stall,) = told.of("relay.stalled")
    assert (stall["kind"], stall["pid"], stall["role"]) == ("publisher", pid, "hudhud")
    assert str(stall["error"]).startswith(f"session {pid} (")


async def test_a_subscription_that_has_gone_silent_is_told_and_ours_never_are(
    database: str, verbs: Verbs, told: Told
) -> None:
    subscribe(verbs)
    subscribe(verbs, "gone")
    verbs.connection.execute("update hudhud.subscription set seen_at = seen_at - interval '4 days'")
    watch = RelayWatch([NAME], look_seconds=0, seen_seconds=0)
    async with relaying(database, poll_seconds_max=0.01, watch=watch):
        await auntil(lambda: told.of("subscription.silent"))
    assert [one["subscription"] for one in told.of("subscription.silent")] == ["gone"]


async def test_a_relay_whose_connection_is_cut_goes_on(
    database: str, server: Server, verbs: Verbs, *, told: Told
) -> None:
    subscribe(verbs)
    with psycopg.connect(server.direct(database), autocommit=True) as direct:
        async with relaying(database, poll_seconds_max=0.01) as relay:
            await auntil(lambda: cut(direct) and told.of("service.crashed"))
            publish(verbs, 1)
            await auntil(lambda: relay.routed == 1)
    assert told.of("relay.failed") == []  # no subscription is to blame


@pytest.mark.parametrize("cut_at", ["request", "reply"])
async def test_a_relay_that_never_hears_whether_its_step_was_committed_repeats_nothing(
    database: str, server: Server, verbs: Verbs, *, cut_at: Cut
) -> None:
    """A50, both branches: the step was not done and is done again; or it was, and stands."""
    subscribe(verbs)
    publish(verbs, 1)
    async with proxy(server, database) as between:
        between.arm("hudhud.relay(", cut=cut_at)
        async with relaying(between.url, poll_seconds_max=0.01):
            await auntil(lambda: between.cuts)
            publish(verbs, 2)
            await auntil(lambda: numbers(verbs) == [1, 2])
    assert verbs.value("select routed from hudhud.subscription_cursor") == 2


def cut(direct: psycopg.Connection[Any]) -> bool:
    """End the relay's sessions, also one that a pooler lent it a moment ago."""
    direct.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'hudhud relay' and datname = current_database()"
    )
    return True


async def test_a_worker_whose_announcement_is_refused_does_not_start(
    database: str, app: Hudhud, verbs: Verbs
) -> None:
    subscribe(verbs, "ship", "another.type")

    @app.on("order.paid", name="ship")
    async def ship(_ctx: Context, _event: Event) -> None:
        raise NotImplementedError

    worker = Worker(app, Addresses(database, database), WorkerConfig())
    with pytest.raises(InvalidEventError, match=r"ship: it is there already, for another\.type"):
        await worker.run()


async def test_a_day_of_events_goes_when_every_subscription_has_had_it(
    database: str, verbs: Verbs, told: Told
) -> None:
    subscribe(verbs)
    make_day(verbs, 10)
    publish_on(verbs, 10, 1)
    day: Any = verbs.answer("event_day_to_drop")
    house = Housekeeping(database)
    for _ in range(2):
        await house.go_round()
    assert told.of("partition.held") == [{"day": day, "subscriptions": [NAME]}]
    relay_all(verbs)
    await house.go_round()
    assert verbs.answer("event_day_to_drop") is None
    assert verbs.value("select to_regclass(%s) is null", f"hudhud.event_{day:%Y%m%d}")
    assert told.of("partition.dropped") == [{"day": day, "kept_jobs": 0}]


async def test_who_was_stopped_is_said_to_go_without(
    database: str, verbs: Verbs, told: Told
) -> None:
    subscribe(verbs)
    make_day(verbs, 10)
    publish_on(verbs, 10, 1)
    verbs.answer("change_subscription", subscription=NAME, state="stopped", actor="ann")
    await Housekeeping(database).go_round()
    (skipped,) = told.of("subscription.skipped")
    assert skipped["subscriptions"] == [NAME]
    assert verbs.value("select skipped from hudhud.subscription") == 1
