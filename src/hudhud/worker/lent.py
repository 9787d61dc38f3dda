"""Connections that are lent to handlers; a run's transaction on one is ended by its block alone."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.errors import ProgrammingError
from psycopg.pq import Escaping
from psycopg.rows import TupleRow
from typing_extensions import override

from hudhud.drivers.base import raise_named

if TYPE_CHECKING:
    from collections.abc import Generator

    from hudhud.store.call import Call

T = TypeVar("T")


class AsyncLent(AsyncConnection[TupleRow]):
    """A connection for a handler on the event loop.

    Attributes:
        is_in_run: Whether a run's transaction is open on it: then only `end` ends that.
    """

    is_in_run = False

    async def begin(self, call: Call[T]) -> T:
        """Begin a run's transaction with a call that returns one value, both in one round trip.

        Raises:
            HudhudError: What the function refused. Whatever is raised, `end` is to follow.
        """
        self.is_in_run = True
        with _named():
            cursor = await self.execute(_begin(self, call))
        cursor.nextset()
        return call.answer(await cursor.fetchall(), ())

    async def end(self, failure: BaseException | None) -> None:
        """Commit, or after a failure roll back.

        Raises:
            psycopg.Error: It is not committed, or nobody knows: the connection was lost.
        """
        self.is_in_run = False
        if failure is None:
            await self.commit()
        elif not self.closed:
            # The failure is what is to be told; the pool drops a connection that is not idle.
            with suppress(psycopg.Error):
                await self.rollback()

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

    def begin(self, call: Call[T]) -> T:
        """As `AsyncLent.begin`."""
        self.is_in_run = True
        with _named():
            cursor = self.execute(_begin(self, call))
        cursor.nextset()
        return call.answer(cursor.fetchall(), ())

    def end(self, failure: BaseException | None) -> None:
        """As `AsyncLent.end`."""
        self.is_in_run = False
        if failure is None:
            self.commit()
        elif not self.closed:
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


def _begin(connection: AsyncLent | Lent, call: Call[object]) -> bytes:
    """Return BEGIN and a call as one text: only a text without parameters has two statements."""
    encoding = connection.info.encoding
    escaping = Escaping(connection.pgconn)
    args = b", ".join(
        b"%s => cast(%s as %s)"
        % (
            arg.name.encode(),
            escaping.escape_literal(str(arg.value).encode(encoding)),
            arg.sql_type.encode(),
        )
        for arg in call.args
    )
    return b"begin; select hudhud.%s(%s)" % (call.function.encode(), args)


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
