"""Laws of lost connections: what was committed is not done again, what was not is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hudhud.domain.retry import RetryPolicy
from hudhud.embedded import Embedded
from hudhud.errors import Retryable
from hudhud.store import migrate
from tests.support.application import Application, working
from tests.support.gates import Gates
from tests.support.jobs import Ended, Jobs, watching
from tests.support.proxy import proxy
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from hudhud.worker.context import Context
    from tests.support.proxy import Cut
    from tests.support.server import Server
    from tests.support.told import Told

AT_ONCE = RetryPolicy(base_seconds=0.001, delay_seconds_max=0.001)


@pytest.fixture
async def jobs(database: str, server: Server) -> AsyncGenerator[Jobs]:
    async with watching(server.direct(database)) as jobs:  # a session of its own in any case
        yield jobs


@pytest.mark.parametrize("cut", ["request", "reply"])
async def test_a_finish_whose_connection_is_cut_is_recorded_once(
    database: str, jobs: Jobs, *, server: Server, told: Told, cut: Cut
) -> None:
    """A50, both branches: committed and not heard of, and never committed."""
    application, gates = Application(), Gates()

    @application.handler("step")
    async def step(_: Context, *, fails: bool) -> None:
        await gates["finish"].wait()
        if fails:
            raise Retryable(after_seconds=3_600)

    async with proxy(server, database) as between:
        direct = server.direct(database)
        async with working(application, between.url, direct_url=direct) as worker:
            fine, failing = await jobs.add_many("step", [{"fails": False}, {"fails": True}])
            await auntil(lambda: len(worker.runner.running) == 2)
            between.arm("hudhud.finish(", cut=cut)
            gates["finish"].set()
            assert (await jobs.until_run_ended(fine)).outcome == "succeed"
            assert (await jobs.until_run_ended(failing)).outcome == "retry"
            await auntil(lambda: worker.finisher.is_idle)
            await jobs.until("select count(*) = 0 from hudhud.lease")
            assert between.cuts == 1
        assert await jobs.ends(fine) == [Ended(1, 1, "succeed", None)]
        assert await jobs.ends(failing) == [Ended(1, 1, "retry", "retryable")]
        assert await jobs.value("select count(*) from hudhud.scheduled") == 1
    refused = [fields["is_repeat"] for fields in told.of("finish.refused")]
    assert refused == ([True] if cut == "reply" else [])


@pytest.mark.parametrize("cut", ["request", "reply"])
async def test_a_transaction_whose_commit_is_cut_takes_effect_once(
    database: str, jobs: Jobs, *, server: Server, cut: Cut
) -> None:
    application = Application()
    await jobs.connection.execute("create table written (run int)")

    async with proxy(server, database) as between:

        @application.handler("step", retry=AT_ONCE)
        async def step(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into written values (%s)", (ctx.run,))
                if ctx.run == 1:
                    between.arm("COMMIT", cut=cut)

        direct = server.direct(database)
        async with working(application, between.url, direct_url=direct):
            job = await jobs.add("step")
            assert await jobs.until_ended(job) == ["succeeded"]
            await jobs.until("select count(*) = 0 from hudhud.lease")
        assert between.cuts == 1
    expected = 1 if cut == "reply" else 2
    assert await jobs.rows("select run from written") == [(expected,)]
    assert len(await jobs.ends(job)) == expected


@pytest.mark.parametrize("cut", ["request", "reply"])
async def test_a_claim_whose_connection_is_cut_loses_no_job(
    database: str, jobs: Jobs, *, server: Server, cut: Cut
) -> None:
    """What was claimed and not heard of comes back with its lease."""
    application = Application()

    @application.handler("step")
    async def step(_: Context) -> None:
        return

    async with proxy(server, database) as between:
        direct = server.direct(database)
        async with working(application, between.url, direct_url=direct, lease_seconds=1):
            # A worker that knows of no range yet has not claimed yet.
            between.arm("hudhud.claim(", cut=cut)
            made = await jobs.add_many("step", [{}] * 3)
            assert await jobs.until_ended(*made) == ["succeeded"] * 3
            assert between.cuts == 1


async def test_every_session_that_is_ended_is_opened_again_and_no_job_is_lost(
    database: str, jobs: Jobs, server: Server
) -> None:
    application = Application()
    await jobs.connection.execute("create table written (job_id uuid primary key)")

    @application.handler("step", retry=AT_ONCE)
    async def step(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await connection.execute("insert into written values (%s)", (ctx.job_id,))

    end_all = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name like 'hudhud %%'"
    )
    async with (
        watching(server.admin(database)) as admin,
        working(application, database, lease_seconds=1),
    ):
        made = []
        for _ in range(5):
            made += await jobs.add_many("step", [{}] * 50)
            await jobs.until("select count(*) > 0 from hudhud.lease")
            await admin.rows(end_all)
        assert set(await jobs.until_ended(*made)) == {"succeeded"}
        assert await jobs.value("select count(*) from written") == len(made)


async def test_a_job_enqueued_while_the_listener_is_lost_is_found_when_it_is_back(
    database: str, jobs: Jobs, *, server: Server, told: Told
) -> None:
    """A34: the poll is far away here, so only hints and the wake at a reconnect can find it."""
    application = Application()

    @application.handler("step")
    async def step(_: Context) -> None:
        return

    async with (
        watching(server.admin(database)) as admin,
        working(
            application, database, direct_url=server.direct(database), poll_seconds_max=60
        ) as worker,
    ):
        await auntil(lambda: worker.waker.is_ready)
        assert await jobs.until_ended(await jobs.add("step")) == ["succeeded"]
        ended = await admin.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name = 'hudhud waker'"
        )
        assert ended
        in_the_gap = await jobs.add("step")
        assert await jobs.until_ended(in_the_gap) == ["succeeded"]
        await auntil(lambda: told.of("listener.reconnected"))
        assert await jobs.until_ended(await jobs.add("step")) == ["succeeded"]
        assert worker.waker.reconnects == 1


async def test_a_job_that_runs_while_the_server_restarts_is_not_begun_a_second_time(
    tmp_path: Path,
) -> None:
    """A06: the lease is a row, and a row outlives the server."""
    application, gates = Application(), Gates()
    runs: list[int] = []

    @application.handler("step")
    async def step(ctx: Context) -> None:
        runs.append(ctx.run)
        gates["started"].set()
        await gates["finish"].wait()
        async with ctx.transaction() as connection:
            await connection.execute("insert into written values (%s)", (ctx.job_id,))

    @application.handler("probe")
    async def probe(_: Context) -> None:
        return

    embedded = Embedded.start(tmp_path / "server")
    try:
        url = embedded.dsn
        migrate.apply(url)
        async with watching(url) as jobs:
            await jobs.connection.execute("create table written (job_id uuid)")
            job = await jobs.add("step")
        async with working(application, url) as worker, working(application, url) as other:
            await gates["started"].wait()
            embedded.kill()
            embedded = Embedded.start(tmp_path / "server")
            async with watching(url) as jobs:
                await auntil(lambda: worker.is_ready and other.is_ready)
                # They claim again, and the one that runs is not there to be claimed.
                probes = await jobs.add_many("probe", [{}] * 20)
                assert set(await jobs.until_ended(*probes)) == {"succeeded"}
                gates["finish"].set()
                assert await jobs.until_ended(job) == ["succeeded"]
                assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]
                assert await jobs.value("select count(*) from written") == 1
    finally:
        embedded.stop()
    assert runs == [1]
