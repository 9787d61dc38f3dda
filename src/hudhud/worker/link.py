"""A connection of the worker's own for one purpose, opened when needed and replaced when lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.types.string import ByteaBinaryLoader

from hudhud.drivers.psycopg import arun
from hudhud.worker.connection import aconnect

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import TupleRow

    from hudhud.store.call import Call

T = TypeVar("T")


class Link:
    """Runs calls one after another on a connection that nothing else uses.

    A call that fails because the connection is gone leaves the link closed; the next call opens it
    anew. Each call is its own transaction.
    """

    def __init__(self, url: str, name: str) -> None:
        """Make a link; nothing is opened yet.

        Args:
            url: Address of the database.
            name: What it is for, as `pg_stat_activity` shows it.
        """
        self._url = url
        self._name = name
        self._connection: AsyncConnection[TupleRow] | None = None
        self._turn = asyncio.Lock()

    async def run(self, call: Call[T]) -> T:
        """Run a call and return what its reader makes of the answer.

        A cancellation does not reach the statement: whoever cancels gets the cancellation once the
        answer is there, so that nobody wonders whether it was committed.

        Raises:
            HudhudError: What the function refused.
            psycopg.OperationalError: The connection was lost; whether the call was committed is
                not known.
        """
        task = asyncio.ensure_future(self._run(call))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.add_done_callback(_forget)
            await asyncio.wait({task})
            raise
        return task.result()

    async def close(self) -> None:
        """Close the connection; a later call would open it again."""
        async with self._turn:
            await self._drop()

    async def _run(self, call: Call[T]) -> T:
        async with self._turn:
            if self._connection is None or self._connection.closed:
                self._connection = await aconnect(self._url, self._name)
                # Ids are carried as their bytes: only who asks for one pays for a UUID.
                self._connection.adapters.register_loader("uuid", ByteaBinaryLoader)
            try:
                return await arun(self._connection, call, binary=True)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                await self._drop()
                raise
            except psycopg.Error as error:
                # A standby now, where the next connection is to find the primary; or a pooler lost
                # its server and said so in the middle of an answer.
                is_standby = isinstance(error, psycopg.errors.ReadOnlySqlTransaction)
                if not (is_standby or self._connection.closed):
                    raise
                await self._drop()
                raise psycopg.OperationalError(str(error)) from error

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def as_uuid(value: UUID | bytes) -> UUID:
    """Return an id that came over a link as what it is."""
    return UUID(bytes=bytes(value)) if not isinstance(value, UUID) else value


def _forget(task: asyncio.Task[Any]) -> None:
    """Look at how a statement ended that nobody waits for any more, so that no loop complains."""
    if not task.cancelled():
        task.exception()
