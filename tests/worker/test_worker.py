"""Laws of a running worker: what becomes of a job in the plain cases."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from hudhud.config import WorkerConfig
from hudhud.worker.desk import Desk
from hudhud.worker.handler import define
from hudhud.worker.worker import Addresses, Worker
from tests.support.application import Application, working
from tests.support.jobs import Ended, Jobs, watching
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hudhud.worker.context import Context
    from hudhud.worker.runner import Attempt
    from tests.support.server import Server
    from tests.support.told import Told

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


async def test_a_job_runs_once_and_succeeds(database: str, jobs: Jobs) -> None:
    application = Application()
    seen: list[tuple[str, int, int]] = []

    @application.handler("greet")
    async def greet(ctx: Context, *, name: str) -> None:
        seen.append((name, ctx.run, ctx.attempt))

    async with working(application, database):
        job = await jobs.add("greet", {"name": "Ada"})
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]
        await jobs.until("select count(*) = 0 from hudhud.lease")
    assert seen == [("Ada", 1, 1)]


async def test_a_handler_knows_whose_job_it_runs_and_what_the_enqueue_carried(
    database: str, jobs: Jobs
) -> None:
    application = Application()
    seen: dict[str, object] = {}

    @application.handler("greet", version=3)
    async def greet(ctx: Context) -> None:
        seen.update(
            job_id=ctx.job_id,
            root_id=ctx.root_id,
            contract=(ctx.type, ctx.version),
            tenant_id=ctx.tenant_id,
            idempotency_key=ctx.idempotency_key,
            correlation_id=ctx.correlation_id,
            traceparent=ctx.traceparent,
            tags=ctx.tags,
            max_attempts=ctx.max_attempts,
        )

    async with working(application, database):
        row = await jobs.rows(
            "select id from hudhud.enqueue('greet', '{}', version => 3, tenant_id => 'acme',"
            " idempotency_key => 'k', correlation_id => 'c', traceparent => %s,"
            " tags => array['a', 'b'], max_attempts => 7)",
            TRACE,
        )
        job = row[0][0]
        assert await jobs.until_ended(job) == ["succeeded"]
    assert seen == {
        "job_id": job,
        "root_id": job,
        "contract": ("greet", 3),
        "tenant_id": "acme",
        "idempotency_key": "k",
        "correlation_id": "c",
        "traceparent": TRACE,
        "tags": ("a", "b"),
        "max_attempts": 7,
    }


async def test_what_a_handler_returns_is_kept_as_the_jobs_result(database: str, jobs: Jobs) -> None:
    application = Application()

    @application.handler("count")
    async def count(_: Context) -> dict[str, Any]:
        return {"pages": 3, "words": ["سلام", "hello"], "big": 2**64}

    @application.handler("count_in_thread")
    def count_in_thread(_: Context) -> int:
        return 0

    async with working(application, database):
        one, other = await jobs.add("count"), await jobs.add("count_in_thread")
        assert await jobs.until_ended(one, other) == ["succeeded", "succeeded"]
        assert await jobs.result(one) == {"pages": 3, "words": ["سلام", "hello"], "big": 2**64}
        assert await jobs.result(other) == 0


@pytest.mark.parametrize(
    "result", ["x" * 16_385, {"when": datetime(2026, 1, 1, tzinfo=UTC)}, float("nan"), "a\0b"]
)
async def test_a_result_that_cannot_be_kept_ends_its_own_job_and_no_other(
    database: str, jobs: Jobs, result: object
) -> None:
    application = Application()

    @application.handler("count")
    async def count(_: Context, *, is_fine: bool) -> object:
        return "fine" if is_fine else result

    async with working(application, database):
        fine, refused = await jobs.add_many("count", [{"is_fine": True}, {"is_fine": False}])
        assert await jobs.until_ended(fine, refused) == ["succeeded", "dead"]
        assert await jobs.code(refused) == "result_refused"
        assert await jobs.result(fine) == "fine"


def make_lambda(_: Context) -> object:
    return lambda: None


async def test_a_result_that_leaves_no_process_ends_its_job_as_any_other(
    database: str, jobs: Jobs
) -> None:
    """It was retried, and the work done again, 20 times."""
    application = Application(define("count", make_lambda, kind="process"))
    async with working(application, database):
        refused = await jobs.add("count")
        assert await jobs.until_ended(refused) == ["dead"]
        assert await jobs.code(refused) == "result_refused"


@pytest.mark.parametrize("payload", [{}, {"name": 7}, {"name": "Ada", "age": 36}])
async def test_a_payload_that_does_not_fit_its_handler_is_dead_at_once(
    database: str, jobs: Jobs, payload: dict[str, object]
) -> None:
    """Enqueued before the type was announced, so that intake could not refuse it."""
    application = Application()
    runs: list[str] = []

    @application.handler("greet")
    async def greet(_: Context, *, name: str) -> None:
        runs.append(name)

    job = await jobs.add("greet", payload)
    async with working(application, database):
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.ends(job) == [Ended(1, 1, "fail", "malformed")]
    assert not runs


async def test_a_job_without_a_handler_waits_until_a_worker_announces_its_type(
    database: str, jobs: Jobs
) -> None:
    without, with_it = Application(), Application()

    @without.handler("other")
    async def other(_: Context) -> None:
        return

    @with_it.handler("greet", version=2)
    async def greet(_: Context) -> None:
        return

    async with working(without, database):
        job = await jobs.add("greet", version=2)
        await jobs.until("select waiting_for = 'hold' from hudhud.job_status where id = %s", job)
        assert await jobs.ends(job) == [Ended(1, 1, "hand_back", "no_handler")]
    async with working(with_it, database):
        assert await jobs.until_ended(job) == ["succeeded"]
    assert (await jobs.ends(job))[-1].attempt == 1


async def test_a_job_past_its_expiry_is_dead_and_never_run(database: str, jobs: Jobs) -> None:
    application = Application()
    runs: list[int] = []

    @application.handler("code")
    async def code(_: Context, *, number: int) -> None:
        runs.append(number)

    late, in_time = await jobs.add_many("code", [{"number": 1}, {"number": 2}])
    instant = datetime(2000, 1, 1, tzinfo=UTC)
    await jobs.connection.execute(
        "update hudhud.job set expires_at = %s where id = %s", (instant, late)
    )
    await jobs.connection.execute(
        "update hudhud.job set expires_at = %s where id = %s",
        (instant + timedelta(days=365 * 200), in_time),
    )
    async with working(application, database):
        assert await jobs.until_ended(late, in_time) == ["dead", "succeeded"]
        assert await jobs.ends(late) == [Ended(1, 1, "fail", "expired")]
    assert runs == [2]


async def test_middleware_wraps_each_attempt_the_first_outermost(database: str, jobs: Jobs) -> None:
    application = Application()
    order: list[str] = []

    async def outer(ctx: Context, call_next: Attempt) -> object:
        order.append(f"outer in {ctx.attempt}")
        try:
            return await call_next(ctx)
        finally:
            order.append("outer out")

    async def inner(ctx: Context, call_next: Attempt) -> object:
        order.append("inner in")
        result = await call_next(ctx)
        order.append("inner out")
        return f"{result}, wrapped"

    application.middleware = [outer, inner]

    @application.handler("greet")
    def greet(_: Context) -> str:
        order.append("handler")
        return "hello"

    async with working(application, database):
        job = await jobs.add("greet")
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.result(job) == "hello, wrapped"
    assert order == ["outer in 1", "inner in", "handler", "inner out", "outer out"]


async def test_context_variables_that_middleware_sets_reach_the_handler_and_no_other(
    database: str, jobs: Jobs
) -> None:
    application = Application()
    current: ContextVar[str | None] = ContextVar("current", default=None)

    async def set_it(ctx: Context, call_next: Attempt) -> object:
        before = current.get()
        current.set(str(ctx.job_id))
        await call_next(ctx)
        return [before, current.get()]

    application.middleware = [set_it]
    seen: list[str | None] = []

    @application.handler("in_thread")
    def in_thread(_: Context) -> None:
        seen.append(current.get())

    async with working(application, database):
        one, other = await jobs.add("in_thread"), await jobs.add("in_thread")
        await jobs.until_ended(one, other)
        assert await jobs.result(one) == [None, str(one)]
    assert set(seen) == {str(one), str(other)}


async def test_the_lifespan_is_open_while_handlers_run_and_what_it_yields_is_theirs(
    database: str, jobs: Jobs
) -> None:
    application = Application()
    application.state = {"pool": 7}

    @application.handler("greet")
    async def greet(ctx: Context) -> object:
        return [ctx.state, list(application.lifespan)]

    async with working(application, database):
        job = await jobs.add("greet")
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.result(job) == [{"pool": 7}, ["opened"]]
    assert application.lifespan == ["opened", "closed"]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_what_a_handler_logs_is_kept_in_order_and_redacted(
    database: str, jobs: Jobs, told: Told, *, kind: str
) -> None:
    application = Application()

    def tell(ctx: Context) -> None:
        ctx.log("began", level="debug")
        ctx.progress(0.5, "half")
        ctx.progress(7)
        ctx.progress(float("nan"))
        ctx.log("a\0b password=hunter2 \ud800", level="warning")
        ctx.log("x" * 10_000)
        with pytest.raises(ValueError, match="no level 'loud'"):
            ctx.log("no", level="loud")

    @application.handler("async")
    async def on_loop(ctx: Context) -> None:
        tell(ctx)

    @application.handler("thread")
    def in_thread(ctx: Context) -> None:
        tell(ctx)

    async with working(application, database):
        job = await jobs.add(kind)
        assert await jobs.until_ended(job) == ["succeeded"]
        await jobs.until("select count(*) = 6 from hudhud.log where job_id = %s", job)
        lines = await jobs.rows("select level, message, progress from hudhud.log order by line")
    assert lines == [
        ("debug", "began", None),
        ("info", "half", 0.5),
        ("info", "", 1.0),
        ("info", "", 0.0),
        ("warning", "a\ufffdb password=[secret] \ufffd", None),
        ("info", "x" * 2_000, None),
    ]
    assert not told.of("log.lines_dropped")


async def test_lines_that_cannot_be_written_cost_the_lines_and_nothing_else(
    database: str, jobs: Jobs, told: Told
) -> None:
    application = Application()
    await jobs.connection.execute("alter table hudhud.log add check (message <> 'refused')")

    @application.handler("greet")
    async def greet(ctx: Context, *, says: str) -> None:
        ctx.log(says)

    async with working(application, database):
        refused, fine = await jobs.add_many("greet", [{"says": "refused"}, {"says": "fine"}])
        assert await jobs.until_ended(refused, fine) == ["succeeded", "succeeded"]
        await jobs.until("select count(*) = 1 from hudhud.log")
    assert [fields["job_id"] for fields in told.of("log.lines_dropped")] == [refused]
    assert not told.of("service.crashed")


async def test_a_run_that_writes_too_much_is_told_of_once_with_how_much_was_lost(
    database: str, jobs: Jobs, told: Told
) -> None:
    """Also when it goes on over several rounds, and while another run loses nothing."""
    application = Application()

    @application.handler("babble")
    async def babble(ctx: Context) -> None:
        for number in range(1, 4):
            for _ in range(1_500):  # in one turn of the loop: no line is written meanwhile
                ctx.log("and another thing")
            written = "select count(*) = %s from hudhud.log where job_id = %s"
            await jobs.until(written, 1_000 * number, ctx.job_id)

    @application.handler("quiet")
    async def quiet(ctx: Context) -> None:
        ctx.log("done")

    async with working(application, database):
        babbler, silent = await jobs.add("babble"), await jobs.add("quiet")
        assert await jobs.until_ended(babbler, silent) == ["succeeded", "succeeded"]
        await auntil(lambda: bool(told.of("log.lines_dropped")))
    assert [dict(fields) for fields in told.of("log.lines_dropped")] == [
        {"job_id": babbler, "lines": 1_500, "error": None}
    ]


async def test_every_run_is_told_of_when_the_database_is_away_at_the_stop(
    database: str, jobs: Jobs, told: Told
) -> None:
    application = Application()
    runs: list[Context] = []

    @application.handler("greet")
    async def greet(ctx: Context) -> None:
        runs.append(ctx)

    async with working(application, database):
        ids = await jobs.add_many("greet", [{}, {}])
        await jobs.until_ended(*ids)
    desk = Desk("host=127.0.0.1 port=1", connections=2, on_settled=lambda _: None)
    desk.start()
    await desk.ready()
    for run in runs:
        for message in ("a", "b"):
            desk.write_log(run, {"level": "info", "message": message, "progress": None})
    await desk.stop()
    await desk.close()
    events = told.of("log.lines_dropped")
    assert {fields["job_id"] for fields in events} == set(ids)
    assert [fields["lines"] for fields in events] == [2, 2]
    assert all(isinstance(fields["error"], psycopg.OperationalError) for fields in events)


async def test_a_worker_that_meets_a_standby_looks_for_the_primary_anew(
    database: str, server: Server
) -> None:
    """A session that went on reading only would refuse every write, for ever."""
    direct = server.direct(database)
    application = Application()

    @application.handler("greet")
    async def greet(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    async with (
        watching(direct) as jobs,
        watching(server.admin(database)) as admin,
        working(application, direct),
    ):
        assert await jobs.until_ended(await jobs.add("greet")) == ["succeeded"]
        name = await admin.value("select current_database()")
        await admin.connection.execute(
            f'alter database "{name}" set default_transaction_read_only to on'.encode()
        )
        await admin.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'hudhud %%'"
        )
        # One of each sort has connected again and found that it cannot write.
        await _reconnected(admin)
        await admin.connection.execute(
            f'alter database "{name}" set default_transaction_read_only to off'.encode()
        )
        assert await jobs.until_ended(await jobs.add("greet")) == ["succeeded"]


async def _reconnected(admin: Jobs) -> None:
    for name in ("claims", "maintainer"):
        await admin.until(
            "select count(*) > 0 from pg_stat_activity"
            " where datname = current_database() and application_name = %s",
            f"hudhud {name}",
        )


async def test_jobs_of_several_queues_run_side_by_side_and_others_are_left_alone(
    database: str, jobs: Jobs
) -> None:
    application = Application()

    @application.handler("greet")
    async def greet(_: Context) -> None:
        return

    async with working(application, database, queues=("one", "two")):
        ours = [await jobs.add("greet", queue="one"), await jobs.add("greet", queue="two")]
        theirs = await jobs.add("greet", queue="three")
        assert await jobs.until_ended(*ours) == ["succeeded", "succeeded"]
        assert await jobs.status(theirs) == "pending"


async def test_a_delayed_job_runs_when_it_is_due_and_not_before(database: str, jobs: Jobs) -> None:
    """A05: no lease is held meanwhile, so no lease can run out."""
    application = Application()
    runs: list[int] = []

    @application.handler("greet")
    async def greet(ctx: Context) -> None:
        runs.append(ctx.run)

    async with working(application, database), working(application, database):
        job = await jobs.add("greet", delay_seconds=0.5)
        assert await jobs.status(job) == "pending"
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.value(
            "select o.claimed_at >= j.available_at"
            " from hudhud.job j join hudhud.outcome o on o.job_id = j.id"
        )
        assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]
    assert runs == [1]


async def test_a_worker_is_listed_while_it_works(database: str, jobs: Jobs) -> None:
    application = Application()
    async with working(application, database) as worker:
        assert await jobs.rows("select id from hudhud.worker") == [(worker.id,)]
    assert await jobs.rows("select id from hudhud.worker") == []


async def test_a_start_that_fails_says_why_and_closes_what_it_opened() -> None:
    application = Application()
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    worker = Worker(application, Addresses(nowhere, nowhere), WorkerConfig())
    with pytest.raises(psycopg.OperationalError):
        await worker.run()
    assert application.lifespan == ["opened", "closed"]
