"""Records what runs came to: one finish in flight; what ends meanwhile joins the next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import psycopg
from typing_extensions import override

from hudhud.errors import HudhudError, is_limit
from hudhud.failpoint import reach
from hudhud.store import runs
from hudhud.telemetry import emit
from hudhud.worker import ending
from hudhud.worker.backoff import Backoff
from hudhud.worker.link import as_uuid
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from hudhud.store.call import Call
    from hudhud.store.runs import Settlement
    from hudhud.worker.batch import Batch
    from hudhud.worker.link import Link

SETTLEMENTS_MAX: Final = 1_000


class Finisher(Service):
    """Collects ended runs by lease and writes them, in one statement for all leases.

    A lease whose runs have all ended is closed: its row goes, and no position need be sent.
    """

    def __init__(self, link: Link, *, on_closed: Callable[[Batch], None]) -> None:
        """Make a finisher.

        Args:
            link: Its own connection.
            on_closed: Told of a batch whose lease is gone, by a finish or by a rescue.
        """
        super().__init__("finisher")
        self._link = link
        self._on_closed = on_closed
        self._touched: dict[Batch, None] = {}
        self._settlements: list[Settlement] = []
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_sending = False
        self._is_repeat = False

    @property
    def is_idle(self) -> bool:
        """Whether everything that ended is recorded."""
        return not (self._touched or self._settlements or self._tasks or self._is_sending)

    def succeed(self, batch: Batch, position: int) -> None:
        """Take note of a plain success."""
        batch.ended.append(position)
        batch.open_runs -= 1
        self._touched[batch] = None
        self._wake.set()

    def settle(self, batch: Batch, settlement: Settlement) -> None:
        """Take note of any other end."""
        self._settlements.append(settlement)
        batch.open_runs -= 1
        self._touched[batch] = None
        self._wake.set()

    def settled(self, batch: Batch) -> None:
        """Take note of a run that committed its own success: only a lease's end is written."""
        batch.open_runs -= 1
        if batch.open_runs == 0:
            self._touched[batch] = None
            self._wake.set()

    def later(self, work: Coroutine[object, object, None]) -> None:
        """Do something that ends in a settlement; `is_idle` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()

    async def end_transaction(self, batch: Batch, position: int) -> None:
        """End a handler's transaction at the server, so that the fence it holds is free."""
        await self._link.run(runs.end_transaction(batch.lease_id, position))

    @override
    async def run(self) -> None:
        """Write until everything is written and a stop was asked for."""
        self.mark_ready()
        backoff = Backoff()
        while True:
            if self.is_stopping and self._tasks:
                await self._wake.wait()
            else:
                async with self.until_stop():
                    await self._wake.wait()
            self._wake.clear()
            if self._touched:
                try:
                    await self.finish()
                    backoff.reset()
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    seconds = backoff.next_delay_seconds()
                    emit("finish.failed", error=error, retry_seconds=seconds)
                    self._wake.set()
                    await asyncio.sleep(seconds)
            elif self.is_stopping and self.is_idle:
                return

    async def finish(self) -> None:
        """Write what has ended until now.

        Raises:
            psycopg.OperationalError: Everything is still on the list; the same is sent again.
                What had been committed all the same is refused then, and that is right.
        """
        # What ends while this is under way belongs to the next one, with the lease it is under.
        touched, self._touched = self._touched, {}
        settlements = self._settlements[:SETTLEMENTS_MAX]
        self._settlements = self._settlements[SETTLEMENTS_MAX:]
        is_rest = bool(self._settlements)
        closing = [batch for batch in touched if batch.open_runs == 0 and not is_rest]
        parts = {batch: len(batch.ended) for batch in touched if batch.open_runs or is_rest}
        self._is_sending = True
        try:
            reach("finish.asked")
            answer = await self._send(closing, parts, settlements)
            reach("finish.recorded")
        except BaseException:
            self._touched = touched | self._touched
            self._settlements = settlements + self._settlements
            self._is_repeat = True
            raise
        finally:
            self._is_sending = False
        for batch, amount in parts.items():
            del batch.ended[:amount]
        if is_rest:
            self._touched = touched | self._touched
        self._report(answer, touched)
        for batch in closing:
            self._on_closed(batch)
        if self._touched:
            self._wake.set()

    async def _send(
        self, closing: list[Batch], parts: dict[Batch, int], settlements: list[Settlement]
    ) -> runs.Finished:
        def call(ends: list[Settlement], *, general: bool = False) -> Call[runs.Finished]:
            whole = [] if general else [batch for batch in closing if batch.is_whole]
            others = [batch for batch in closing if general or not batch.is_whole]
            return runs.finish(
                [batch.lease_id for batch in (*others, *parts)],
                [True] * len(others) + [False] * len(parts),
                part_leases=[batch.lease_id for batch, sent in parts.items() for _ in range(sent)],
                part_positions=[
                    place for batch, sent in parts.items() for place in batch.ended[:sent]
                ],
                settlements=ends,
                whole=[batch.lease_id for batch in whole],
            )

        try:
            return await self._link.run(call(settlements))
        except psycopg.errors.UniqueViolation:
            # A run of a lease that seemed whole had ended: the form that minds it costs more.
            return await self._link.run(call(settlements, general=True))
        except Exception as error:
            if not (settlements and _is_refusal(error)):
                raise
            # Something in the text of one of them: it must not hold up the others.
            emit("finish.unrecordable", error=error, settlements=len(settlements))
        alone = [await self._send_alone(one) for one in settlements]
        answer = await self._link.run(call([], general=True))
        return answer._replace(
            settled=answer.settled + sum(one.settled for one in alone),
            refused=answer.refused + sum(one.refused for one in alone),
        )

    async def _send_alone(self, settlement: Settlement) -> runs.Finished:
        """Record one end; what the database will not take is recorded in a form that it takes."""

        def call(end: Settlement) -> Call[runs.Finished]:
            return runs.finish([end.lease], [False], settlements=[end])

        try:
            return await self._link.run(call(settlement))
        except Exception as error:
            if not _is_refusal(error):
                raise
            return await self._link.run(call(ending.last_resort(settlement, error)))

    def _report(self, answer: runs.Finished, touched: Iterable[Batch]) -> None:
        if answer.refused or answer.lost_leases:
            emit(
                "finish.refused",
                refused=answer.refused,
                leases=len(answer.lost_leases),
                is_repeat=self._is_repeat,
            )
            lost = {as_uuid(lease) for lease in answer.lost_leases}
            for batch in touched:
                if batch.lease_id in lost:
                    batch.is_lost = True
                    self._touched.pop(batch, None)
                    self._on_closed(batch)
        self._is_repeat = False
        if answer.settled:
            emit("run.finished", settled=answer.settled)


def _is_refusal(error: Exception) -> bool:
    """Whether the database refuses what was said, which it will do again and again."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return is_limit(error.sqlstate)
    return isinstance(error, psycopg.Error | HudhudError | ValueError)
