"""Laws of a stop: what has not started goes back at once, what runs is given time."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hudhud.worker.handler import define
from tests.support.application import Application, working
from tests.support.children import report_pid
from tests.support.gates import Gates, ThreadGates
from tests.support.jobs import Ended, Jobs, watching
from tests.support.pace import set_pace
from tests.support.wait import auntil, until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from hudhud.worker.context import Context
    from tests.support.server import Server
    from tests.support.told import Told

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


async def test_what_has_not_started_is_handed_back_at_once_and_what_runs_may_finish(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), Gates()

    @application.handler("wait")
    async def wait(_: Context) -> None:
        gates["started"].set()
        await gates["finish"].wait()

    async with working(application, database, concurrency=1, stop_seconds=30) as worker:
        running = await jobs.add("wait")
        await gates["started"].wait()
        set_pace(worker.runner, "async", 50)
        waiting = await jobs.add_many("wait", [{}] * 10)
        await auntil(lambda: len(worker.runner._slots["async"].waiting) == 10)  # noqa: SLF001
        stopping = asyncio.create_task(worker.stop())
        # The stop waits for the one that runs; the others are free for other workers already.
        await jobs.until("select count(*) = 10 from hudhud.ready")
        assert [await jobs.ends(job) for job in waiting] == [
            [Ended(1, 1, "hand_back", "interrupted")]
        ] * 10
        gates["finish"].set()
        await stopping
        assert await jobs.ends(running) == [Ended(1, 1, "succeed", None)]
        assert await jobs.value("select count(*) from hudhud.lease") == 0
        assert {attempt for (attempt,) in await jobs.rows("select attempt from hudhud.ready")} == {
            0
        }


@pytest.mark.parametrize("kind", ["async", "thread", "process"])
async def test_what_runs_at_the_deadline_is_interrupted_and_burns_no_attempt(
    database: str, jobs: Jobs, *, kind: str
) -> None:
    """A07: and another worker can start it at once."""
    application, gates = Application(define("process", report_pid, kind="process")), Gates()

    @application.handler("async")
    async def on_loop(_: Context, *, sleep_seconds: int) -> None:
        gates["started"].set()
        await asyncio.sleep(sleep_seconds)

    @application.handler("thread")
    def in_thread(ctx: Context, *, sleep_seconds: int) -> None:
        until(lambda: ctx.is_cancelled, sleep_seconds)
        message = "stopped"
        raise RuntimeError(message)

    async with working(application, database, stop_seconds=0):
        job = await jobs.add(kind, {"sleep_seconds": 600})
        await jobs.until("select count(*) = 1 from hudhud.lease")
        if kind == "process":
            await jobs.until("select count(*) > 0 from hudhud.log")
    assert await jobs.ends(job) == [Ended(1, 1, "hand_back", "interrupted")]
    assert await jobs.rows("select run, attempt from hudhud.ready") == [(2, 0)]
    assert await jobs.value("select count(*) from hudhud.lease") == 0


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_what_ignores_its_interruption_is_given_back_reported_and_refused_afterwards(
    database: str, jobs: Jobs, told: Told, *, kind: str
) -> None:
    """A08."""
    application, gates, thread_gates = Application(), Gates(), ThreadGates()

    @application.handler("async")
    async def on_loop(_: Context) -> str:
        while not gates["return"].is_set():
            try:
                await gates["return"].wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    @application.handler("thread")
    def in_thread(_: Context) -> str:
        thread_gates["return"].wait(60)
        return "too late"

    async with working(application, database, stop_seconds=0) as worker:
        job = await jobs.add(kind)
        await auntil(lambda: worker.runner.running)
    assert await jobs.ends(job) == [Ended(1, 1, "hand_back", "abandoned_on_shutdown")]
    assert await jobs.rows("select run, attempt from hudhud.ready") == [(2, 0)]
    assert [fields["job_id"] for fields in told.of("run.abandoned")] == [job]
    gates["return"].set()
    thread_gates["return"].set()
    await auntil(lambda: not worker.runner.running)
    assert len(await jobs.ends(job)) == 1


async def test_a_stop_that_is_hurried_interrupts_what_runs_at_once(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), Gates()

    @application.handler("wait")
    async def wait(_: Context) -> None:
        gates["started"].set()
        await asyncio.Event().wait()

    async with working(application, database, stop_seconds=3600) as worker:
        job = await jobs.add("wait")
        await gates["started"].wait()
        stopping = asyncio.create_task(worker.stop())
        await auntil(lambda: worker.runner._is_closed)  # noqa: SLF001
        worker.hurry()
        worker.hurry()
        async with asyncio.timeout(60):
            await stopping
    assert await jobs.ends(job) == [Ended(1, 1, "hand_back", "interrupted")]
    assert await jobs.rows("select run, attempt from hudhud.ready") == [(2, 0)]


async def test_five_deploys_during_one_job_leave_its_attempts_untouched(
    database: str, jobs: Jobs
) -> None:
    """A09."""
    application, gates = Application(), Gates()

    @application.handler("long")
    async def long(ctx: Context) -> None:
        gates[str(ctx.run)].set()
        if ctx.run <= 5:
            await asyncio.Event().wait()

    job = await jobs.add("long", max_attempts=3)
    for run in range(1, 6):
        async with working(application, database, stop_seconds=0):
            await gates[str(run)].wait()
    async with working(application, database):
        assert await jobs.until_ended(job) == ["succeeded"]
    assert await jobs.ends(job) == [
        *(Ended(run, 1, "hand_back", "interrupted") for run in range(1, 6)),
        Ended(6, 1, "succeed", None),
    ]


async def test_a_job_that_is_claimed_while_the_stop_begins_is_not_left_behind(
    database: str, jobs: Jobs
) -> None:
    application = Application()

    @application.handler("quick")
    async def quick(_: Context) -> None:
        await asyncio.sleep(0)

    made = 0
    for _ in range(10):
        async with working(application, database, concurrency=50):
            await jobs.add_many("quick", [{}] * 200)
            made += 200
    assert await jobs.value("select count(*) from hudhud.lease") == 0
    assert (
        await jobs.value("select count(*) from hudhud.ready")
        + await jobs.value("select count(*) from hudhud.outcome where outcome = 'succeed'")
    ) == made


async def test_a_stop_while_the_database_is_away_ends_and_closes_the_lifespan(
    database: str, jobs: Jobs, *, told: Told, server: Server
) -> None:
    """What was held comes back by its lease."""
    application, gates = Application(), Gates()

    @application.handler("wait")
    async def wait(_: Context) -> None:
        gates["started"].set()
        await gates["finish"].wait()

    async with watching(server.admin()) as admin:
        name = await jobs.value("select current_database()")
        async with working(application, database, stop_seconds=0) as worker:
            await jobs.add("wait")
            await gates["started"].wait()
            await jobs.connection.close()
            await admin.connection.execute(
                f'alter database "{name}" with allow_connections false'.encode()
            )
            await admin.rows(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", name
            )
            gates["finish"].set()
            async with asyncio.timeout(60):
                await worker.stop()
        await admin.connection.execute(
            f'alter database "{name}" with allow_connections true'.encode()
        )
    assert application.lifespan == ["opened", "closed"]
    assert told.of("worker.leave_failed")


START = "from hudhud.cli.main import main; main()"
PROGRAM = """
import asyncio, time
from contextlib import asynccontextmanager
from pathlib import Path
from hudhud import Hudhud

