"""Laws of leases and deaths: what a lost worker held comes back, once, and by nobody's row."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from hudhud.worker.handler import define
from tests.support.application import Application, working
from tests.support.children import die
from tests.support.gates import Gates
from tests.support.jobs import Ended, Jobs, watching
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from hudhud.worker.context import Context
    from tests.support.server import Server
    from tests.support.told import Told

ROOT = Path(__file__).resolve().parents[2]
RENEWALS = (
    "select coalesce(sum(calls), 0) from pg_stat_user_functions"
    " where schemaname = 'hudhud' and funcname = 'renew'"
)


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


@pytest.fixture
def counted(server: Server, database: str) -> str:
    """Let the server count the calls of functions, for every session that begins from now on."""
    with psycopg.connect(server.admin(database), autocommit=True) as admin:
        (name,) = admin.execute("select current_database()").fetchone() or ("",)
        admin.execute(f'alter database "{name}" set track_functions to "all"'.encode())
    return database


async def test_ten_thousand_short_jobs_cause_no_renewal(counted: str, jobs: Jobs) -> None:
    application = Application()

    @application.handler("quick")
    async def quick(_: Context) -> None:
        return

    async with working(application, counted, concurrency=200):
        await jobs.add_many("quick", [{}] * 10_000)
        await jobs.until(
            "select count(*) = 10000 from hudhud.outcome where outcome = 'succeed'", seconds=120
        )
    # The count is no blank: the sessions have told of their other calls.
    await jobs.until(f"select ({RENEWALS.replace('renew', 'beat')}) > 0")
    assert await jobs.value(RENEWALS) == 0


async def test_a_job_of_three_leases_is_renewed_and_takes_effect_once(
    counted: str, jobs: Jobs, told: Told
) -> None:
    application, gates = Application(), Gates()

    @application.handler("long")
    async def long(ctx: Context) -> None:
        await gates["finish"].wait()
        async with ctx.transaction() as connection:
            await connection.execute("insert into written values (%s)", (ctx.run,))

    await jobs.connection.execute("create table written (run int)")
    async with (
        working(application, counted, lease_seconds=1),
        working(application, counted, lease_seconds=1),
    ):
        job = await jobs.add("long")
        await jobs.until(
            "select count(*) > 0 from hudhud.lease where locked_until > claimed_at + interval '3 s'"
        )
        gates["finish"].set()
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]
        assert await jobs.rows("select run from written") == [(1,)]
    assert not told.of("lease.lost")
    # Sessions that live on report what they counted when they rest.
    await jobs.until(f"select ({RENEWALS}) >= 3")


async def test_a_run_stuck_past_its_limit_is_settled_and_its_lease_goes_on_for_its_neighbours(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), Gates()

    @application.handler("stuck", timeout_seconds=0.5)
    async def stuck(_: Context) -> None:
        while not gates["finish"].is_set():
            try:
                await gates["finish"].wait()
            except asyncio.CancelledError:
                continue

    @application.handler("long")
    async def long(_: Context) -> None:
        await gates["finish"].wait()

    made = await jobs.add_many("long", [{}] * 2)
    stuck_one = await jobs.add("stuck", max_attempts=1)
    async with working(application, database, lease_seconds=1):
        assert await jobs.until_ended(stuck_one) == ["dead"]
        assert await jobs.value("select array_agg(cardinality(job_ids)) from hudhud.lease") == [3]
        await jobs.until(
            "select count(*) > 0 from hudhud.lease where locked_until > claimed_at + interval '3 s'"
        )
        gates["finish"].set()
        assert await jobs.until_ended(*made) == ["succeeded"] * 2
        assert [await jobs.ends(job) for job in made] == [[Ended(1, 1, "succeed", None)]] * 2
        assert await jobs.ends(stuck_one) == [Ended(1, 1, "fail", "timeout")]


async def test_a_handler_that_blocks_the_loop_beyond_its_lease_is_stalled_and_not_dead(
    database: str, jobs: Jobs, told: Told
) -> None:
    """A03: the lease is renewed by a thread of its own."""
    application = Application()
    is_over = threading.Event()
    rescued: list[int] = []

    @application.handler("block")
    async def block(ctx: Context) -> int:
        is_over.wait(3)  # the loop stands still here, three leases long
        return ctx.run

    def rescue_all_the_time() -> None:
        with psycopg.connect(database, autocommit=True, prepare_threshold=None) as connection:
            while not is_over.wait(0.05):
                rescued.extend(
                    row[0] for row in connection.execute("select rescued from hudhud.rescue()")
                )

    async with working(application, database, lease_seconds=1):
        rescuer = threading.Thread(target=rescue_all_the_time)
        rescuer.start()
        job = await jobs.add("block")
        assert await jobs.until_ended(job) == ["succeeded"]
        is_over.set()
        rescuer.join()
        assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]
        assert await jobs.result(job) == 1
        await auntil(lambda: told.of("loop.recovered"))
    assert len(rescued) > 1
    assert not any(rescued)
    (stalled,) = told.of("loop.stalled")
    assert isinstance(stalled["lag_seconds"], float)
    assert stalled["lag_seconds"] > 1


async def test_a_finish_that_comes_after_the_rescue_is_refused_and_changes_nothing(
    database: str, jobs: Jobs, told: Told
) -> None:
    """A01, and the fence: a run that was given to another is nobody else's to end."""
    application, gates = Application(), Gates()

    @application.handler("step")
    async def step(ctx: Context, *, fails: bool) -> int:
        await gates[f"{ctx.run}"].wait()
        assert not fails or ctx.run > 1
        return ctx.run

    async with working(application, database) as worker:
        made = await jobs.add_many("step", [{"fails": False}, {"fails": True}])
        await auntil(lambda: len(worker.runner.running) == 2)
        await jobs.lose_all()  # long before this worker would look after its lease
        await auntil(lambda: len(worker.runner.running) == 3)
        gates["1"].set()
        await auntil(lambda: told.of("finish.refused"))
        assert [await jobs.ends(job) for job in made] == [[Ended(1, 1, "lost", "worker_lost")]] * 2
        assert await jobs.value("select count(*) from hudhud.lease") == 1
        gates["2"].set()
        assert await jobs.until_ended(*made) == ["succeeded"] * 2
        assert [await jobs.result(job) for job in made] == [2, 2]
        assert await jobs.value("select count(*) from hudhud.outcome") == 4


