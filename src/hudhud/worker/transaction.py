"""`ctx.transaction()`: a run's success committed with the handler's own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudhud.domain.payload import RESULT_BYTES_MAX, dump_value
from hudhud.drivers.base import arun
from hudhud.drivers.base import run as run_call
from hudhud.errors import LeaseLostError
from hudhud.store import runs

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from types import TracebackType

    from psycopg import AsyncConnection, Connection
    from psycopg.rows import TupleRow

    from hudhud.store.call import Call
    from hudhud.worker.desk import Desk
    from hudhud.worker.run import Run


class Transaction:
    """Enter it with `async with` on the event loop, or with `with` in a plain function.

    While it is open the run's fence is held by its server process. A run that must end then has
    that process ended first, because the fence would be waited for.
    """

    def __init__(self, run: Run, desk: Desk, result: object) -> None:
        self._run = run
        self._desk = desk
        self._result = result
        self._async: AbstractAsyncContextManager[AsyncConnection[TupleRow]] | None = None
        self._sync: AbstractContextManager[Connection[TupleRow]] | None = None

    async def __aenter__(self) -> AsyncConnection[TupleRow]:
        pool = await self._desk.async_pool()
        self._async = pool.connection()
        connection = await self._async.__aenter__()
        try:
            is_ours = await arun(connection, self._call())
            self._begin(connection.info.backend_pid, is_ours=is_ours)
        except BaseException as error:
            await self._async.__aexit__(type(error), error, error.__traceback__)
            raise
        return connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._async is not None
        try:
            await self._desk.shielded(self._async.__aexit__(kind, error, trace))
        finally:
            self._run.session_pid = None
        self._end(kind)

    def __enter__(self) -> Connection[TupleRow]:
        self._sync = self._desk.sync_pool().connection()
        connection = self._sync.__enter__()
        try:
            is_ours = run_call(connection, self._call())
            self._begin(connection.info.backend_pid, is_ours=is_ours)
        except BaseException as error:
            self._sync.__exit__(type(error), error, error.__traceback__)
            raise
        return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._sync is not None
        try:
            self._sync.__exit__(kind, error, trace)
        finally:
            self._run.session_pid = None
        self._end(kind)

    def _call(self) -> Call[bool]:
        result = None
        if self._result is not None:
            result = dump_value(self._result, bytes_max=RESULT_BYTES_MAX)
        return runs.settle(self._run.batch.lease_id, self._run.index + 1, result)

    def _begin(self, server_pid: int, *, is_ours: bool) -> None:
        if not is_ours or self._run.has_ended:
            raise LeaseLostError
        self._run.session_pid = server_pid

    def _end(self, kind: type[BaseException] | None) -> None:
        if kind is None:
            self._run.has_ended = True
            self._desk.settled_elsewhere(self._run)
