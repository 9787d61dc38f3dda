"""Laws of where handlers run: loop, threads and processes."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import signal
import sys
import threading
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID, uuid4

import pytest
from typing_extensions import override

from hudhud.errors import LeaseLostError, Retryable
from hudhud.worker.handler import define
from hudhud.worker.pools import Pools
from hudhud.worker.processes import ProcessDiedError, UnsentResultError
from hudhud.worker.threads import ThreadPool
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hudhud.worker.child import ProcessContext
    from hudhud.worker.handler import Handler


class StandIn:
    """A context with the facts that a process is told, keeping what is logged."""

    def __init__(self) -> None:
        self.job_id: UUID = uuid4()
        self.run = 3
        self.attempt = 2
        self.max_attempts = 20
        self.type = "sum"
        self.version = 1
        self.tenant_id = "acme"
        self.idempotency_key: str | None = None
        self.correlation_id: str | None = "c-1"
        self.traceparent: str | None = None
        self.tags = ("a",)
        self.root_id = self.job_id
        self.lines: list[object] = []

    def log(self, message: str, *, level: str = "info") -> None:
        self.lines.append((level, message))

    def progress(self, share: float, message: str = "") -> None:
        self.lines.append((share, message))


class Refused(Exception):  # noqa: N818 - a name of somebody's application
    """An exception that does not survive pickling, as many do."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code = code


def add(ctx: ProcessContext, left: int, right: int) -> int:
    ctx.progress(0.5, "half")
    ctx.log(f"{ctx.tenant_id} {ctx.run}", level="warning")
    return left + right


def tell_pid(_: object) -> int:
    return os.getpid()


