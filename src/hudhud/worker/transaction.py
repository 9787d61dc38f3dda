"""`ctx.transaction()`: a run's success committed with the handler's own rows."""

from __future__ import annotations

import time
from asyncio import CancelledError
from typing import TYPE_CHECKING, Final, cast

from psycopg import OperationalError
from psycopg.errors import InFailedSqlTransaction, ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus

from hudhud.domain.payload import RESULT_BYTES_MAX, dump_value
from hudhud.errors import LeaseLostError
from hudhud.failpoint import reach
from hudhud.store import runs

if TYPE_CHECKING:
    from types import TracebackType

    from hudhud.store.call import Call
    from hudhud.worker.desk import Desk
    from hudhud.worker.lent import AsyncLent, Lent
    from hudhud.worker.run import Run


# Beyond the time limit, until the server ends a transaction in which nothing happens.
IDLE_SECONDS: Final = 5.0


class Transaction:
    """Enter it with `async with` on the event loop, or with `with` in a plain function.

    While it is open the run's fence is held by its server process. A run that must end then has
    that session ended first, because the fence would be waited for.
    """

    def __init__(self, run: Run, desk: Desk, result: object) -> None:
        self._run = run
        self._desk = desk
        self._result = result
        self._connection: AsyncLent | Lent | None = None

    async def __aenter__(self) -> AsyncLent:
        self._claim()
        try:
            return await self._aenter()
        except BaseException:
            self._run.in_transaction = False
            raise

    async def _aenter(self) -> AsyncLent:
        connection = await self._desk.alend()
        try:
            self._begin(connection, is_ours=await connection.begin_run(self._call()))
        except BaseException as error:
            if isinstance(error, ReadOnlySqlTransaction):
                await connection.close()  # a standby now: the pool is to find the primary
            await self._aundo(connection)
            raise
        return connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection = cast("AsyncLent", self._connection)
        # An exception may be falsy.
        failure = error if error is not None else self._failure()
        if failure is not None:
            try:
                await self._aundo(connection)
            finally:
                self._run.in_transaction = False
            if failure is not error:
                raise failure
            return
        try:
            was_cancelled = await connection.commit_run()
        finally:
            self._desk.atake_back(connection)
            self._run.in_transaction = False
        self._end()
        if was_cancelled:
            raise CancelledError

    async def _aundo(self, connection: AsyncLent) -> None:
        try:
            await self._desk.shielded(connection.undo_run())
        finally:
            self._desk.atake_back(connection)

    def __enter__(self) -> Lent:
        self._claim()
        try:
            return self._enter()
        except BaseException:
            self._run.in_transaction = False
            raise

    def _enter(self) -> Lent:
        connection = self._desk.lend()
        try:
            self._begin(connection, is_ours=connection.begin_run(self._call()))
        except BaseException as error:
            if isinstance(error, ReadOnlySqlTransaction):
                connection.close()  # as above
            self._undo(connection)
            raise
        return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection = cast("Lent", self._connection)
        # An exception may be falsy.
        failure = error if error is not None else self._failure()
        if failure is not None:
            try:
                self._undo(connection)
            finally:
                self._run.in_transaction = False
            if failure is not error:
                raise failure
            return
        try:
            connection.commit_run()
        finally:
            self._desk.take_back(connection)
            self._run.in_transaction = False
        self._end()

    def _undo(self, connection: Lent) -> None:
        try:
            connection.undo_run()
        finally:
            self._desk.take_back(connection)

    def _claim(self) -> None:
        """Be the run's one transaction, before anything else of it begins."""
        if self._run.effects:
            message = "ctx.transaction() ends the job, but it has an open effect: leave its block."
            raise RuntimeError(message)
        if self._run.in_transaction:
            message = "ctx.transaction() is open already; take connection.transaction() inside it."
            raise RuntimeError(message)
        self._run.in_transaction = True

    def _call(self) -> Call[bool]:
        result = None
        if self._result is not None:
            result = dump_value(self._result, bytes_max=RESULT_BYTES_MAX)
        run = self._run
        # Little longer than the run may take: a frozen process must not hold its fence for ever.
        idle_seconds = max(run.deadline - time.monotonic(), 0.0) + IDLE_SECONDS
        return runs.settle(run.batch.lease_id, run.index + 1, result, idle_seconds=idle_seconds)

    def _begin(self, connection: AsyncLent | Lent, *, is_ours: bool) -> None:
        if not is_ours or self._run.has_ended:
            raise LeaseLostError
        reach("transaction.settled")
        self._connection = connection

    def _failure(self) -> BaseException | None:
        """Return why the transaction cannot be committed, although its block did not raise.

        PostgreSQL answers COMMIT with a silent rollback after a statement that failed, whoever
        caught that error, and psycopg leaves a connection alone that is gone.
        """
        assert self._connection is not None
        match self._connection.info.transaction_status:
            case TransactionStatus.INTRANS:
                return _stopped_at("transaction.written")
            case TransactionStatus.INERROR:
                message = (
                    "A statement of ctx.transaction() failed, so nothing of it can be committed."
                    " Let the error leave the block, or guard the statement with"
                    " connection.transaction()."
                )
                return InFailedSqlTransaction(message)
            case status:
                message = (
                    f"The transaction of ctx.transaction() is gone ({status.name}): its connection"
                    " was lost or closed, or it was ended inside the block."
                )
                return OperationalError(message)

    def _end(self) -> None:
        reach("transaction.committed")
        self._run.has_committed = True
        self._desk.settled_elsewhere(self._run)


def _stopped_at(point: str) -> BaseException | None:
    """Come by a failpoint where what it raises must undo the transaction first."""
    try:
        reach(point)
    except BaseException as error:  # noqa: BLE001 - raised when it is undone
        return error
    return None