app = Hudhud()

@app.handler("wait")
async def wait(ctx):
    ctx.log("started")
    await asyncio.sleep(600)

@asynccontextmanager
async def lifespan():
    yield
    if Path("stays").exists():
        await asyncio.Event().wait()

app.lifespan(lifespan)

@app.handler("deaf")
async def deaf(ctx):
    ctx.log("started")
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue

@app.handler("deaf_thread")
def deaf_thread(ctx):
    ctx.log("started")
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("handler", "code"),
    [
        ("wait", "interrupted"),
        ("deaf", "abandoned_on_shutdown"),
        ("deaf_thread", "abandoned_on_shutdown"),
    ],
)
async def test_a_process_told_to_stop_exits_with_0_and_its_job_is_free_for_others(
    database: str,
    jobs: Jobs,
    tmp_path: Path,
    *,
    handler: str,
    code: str,
) -> None:
    """A07 and A08, of the command itself."""
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    (tmp_path / "hudhud.toml").write_text("[worker]\nstop_seconds = 0\n", "utf-8")
    process = subprocess.Popen(  # noqa: ASYNC220 - it is there before anything is awaited
        [sys.executable, "-c", START, "worker", "program:app"],
        cwd=tmp_path,
        env={"HUDHUD_DATABASE_URL": database, "PYTHONPATH": str(ROOT / "src")},
    )
    try:
        job = await jobs.add(handler)
        await jobs.until("select count(*) > 0 from hudhud.log")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        process.kill()
        process.wait()
    assert await jobs.ends(job) == [Ended(1, 1, "hand_back", code)]
    assert await jobs.rows("select run, attempt from hudhud.ready") == [(2, 0)]
    assert await jobs.value("select count(*) from hudhud.lease") == 0