async def test_a_run_whose_lease_is_lost_is_stopped_and_what_it_still_says_is_dropped(
    database: str, jobs: Jobs, told: Told
) -> None:
    application, gates = Application(), Gates()

    @application.handler("step")
    async def step(ctx: Context) -> None:
        if ctx.run > 1:
            return
        try:
            await asyncio.Event().wait()
        finally:
            gates["stopped"].set()

    async with working(application, database, lease_seconds=2) as worker:
        job = await jobs.add("step")
        await auntil(lambda: worker.runner.running)
        await jobs.lose_all()
        await gates["stopped"].wait()
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.ends(job) == [
            Ended(1, 1, "lost", "worker_lost"),
            Ended(2, 2, "succeed", None),
        ]
        await auntil(lambda: not worker.runner.running)
    assert told.of("lease.lost")


async def test_the_end_of_a_suspect_lets_the_next_one_begin_at_once(
    database: str, jobs: Jobs
) -> None:
    """Not at the next poll, which is far away here."""
    application = Application()

    @application.handler("step")
    async def step(_: Context) -> None:
        return

    made = await jobs.add_many("step", [{}] * 50)
    await jobs.rows(
        "select hudhud.ranges('default'), hudhud.claim(gen_random_uuid(), 'default',"
        " array[2]::smallint[], array['default'], array[0]::bigint[], array[50], 30)"
    )
    await jobs.lose_all()
    async with working(application, database, poll_seconds_max=60):
        assert await jobs.until_ended(*made) == ["succeeded"] * 50


async def test_a_job_comes_back_though_its_workers_row_is_gone_and_its_name_taken(
    database: str, jobs: Jobs
) -> None:
    """A02: the lease lives on its own, and no process inherits another's."""
    application = Application()

    @application.handler("step")
    async def step(ctx: Context) -> int:
        return ctx.run

    job = await jobs.add("step")
    lost = await jobs.value(
        "select lease_id from hudhud.ranges('default'), hudhud.claim(gen_random_uuid(), 'default',"
        " array[2]::smallint[], array['default'], array[0]::bigint[], array[1], 3600)"
    )
    async with working(application, database) as heir:
        await jobs.connection.execute("update hudhud.worker set name = 'of the dead one'")
        await jobs.connection.execute(
            "update hudhud.lease set locked_until = '-infinity' where id = %s", (lost,)
        )
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.result(job) == 2
        query = "select worker_id from hudhud.outcome where outcome = 'succeed'"
        assert await jobs.value(query) == heir.id


