"""Connections that are lent to handlers; a run's transaction on one is ended by its block alone."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

import psycopg
from psycopg import AsyncConnection, AsyncTransaction, Connection
from psycopg.errors import ProgrammingError, error_from_result
from psycopg.pq import Escaping, ExecStatus
from psycopg.rows import TupleRow
from typing_extensions import override

from hudhud.drivers.base import raise_named

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from psycopg.pq.abc import PGresult

    from hudhud.store.call import Call

_WHO = b"select pg_backend_pid()"
_PREPARE_AFTER = 5  # as psycopg does by default
_SUCCESSES = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


class AsyncLent(AsyncConnection[TupleRow]):
    """A connection for a handler on the event loop.

    Attributes:
        is_in_run: Whether a run's transaction is open on it: then only `commit_run` and `undo_run`
            end that.
        open_parts: Of that transaction, those that `transaction()` has begun and not ended.
    """

    is_in_run = False
    open_parts = 0

    async def prepare(self) -> None:
        """Let statements that come again and again be prepared, unless a pooler is in between."""
        cursor = await self.execute(_WHO)
        self.prepare_threshold = _threshold(self, await cursor.fetchone())

    async def begin_run(self, call: Call[bool]) -> bool:
        """Begin a run's transaction with a call that returns a boolean, both in one round trip.

        Raises:
            HudhudError: What the function refused. Whatever is raised, `undo_run` is to follow.
        """
        self.is_in_run = True
        exchange = _Exchange(self)
        with _named():
            results = await exchange.run(_begin(self, call))
        if exchange.was_cancelled:
            raise asyncio.CancelledError
        return results[-1].get_value(0, 0) == b"t"

    async def commit_run(self) -> bool:
        """Commit; return whether the task was cancelled meanwhile, which the commit survived.

        Raises:
            psycopg.Error: It is not committed, or nobody knows: the connection was lost.
        """
        self.is_in_run = False
        if self.open_parts:
            message = "a block of connection.transaction() is open inside ctx.transaction()"
            raise ProgrammingError(message)
        exchange = _Exchange(self)
        await exchange.run(b"COMMIT")
        return exchange.was_cancelled

    async def undo_run(self) -> None:
        """Roll back; the pool drops a connection that is not idle then."""
        self.is_in_run = False
        if not self.closed:
            # The failure is what is to be told.
            with suppress(psycopg.Error):
                await self.rollback()

    @override
    @asynccontextmanager
    async def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> AsyncGenerator[AsyncTransaction]:
        async with super().transaction(savepoint_name, force_rollback) as part:
            self.open_parts += 1
            try:
                yield part
            finally:
                self.open_parts -= 1

    @override
    async def commit(self) -> None:
        if self.is_in_run:
            _refuse("commit")
        await super().commit()

    @override
    async def rollback(self) -> None:
        if self.is_in_run:
            _refuse("rollback")
        await super().rollback()


class Lent(Connection[TupleRow]):
    """A connection for a plain function in its thread; as `AsyncLent`."""

    is_in_run = False

    def prepare(self) -> None:
        """As `AsyncLent.prepare`."""
        self.prepare_threshold = _threshold(self, self.execute(_WHO).fetchone())

    def begin_run(self, call: Call[bool]) -> bool:
        """As `AsyncLent.begin_run`."""
        self.is_in_run = True
        with _named():
            cursor = self.execute(_begin(self, call))
        cursor.nextset()
        return call.answer(cursor.fetchall(), ())

    def commit_run(self) -> None:
        """As `AsyncLent.commit_run`."""
        self.is_in_run = False
        self.commit()

    def undo_run(self) -> None:
        """As `AsyncLent.undo_run`."""
        self.is_in_run = False
        if not self.closed:
            with suppress(psycopg.Error):  # as there
                self.rollback()

    @override
    def commit(self) -> None:
        if self.is_in_run:
            _refuse("commit")
        super().commit()

    @override
    def rollback(self) -> None:
        if self.is_in_run:
            _refuse("rollback")
        super().rollback()


def _threshold(connection: AsyncLent | Lent, row: TupleRow | None) -> int | None:
    """Return after how many times a statement is prepared; None for never.

    A pooler gives each client a process id of its own making, and the next transaction may come
    to another server process, which does not know what was prepared.
    """
    assert row is not None
    return _PREPARE_AFTER if row[0] == connection.info.backend_pid else None


def _begin(connection: AsyncLent | Lent, call: Call[bool]) -> bytes:
    """Return BEGIN and a call as one text: only a text without parameters has two statements."""
    encoding = connection.info.encoding
    escape = Escaping(connection.pgconn).escape_literal
    args = b", ".join(
        b"%s => %s" % (arg.name.encode(), escape(str(arg.value).encode(encoding)))
        for arg in call.args
    )
    return b"BEGIN; select hudhud.%s(%s)" % (call.function.encode(), args)


class _Exchange:
    """Statements that are sent and waited for, though the task be cancelled meanwhile.

    Whoever interrupts a COMMIT before its answer does not know whether it happened. And a cursor,
    which can do more, takes a tenth more of all the time that such a run costs.

    Attributes:
        was_cancelled: Whether the task was.
    """

    def __init__(self, connection: AsyncLent) -> None:
        self.was_cancelled = False
        self._connection = connection

    async def run(self, text: bytes) -> list[PGresult]:
        """Send a text, and return the result of each of its statements.

        Raises:
            psycopg.Error: A statement failed, or the connection is lost.
            asyncio.CancelledError: So it is, and the task was cancelled.
        """
        try:
            async with self._connection.lock:
                results = await self._results(text)
            for result in results:
                if result.status not in _SUCCESSES:
                    raise error_from_result(result, self._connection.info.encoding)
        except psycopg.Error as error:
            if self.was_cancelled:
                raise asyncio.CancelledError from error
            raise
        return results

    async def _results(self, text: bytes) -> list[PGresult]:
        pgconn = self._connection.pgconn
        loop = asyncio.get_running_loop()
        results: list[PGresult] = []
        pgconn.send_query(text)
        while pgconn.flush():
            await self._ready(loop.add_writer, loop.remove_writer)
        while True:
            while pgconn.is_busy():
                await self._ready(loop.add_reader, loop.remove_reader)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                return results
            results.append(result)

    async def _ready(self, add: Callable[..., None], remove: Callable[[int], object]) -> None:
        """Wait for the socket, or until the task is cancelled."""
        descriptor = self._connection.pgconn.socket
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        add(descriptor, _wake, future)
        try:
            await future
        except asyncio.CancelledError:
            self.was_cancelled = True
        finally:
            remove(descriptor)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@contextmanager
def _named() -> Generator[None]:
    """Give server errors our names."""
    try:
        yield
    except psycopg.Error as error:
        raise_named(error)
        raise


def _refuse(word: str) -> NoReturn:
    message = (
        f"{word}() inside ctx.transaction(): the end of its block commits, an error that leaves it"
        " rolls back. Take connection.transaction() for a part of it."
    )
    raise ProgrammingError(message)