@contextmanager
def commanded(
    database: str, directory: Path, *words: str
) -> Generator[tuple[subprocess.Popen[bytes], Path]]:
    """Run `hudhud worker program:app`, which gives its handlers an hour; with what it says."""
    (directory / "program.py").write_text(PROGRAM, "utf-8")
    (directory / "hudhud.toml").write_text("[worker]\nstop_seconds = 3600\n", "utf-8")
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", START, "worker", "program:app", *words],
            cwd=directory,
            env={"HUDHUD_DATABASE_URL": database, "PYTHONPATH": str(ROOT / "src")},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_interrupts_what_runs_and_burns_no_attempt(
    database: str, jobs: Jobs, tmp_path: Path, *, number: signal.Signals, processes: int
) -> None:
    with commanded(database, tmp_path, "--processes", str(processes)) as (process, log):
        job = await jobs.add("wait")
        await jobs.until("select count(*) > 0 from hudhud.log")
        await auntil(lambda: log.read_text("utf-8").count("worker.started") == processes)
        process.send_signal(number)
        await auntil(lambda: log.read_text("utf-8").count("a second signal") == processes)
        process.send_signal(number)
        assert await asyncio.to_thread(process.wait, 60) == 0
    assert await jobs.ends(job) == [Ended(1, 1, "hand_back", "interrupted")]
    assert await jobs.rows("select run, attempt from hudhud.ready") == [(2, 0)]
    assert await jobs.value("select count(*) from hudhud.lease") == 0


@pytest.mark.parametrize(("processes", "code"), [(1, -signal.SIGTERM), (2, 0)])
async def test_a_third_signal_ends_a_worker_that_does_not_stop(
    database: str, jobs: Jobs, tmp_path: Path, *, processes: int, code: int
) -> None:
    (tmp_path / "stays").touch()
    with commanded(database, tmp_path, "--processes", str(processes)) as (process, log):
        job = await jobs.add("wait")
        await jobs.until("select count(*) > 0 from hudhud.log")
        await auntil(lambda: log.read_text("utf-8").count("worker.started") == processes)
        process.send_signal(signal.SIGTERM)
        await auntil(lambda: log.read_text("utf-8").count("a second signal") == processes)
        process.send_signal(signal.SIGTERM)
        await jobs.until("select count(*) = 1 from hudhud.ready")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == code
    assert await jobs.ends(job) == [Ended(1, 1, "hand_back", "interrupted")]
