"""Planted faults of the Python code: each changes the process that it is called in, for good."""
# pyright: basic, reportPrivateUsage=false
# What is broken here is inside of things, where no type is meant for strangers.

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from hudhud.drivers import psycopg as driver
from hudhud.store import idempotency as requests
from hudhud.store.call import Call, nothing
from hudhud.web import idempotency
from hudhud.web.database import STATEMENT_SECONDS, Database
from hudhud.web.face import face_of
from hudhud.worker.claimer import Claimer
from hudhud.worker.connection import aconnect
from hudhud.worker.effect import Effect
from hudhud.worker.link import Link
from hudhud.worker.mark import Mark
from hudhud.worker.run import Run
from hudhud.worker.sending import Sending
from hudhud.worker.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from hudhud.web import database as databases
    from hudhud.worker.run import OpenEffect

LATER_SECONDS: Final = 0.3


def intended_after_the_call() -> None:
    """Commit the intention of an effect only when its block is over."""
    intend, leave = Sending.entering, Sending.leaving

    def entering(self: Sending) -> Generator[Any, Any, None]:
        self.send_until = time.monotonic() + self._plan.send_seconds
        yield from ()

    def leaving(self: Sending, error: BaseException | None) -> Generator[Any, Any, None]:
        yield from intend(self)
        if not self.is_done:
            yield from leave(self, error)

    _replace(Sending, entering=entering, leaving=leaving)


def sent_although_it_is_late() -> None:
    """Never look at the time before bytes leave."""

    def check(self: Effect[Any]) -> None:
        self._run.check()

    _replace(Effect, check=check)


def asked_before_it_has_settled() -> None:
    """Look into an effect at once, whatever may still be under way."""
    plain = Run.open_effect

    def open_effect(self: Run, key: str, effect: OpenEffect) -> None:
        effect.reconcile_at = time.monotonic()
        plain(self, key, effect)

    _replace(Run, open_effect=open_effect)


def outcome_apart_from_the_rows() -> None:
    """Commit the run's success before the handler's own rows."""
    enter = Transaction.__aenter__

    async def aenter(self: Transaction) -> Any:  # noqa: ANN401 - as the plain one
        connection = await enter(self)
        await connection.execute("commit")
        await connection.execute("begin")
        return connection

    _replace(Transaction, __aenter__=aenter)


def mark_without_a_true_look() -> None:
    """Move the mark to the last row seen, and never look below it."""

    def visited(self: Mark, top: int | None, **_: object) -> None:
        self.seq = max(self.seq, top or 0)

    plain = Claimer.run

    async def run(self: Claimer) -> None:
        self._look_at = float("inf")
        await plain(self)

    _replace(Mark, visited=visited)
    _replace(Claimer, run=run)


def woken_by_notify_alone() -> None:
    """Wait for a hint, however long it takes."""

    async def wait(self: Claimer, event: asyncio.Event, *, busy_seconds: float) -> None:
        del busy_seconds
        async with self.until_stop():
            await event.wait()

    _replace(Claimer, _wait=wait)


def read_only_again_and_again() -> None:
    """Stay with a server that has become a standby."""

    async def run(self: Link, call: Call[Any]) -> Any:  # noqa: ANN401 - whatever the call's is
        async with self._turn:
            if self._connection is None or self._connection.closed:
                self._connection = await aconnect(self._url, self._name)
            return await driver.arun(self._connection, call)

    _replace(Link, _run=run)


def cursor_and_jobs_apart() -> None:
    """Commit the cursor's move, and make the jobs in a transaction that follows."""
    plain = Link.run

    async def run(self: Link, call: Call[Any]) -> Any:  # noqa: ANN401 - whatever the call's is
        answer = await plain(self, call)
        if call.function == "relay" and answer.routed:
            await asyncio.sleep(0)
            await plain(self, Call("planted_rest", (), nothing))
        return answer

    _replace(Link, run=run)


def answered_before_the_commit() -> None:
    """Answer a request when its work is done, and commit that a moment later."""

    async def transact(self: Database, work: Callable[[databases.Run], Awaitable[Any]]) -> Any:  # noqa: ANN401 - as the plain one
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def do() -> None:
            async with (
                asyncio.timeout(STATEMENT_SECONDS),
                self._pool.connection() as connection,
                connection.transaction(),
            ):
                try:
                    told.set_result(await work(lambda call: driver.arun(connection, call)))
                except BaseException as error:
                    told.set_exception(error)
                    raise
                await asyncio.sleep(LATER_SECONDS)

        task = asyncio.ensure_future(do())
        task.add_done_callback(_look_at)
        return await told

    _replace(Database, _transact=transact)


def key_apart_from_its_work() -> None:
    """Do what a request asks for, and keep its key and answer in a transaction that follows."""

    async def perform(request: Any, caller: Any, *, sent: Any, act: Any) -> Any:  # noqa: ANN401 - as the plain one
        database = face_of(request).database
        key = idempotency._request_key(request, caller, sent)  # noqa: SLF001 - broken on purpose
        assert key is not None

        async def work(run: databases.Run) -> Any:  # noqa: ANN401 - a response
            taken = await run(requests.take_request(key))
            if taken.answer is not None:
                return idempotency._replayed(taken.answer)  # noqa: SLF001 - as above
            return await idempotency._done(run, act)  # noqa: SLF001 - as above

        response = await database.transact(work)
        if idempotency.REPLAYED not in response.headers:
            await asyncio.sleep(LATER_SECONDS)
            kept = requests.keep_answer(key, idempotency._kept(response))  # noqa: SLF001 - as above
            await database.transact(lambda run: run(kept))
        return response

    _replace(idempotency, perform=perform)


def _look_at(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _replace(owner: object, **things: object) -> None:
    for name, thing in things.items():
        setattr(owner, name, thing)
