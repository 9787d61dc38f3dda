"""Laws of drain: everything due runs, in order, and what became of it is told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg
import pytest
from typing_extensions import Unpack

from hudhud import Hudhud, NewJob, Permanent, Retryable, Snooze
from hudhud.errors import ConfigError
from hudhud.store import jobs as verbs
from hudhud.testing import NeverDrainedError, adrain, drain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from hudhud import Context
    from hudhud.worker.handler import JobOptions


class Shop:
    """An application, and what its handlers were called with."""

    def __init__(self, url: str) -> None:
        self.app = Hudhud(url)
        self.seen: list[tuple[str, int]] = []
        self.blocked = threading.Event()
        handlers = (self.note, self.fail, self.follow, self.plain, self.snooze)
        for handler in handlers:
            self.app.handler(handler.__name__)(handler)
        self.app.handler("slow", timeout_seconds=0.05)(self.slow)

    async def note(self, ctx: Context, n: int = 0) -> int:
        self.seen.append((ctx.tenant_id, n))
        return n

    async def fail(self, ctx: Context, how: str) -> None:
        if how == "for good":
            raise Permanent(code="no_such_card")
        if how == "at first" and ctx.attempt > 1:
            return
        raise Retryable(how, after_seconds=600)

    async def follow(self, ctx: Context, n: int) -> None:
        async with ctx.transaction(result={"left": n}) as connection:
            if n:
                await self.app.aclient.enqueue(connection, NewJob("follow", {"n": n - 1}))

    def plain(self, ctx: Context, n: int) -> None:
        with ctx.transaction() as connection:
            self.app.client.enqueue(connection, NewJob("note", {"n": n}))

    async def snooze(self, _ctx: Context) -> None:
        raise Snooze(3600)

    def slow(self, _ctx: Context) -> None:
        self.blocked.wait(30)

    def add(
        self,
        job_type: str,
        payload: dict[str, object] | None = None,
        **options: Unpack[JobOptions],
    ) -> None:
        with self.app.transaction() as connection:
            self.app.client.enqueue(connection, NewJob(job_type, payload or {}, **options))


@pytest.fixture
def shop(database: str) -> Iterator[Shop]:
    shop = Shop(database)
    yield shop
    shop.app.close()
    shop.blocked.set()


def test_everything_due_is_run_and_told(shop: Shop) -> None:
    for n in (1, 2):
        shop.add("note", {"n": n}, tenant_id=f"tenant-{n}")
    drained = drain(shop.app)
    assert shop.seen == [("tenant-1", 1), ("tenant-2", 2)]
    assert [(run.outcome, run.result, run.attempt, run.payload) for run in drained] == [
        ("succeed", 1, 1, {"n": 1}),
        ("succeed", 2, 1, {"n": 2}),
    ]
    assert not drain(shop.app)


def test_jobs_come_by_urgency_and_then_by_age(shop: Shop) -> None:
    for n, lane in enumerate(("bulk", "normal", "critical", "normal", "high")):
        shop.add("note", {"n": n}, lane=lane, queue=f"queue-{n % 2}")
    drain(shop.app)
    assert [n for _, n in shop.seen] == [2, 4, 1, 3, 0]


def test_jobs_that_handlers_enqueue_are_run_too(shop: Shop) -> None:
    shop.add("follow", {"n": 3})
    shop.add("plain", {"n": 9})
    drained = drain(shop.app).succeeded()
    assert [run.result for run in drained.of("follow")] == [{"left": n} for n in (3, 2, 1, 0)]
    assert shop.seen == [("default", 9)]


def test_a_failure_is_recorded_and_its_exception_is_kept(shop: Shop) -> None:
    shop.add("fail", {"how": "for good"})
    [run] = drain(shop.app)
    assert (run.outcome, run.code) == ("fail", "no_such_card")
    assert isinstance(run.error, Permanent)


def test_what_is_due_later_is_left_and_counted(shop: Shop) -> None:
    shop.add("fail", {"how": "busy"})
    shop.add("note", delay_seconds=3600)
    drained = drain(shop.app)
    assert [run.outcome for run in drained] == ["retry"]
    assert drained.waiting == 2


def test_what_is_due_later_is_run_at_once_when_asked_for(shop: Shop) -> None:
    shop.add("fail", {"how": "at first"}, max_attempts=3)
    shop.add("fail", {"how": "always"}, max_attempts=3)
    shop.add("note", {"n": 5}, delay_seconds=3600)
    drained = drain(shop.app, scheduled=True)
    assert sorted(run.outcome for run in drained.of("fail")) == [
        *["fail", "retry", "retry", "retry"],
        "succeed",
    ]
    assert shop.seen == [("default", 5)]
    assert drained.waiting == 0


def test_a_time_limit_holds_here_too(shop: Shop) -> None:
    shop.add("slow", max_attempts=1)  # a retry could be due while this drain goes on
    shop.add("note")
    drained = drain(shop.app)
    assert [(run.outcome, run.code) for run in drained.of("slow")] == [("fail", "timeout")]
    assert drained.of("note")  # though the thread of the other one is still taken


def test_a_job_of_an_unknown_type_is_handed_back_and_held(shop: Shop) -> None:
    shop.add("somebody.elses")
    drained = drain(shop.app)
    assert [(run.outcome, run.code) for run in drained] == [("hand_back", "no_handler")]
    assert drained.waiting == 1
    with pytest.raises(AssertionError, match="no_handler"):
        drained.succeeded()


def test_a_cancelled_or_expired_job_is_not_run(shop: Shop, database: str) -> None:
    shop.add("note")
    with psycopg.connect(database, prepare_threshold=None) as connection:
        job = shop.app.client.enqueue(connection, NewJob("note", {"n": 1}))
        shop.app.client.cancel(connection, job.id, actor="a test")
        past = shop.app.client.enqueue(connection, NewJob("note", {"n": 2}))
        connection.execute(
            "update hudhud.job set expires_at = clock_timestamp() where id = %s", (past.id,)
        )
    drained = drain(shop.app)
    assert shop.seen == [("default", 0)]
    assert [(run.outcome, run.code) for run in drained] == [("succeed", None), ("fail", "expired")]


def test_other_queues_are_left_alone(shop: Shop) -> None:
    shop.add("note", {"n": 1}, queue="mail")
    shop.add("note", {"n": 2})
    shop.add("note", {"n": 3}, queue="mail", delay_seconds=60)
    drained = drain(shop.app, queues=["default"], scheduled=True)
    assert shop.seen == [("default", 2)]
    assert drained.waiting == 0
    assert drain(shop.app, queues=["mail"]).waiting == 1


def test_what_a_dead_worker_held_is_taken_back(shop: Shop, database: str) -> None:
    shop.add("note")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "select hudhud.claim(gen_random_uuid(), 'default', '{2}', '{default}', '{0}', '{1}', 0)"
        )
    [run] = drain(shop.app)
    assert (run.run, run.attempt, run.outcome) == (2, 2, "succeed")


def test_a_handler_that_snoozes_without_end_is_an_error(shop: Shop) -> None:
    shop.add("snooze")
    assert [run.outcome for run in drain(shop.app)] == ["snooze"]
    with pytest.raises(NeverDrainedError, match="snooze"):
        drain(shop.app, scheduled=True, runs_max=20)


def test_the_lifespan_is_open_while_jobs_run(database: str) -> None:
    app = Hudhud(database)
    told: list[object] = []

    @app.lifespan
    async def lifespan() -> AsyncGenerator[str]:
        told.append("opened")
        yield "a client"
        told.append("closed")

    @app.handler("use")
    async def use(ctx: Context) -> None:
        told.append(ctx.state)

    with app.transaction() as connection:
        app.enqueue(connection, use)
    drain(app)
    app.close()
    assert told == ["opened", "a client", "closed"]


def test_errors_are_raised_together_by_who_expects_none(shop: Shop) -> None:
    shop.add("note")
    shop.add("fail", {"how": "busy"})
    with pytest.RaisesGroup(pytest.RaisesExc(Retryable, match="busy")):
        drain(shop.app).succeeded()


async def test_on_a_running_loop_it_is_awaited_and_runs_there(shop: Shop) -> None:
    shop.add("follow", {"n": 1})
    assert len((await adrain(shop.app)).succeeded()) == 2
    with pytest.raises(ConfigError, match="adrain"):
        drain(shop.app)


def test_the_database_is_named_by_an_address_or_a_connection(database: str, shop: Shop) -> None:
    app = Hudhud("postgresql:///nowhere")
    app.registry = shop.app.registry
    with psycopg.connect(database, prepare_threshold=None) as connection:
        app.client.enqueue(connection, NewJob("note", {}))
        with pytest.raises(ConfigError, match="Commit first"):
            drain(app, connection)
        connection.commit()
        assert len(drain(app, connection)) == 1
        app.client.enqueue(connection, NewJob("note", {}))
    assert len(drain(app, database)) == 1
    with pytest.raises(ConfigError, match="where the database is"):
        drain(app, 5432)


def test_a_drained_job_is_as_one_that_a_worker_ran(shop: Shop, database: str) -> None:
    shop.add("note", {"n": 3})
    [run] = drain(shop.app)
    with psycopg.connect(database, autocommit=True) as connection:
        status = shop.app.client.status(connection, run.job_id)
        assert status is not None
        assert status.status == "succeeded"
        rows = connection.execute("select count(*) from hudhud.lease").fetchone()
        assert rows == (0,)
        with pytest.raises(Exception, match="ended"):
            shop.app.client.run(connection, verbs.reschedule(run.job_id, None, actor="a test"))
