"""Run everything that is due, in this process, until nothing is left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import UUID

from hudhud.errors import ConfigError, HudhudError
from hudhud.store import jobs, upkeep
from hudhud.store.reads import Read
from hudhud.testing.bench import address_of, opened
from hudhud.testing.drained import Drained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hudhud.testing.bench import Bench
    from hudhud.testing.drained import EndedRun
    from hudhud.worker.worker import Application

RUNS_MAX: Final = 10_000
_ACTOR: Final = "hudhud.testing"
_STEP: Final = 1_000


class NeverDrainedError(HudhudError):
    """A drain found more and more to run. Does a handler snooze or enqueue without end?"""


def drain(
    app: Application,
    place: object = None,
    *,
    queues: Sequence[str] | None = None,
    scheduled: bool = False,
    runs_max: int = RUNS_MAX,
) -> Drained:
    """Run every job that is due, also those that handlers enqueue meanwhile.

    Events become jobs of their subscriptions on the way, also those that handlers publish.

    Args:
        app: The application whose handlers run; its lifespan is opened for the drain.
        place: Address of the database, or a psycopg connection to it; None: the application's own.
        queues: Names of queues; None for all.
        scheduled: Whether to run at once, too, what would be due later: delays, retries, snoozes.
        runs_max: After so many runs an error.

    Returns:
        The runs in the order in which they ended.

    Raises:
        ConfigError: The place is no address, or an event loop runs in this thread.
        NeverDrainedError: There was more to run than runs_max.

    Source: testing/bench.py
    """
    require_no_loop("`await adrain(…)`")
    return asyncio.run(adrain(app, place, queues=queues, scheduled=scheduled, runs_max=runs_max))


async def adrain(
    app: Application,
    place: object = None,
    *,
    queues: Sequence[str] | None = None,
    scheduled: bool = False,
    runs_max: int = RUNS_MAX,
) -> Drained:
    """Do as `drain` does, on the running event loop."""
    runs: list[EndedRun] = []
    async with opened(app, address_of(app, place)) as bench:
        while True:
            ended = await bench.run_next(queues)
            if ended is not None:
                runs.append(ended)
            elif not await _bring_more(bench, queues, scheduled=scheduled):
                break
            if len(runs) > runs_max:
                message = f"After {runs_max} runs there were jobs left; the last: {runs[-1]}"
                raise NeverDrainedError(message)
        names = None if queues is None else list(queues)
        [waiting] = await bench.do(Read("testing_waiting", {"queues": names}))
    return Drained(runs, int(str(waiting["jobs"])))


def require_no_loop(instead: str) -> None:
    """Refuse to block a thread in which an event loop runs.

    Raises:
        ConfigError: One does; says what to use instead.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    message = f"An event loop runs in this thread. Use {instead}."
    raise ConfigError(message)


async def _bring_more(bench: Bench, queues: Sequence[str] | None, *, scheduled: bool) -> bool:
    """Do what a maintainer does; return whether that may have made jobs ready."""
    rescued = await bench.do(upkeep.rescue())
    staged = await bench.do(upkeep.stage(_STEP))
    if rescued.rescued or rescued.dead or staged:
        return True
    if not scheduled:
        return False
    names = None if queues is None else list(queues)
    for row in await bench.do(Read("testing_scheduled", {"queues": names})):
        job_id = UUID(str(row["job_id"]))
        await bench.do(jobs.reschedule(job_id, None, actor=_ACTOR, reason="not to be waited for"))
        return True
    return False