async def test_a_process_handler_that_dies_costs_its_own_attempt_and_nothing_else(
    database: str, jobs: Jobs
) -> None:
    application = Application(define("die", die, kind="process"))

    @application.handler("fine")
    async def fine(_: Context) -> None:
        return

    async with working(application, database):
        dying = await jobs.add("die", max_attempts=1)
        others = await jobs.add_many("fine", [{}] * 5)
        assert await jobs.until_ended(dying, *others) == ["dead", *["succeeded"] * 5]
        assert await jobs.code(dying) == "process_died"
        assert await jobs.value("select count(*) from hudhud.outcome where run > 1") == 0


PROGRAM = """
import asyncio, os, signal
from hudhud import Hudhud

app = Hudhud()

@app.handler("poison")
async def poison(ctx):
    os.kill(os.getpid(), signal.SIGKILL)

@app.handler("fine")
async def fine(ctx):
    # Still at work when the poison beside it kills the process.
    await asyncio.sleep(0.2)
"""
START = "from hudhud.cli.main import main; main()"


class Deaths:
    """A worker's process, started anew whenever it has died."""

    def __init__(self, directory: Path, database: str) -> None:
        self.count = 0
        self._directory = directory
        self._environment = {
            "HUDHUD_DATABASE_URL": database,
            "HUDHUD_WORKER_LEASE_SECONDS": "1",
            "PYTHONPATH": str(ROOT / "src"),
        }
        self._process = self._start()
        self._is_over = threading.Event()
        self._watch = threading.Thread(target=self._restart)
        self._watch.start()

    def end(self) -> None:
        self._is_over.set()
        self._process.terminate()
        self._watch.join()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", START, "worker", "program:app"],
            cwd=self._directory,
            env=self._environment,
        )

    def _restart(self) -> None:
        while self._process.wait() == -signal.SIGKILL and not self._is_over.is_set():
            self.count += 1
            self._process = self._start()


@pytest.fixture
def deaths(database: str, tmp_path: Path) -> Iterator[Deaths]:
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    deaths = Deaths(tmp_path, database)
    yield deaths
    deaths.end()


async def test_a_job_that_kills_its_worker_is_dead_after_three_deaths_and_its_neighbours_live(
    jobs: Jobs, deaths: Deaths
) -> None:
    """A11: each neighbour loses at most one attempt, as suspects lost together keep theirs."""
    await jobs.until("select count(*) = 1 from hudhud.worker")
    made = [await jobs.add("fine") for _ in range(3)]
    poison = await jobs.add("poison", max_attempts=3)
    made += await jobs.add_many("fine", [{}] * 3)
    assert await jobs.until_ended(poison, *made, seconds=90) == ["dead", *["succeeded"] * 6]
    ends = await jobs.ends(poison)
    assert ends[-1] == Ended(len(ends), 3, "fail", "worker_lost")
    assert {end.outcome for end in ends[:-1]} == {"lost"}
    # One of its deaths may have been beside other suspects, which counts against nobody.
    assert deaths.count == len(ends)
    assert len(ends) in {3, 4}
    for job in made:
        assert (await jobs.ends(job))[-1].attempt <= 2
    # A job that comes later meets nothing of it.
    assert await jobs.until_ended(await jobs.add("fine"), seconds=60) == ["succeeded"]


async def test_only_a_death_alone_in_its_lease_counts_towards_max_crashes(
    jobs: Jobs, deaths: Deaths
) -> None:
    await jobs.until("select count(*) = 1 from hudhud.worker")
    poisons = await jobs.add_many("poison", [{}] * 2)
    assert await jobs.until_ended(*poisons, seconds=120) == ["dead", "dead"]
    for poison in poisons:
        ends = await jobs.ends(poison)
        assert ends[-1].code == "worker_lost"
        # Once beside the other, then three times alone.
        assert len(ends) == 4
    assert deaths.count == 7