def die(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang(_: object, path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - as plain as a handler is
        file.write(str(os.getpid()))
    signal.pause()


def refuse(_: object) -> None:
    raise Refused(418, "teapot")


def give_up(_: object) -> None:
    raise Retryable("later", after_seconds=30.0)  # noqa: EM101 - a handler's one line


class ComesNotBack:
    @override
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return int, ("no number",)


class LeavesInPickleError(Exception):
    @override
    def __reduce__(self) -> NoReturn:
        raise SystemExit(3)


def leave_in_pickle(_: object) -> None:
    raise LeavesInPickleError("odd")  # noqa: EM101 - a handler's one line


def return_lambda(_: object) -> Callable[[], None]:
    return lambda: None


def return_what_comes_not_back(_: object) -> ComesNotBack:
    return ComesNotBack()


def leave(_: object) -> None:
    raise SystemExit(1)


def as_handler(function: Callable[[object], str]) -> Handler[[], str]:
    return define("t", function, kind="process")


@as_handler
def decorated(_: object) -> str:
    return "decorated"


def transact(ctx: ProcessContext) -> None:
    ctx.transaction()


PLACE: contextvars.ContextVar[str] = contextvars.ContextVar("PLACE")


@pytest.fixture
def worn() -> list[str]:
    return []


@pytest.fixture
def pools(worn: list[str]) -> Iterator[Pools]:
    pools = Pools(threads=4, processes=2, on_worn=lambda: worn.append("worn"))
    yield pools
    pools.close()


async def test_a_plain_function_runs_in_a_thread_with_the_context_variables(pools: Pools) -> None:
    def handle(_: object) -> tuple[str, bool]:
        return PLACE.get(), threading.get_ident() == loop_thread

    loop_thread = threading.get_ident()
    PLACE.set("here")
    assert await pools.run(define("t", handle), None, {}) == ("here", False)


@pytest.mark.parametrize(
    "error", [StopIteration(), GeneratorExit(), CancelledError(), asyncio.CancelledError()]
)
async def test_what_a_thread_raises_never_ends_more_than_its_run(
    pools: Pools, error: BaseException
) -> None:
    """FAILURES A07, for the words that futures and tasks would take for their own."""

    def handle(_: object) -> None:
        raise error

    with pytest.raises(RuntimeError) as caught:
        await pools.run(define("t", handle), None, {})
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [SystemExit(2), KeyboardInterrupt()])
async def test_what_a_thread_leaves_with_is_its_runs_outcome_as_it_is(
    pools: Pools, error: BaseException
) -> None:
    def handle(_: object) -> None:
        raise error

    with pytest.raises(type(error)):
        await pools.run(define("t", handle), None, {})


async def test_a_plain_function_begins_when_a_thread_is_free(pools: Pools) -> None:
    release = threading.Event()
    started: list[int] = []

    def wait(_: object, n: int) -> None:
        started.append(n)
        release.wait(60)

    handler = define("t", wait)
    tasks = [asyncio.ensure_future(pools.run(handler, None, {"n": n})) for n in range(6)]
    await auntil(lambda: len(started) == 4)
    release.set()
    await asyncio.gather(*tasks)
    assert sorted(started) == [0, 1, 2, 3, 4, 5]
    assert set(started[:4]) == {0, 1, 2, 3}


async def test_a_run_given_up_keeps_its_thread_until_the_function_returns(
    pools: Pools, worn: list[str]
) -> None:
    release = threading.Event()
    handler = define("t", lambda _: release.wait(60), kind="thread")
    stuck = asyncio.ensure_future(pools.run(handler, None, {}))
    await asyncio.wait({stuck}, timeout=0.05)
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    assert pools.lost_threads == 1
    assert worn == ["worn"]  # one of four is a quarter
    started: list[int] = []

    def wait(_: object) -> None:
        started.append(1)
        release.wait(60)

    others = [asyncio.ensure_future(pools.run(define("t", wait), None, {})) for _ in range(4)]
    await auntil(lambda: len(started) == 3)
    assert not any(task.done() for task in others)
    release.set()
    await asyncio.gather(*others)
    await auntil(lambda: pools.lost_threads == 0)
    assert worn == ["worn"]


async def test_what_the_system_refused_to_start_costs_no_slot() -> None:
    """Out of file descriptors for a moment, a pool would lose one slot for ever at each try."""
    pool = ThreadPool(1)

    def refuse() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    for _ in range(3):
        with pytest.raises(OSError, match="too many"):
            await pool.run(lambda: 1, on_start=refuse)
    assert await asyncio.wait_for(pool.run(lambda: 1), 30) == 1
    pool.close()


async def test_a_stuck_thread_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    """FAILURES A08: a handler that does not end must not hold up a deploy."""
    program = tmp_path / "stuck.py"
    program.write_text(
        "import asyncio, threading\n"
        "from hudhud.worker.handler import define\n"
        "from hudhud.worker.pools import Pools\n"
        "async def main():\n"
        "    pools = Pools(threads=1, processes=1, on_worn=lambda: None)\n"
        "    handler = define('t', lambda _: threading.Event().wait(), kind='thread')\n"
        "    try:\n"
        "        async with asyncio.timeout(0.1):\n"
        "            await pools.run(handler, None, {})\n"
        "    except TimeoutError:\n"
        "        pools.close()\n"
        "asyncio.run(main())\n",
        encoding="utf-8",
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


async def test_a_process_handler_gets_its_facts_and_reports_to_the_context(pools: Pools) -> None:
    ctx = StandIn()
    result = await pools.run(define("t", add, kind="process"), ctx, {"left": 2, "right": 3})
    assert result == 5
    assert ctx.lines == [(0.5, "half"), ("warning", "acme 3")]


async def test_a_process_is_used_again_and_is_not_this_one(pools: Pools) -> None:
    handler = define("t", tell_pid, kind="process")
    first = await pools.run(handler, StandIn(), {})
    assert await pools.run(handler, StandIn(), {}) == first
    assert first != os.getpid()


async def test_a_process_handler_that_was_decorated_is_found_by_its_name(pools: Pools) -> None:
    assert await pools.run(decorated, StandIn(), {}) == "decorated"


async def test_a_process_that_dies_ends_its_own_run_alone(pools: Pools, tmp_path: Path) -> None:
    neighbour = define("t", hang, kind="process")
    started = tmp_path / "pid"
    hanging = asyncio.ensure_future(pools.run(neighbour, StandIn(), {"path": str(started)}))
    pid = await auntil(partial(read_pid, started))
    with pytest.raises(ProcessDiedError, match="exit code -9"):
        await pools.run(define("t", die, kind="process"), StandIn(), {})
    assert is_alive(pid)
    assert (
        await pools.run(define("t", add, kind="process"), StandIn(), {"left": 1, "right": 1}) == 2
    )
    assert not hanging.done()
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging


async def test_a_process_run_given_up_is_killed_and_its_slot_is_free(
    pools: Pools, worn: list[str], tmp_path: Path
) -> None:
    handler = define("t", hang, kind="process")
    for number in range(3):  # more than there are slots
        started = tmp_path / str(number)
        run = asyncio.ensure_future(pools.run(handler, StandIn(), {"path": str(started)}))
        pid = await auntil(partial(read_pid, started))
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await auntil(partial(is_dead, pid))
    assert worn == []


async def test_an_exception_crosses_processes_with_its_class_and_arguments(pools: Pools) -> None:
    with pytest.raises(Retryable) as caught:
        await pools.run(define("t", give_up, kind="process"), StandIn(), {})
    assert caught.value.after_seconds == 30.0
    assert "in give_up" in caught.value.__notes__[0]


async def test_an_exception_that_leaves_while_it_is_pickled_ends_its_run_alone(
    pools: Pools,
) -> None:
    handler = define("t", leave_in_pickle, kind="process")
    for _ in range(2):
        with pytest.raises(LeavesInPickleError, match="odd"):
            await pools.run(handler, StandIn(), {})


async def test_an_exception_that_cannot_be_pickled_keeps_its_class(pools: Pools) -> None:
    handler = define("t", refuse, kind="process", errors={Refused: "permanent"})
    with pytest.raises(Refused, match="418 teapot") as caught:
        await pools.run(handler, StandIn(), {})
    assert handler.class_of(caught.value) == "permanent"


@pytest.mark.parametrize("function", [return_lambda, return_what_comes_not_back])
async def test_a_result_that_crosses_no_process_is_refused_not_retried(
    pools: Pools, function: Callable[..., object]
) -> None:
    handler = define("t", function, kind="process")
    with pytest.raises(UnsentResultError, match="cannot be sent"):
        await pools.run(handler, StandIn(), {})
    assert await pools.run(define("t", decorated.function, kind="process"), StandIn(), {})


@pytest.mark.parametrize(("function", "error"), [(leave, SystemExit), (transact, RuntimeError)])
async def test_what_a_process_may_not_do_is_an_error_of_its_run(
    pools: Pools, function: Callable[..., object], error: type[BaseException]
) -> None:
    with pytest.raises(error):
        await pools.run(define("t", function, kind="process"), StandIn(), {})


async def test_a_refused_log_line_ends_the_run_and_its_process(pools: Pools) -> None:
    class Closed(StandIn):
        @override
        def log(self, message: str, *, level: str = "info") -> None:
            raise LeaseLostError

    handler = define("t", add, kind="process")
    with pytest.raises(LeaseLostError):
        await pools.run(handler, Closed(), {"left": 1, "right": 2})
    assert await pools.run(handler, StandIn(), {"left": 1, "right": 2}) == 3


async def test_processes_end_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "killed.py"
    program.write_text(
        "import asyncio, os, signal\n"
        "from tests.worker.test_pools import StandIn, tell_pid\n"
        "from hudhud.worker.handler import define\n"
        "from hudhud.worker.pools import Pools\n"
        "async def main():\n"
        "    pools = Pools(threads=1, processes=1, on_worn=lambda: None)\n"
        "    handler = define('t', tell_pid, kind='process')\n"
        "    print(await pools.run(handler, StandIn(), {}), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n",
        encoding="utf-8",
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},  # noqa: PTH109
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    child = int(output)
    await auntil(lambda: not is_alive(child))


def read_pid(path: Path) -> int:
    return int(path.read_text("utf-8") or 0) if path.exists() else 0


def is_dead(pid: int) -> bool:
    return not is_alive(pid)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")  # an orphan may stay a zombie in a container
    return not (status.exists() and status.read_text("utf-8").rpartition(") ")[2].startswith("Z"))
