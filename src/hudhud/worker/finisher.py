"""Records what runs came to: one finish in flight; what ends meanwhile joins the next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import psycopg

from hudhud.errors import HudhudError
from hudhud.store import runs
from hudhud.telemetry import emit
from hudhud.worker import ending
from hudhud.worker.backoff import Backoff
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from uuid import UUID

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

    @property
    def is_idle(self) -> bool:
        """Whether everything that ended is recorded."""
        return not (self._touched or self._settlements or self._tasks)

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
        """Take note of a run that committed its own success."""
        batch.open_runs -= 1
        self._touched[batch] = None
        self._wake.set()

    def later(self, work: Coroutine[object, object, None]) -> None:
        """Do something that ends in a settlement; `is_idle` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end_session(self, server_pid: int) -> None:
        """End a handler's session at the server, so that what it holds is free."""
        await self._link.run(runs.end_session(server_pid))

    async def run(self) -> None:
        """Write until everything is written and a stop was asked for."""
        self.mark_ready()
        backoff = Backoff()
        while True:
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
            psycopg.OperationalError: Nothing was taken off the list; the same is sent again.
                What had been committed all the same is refused then, and that is right.
        """
        touched = list(self._touched)
        settlements = self._settlements[:SETTLEMENTS_MAX]
        is_rest = len(settlements) < len(self._settlements)
        closing = [batch for batch in touched if batch.open_runs == 0 and not is_rest]
        parts = [batch for batch in touched if batch.open_runs or is_rest]
        sent = {batch: len(batch.ended) for batch in parts}
        part_leases = [batch.lease_id for batch in parts for _ in range(sent[batch])]
        positions = [place for batch in parts for place in batch.ended[: sent[batch]]]
        answer = await self._send(
            closing, parts, part=(part_leases, positions), settlements=settlements
        )

        del self._settlements[: len(settlements)]
        for batch, amount in sent.items():
            del batch.ended[:amount]
            if not (batch.ended or batch.open_runs == 0):
                self._touched.pop(batch, None)
        for batch in closing:
            self._touched.pop(batch, None)
            self._on_closed(batch)
        if self._touched:
            self._wake.set()
        self._report(answer, touched)

    async def _send(
        self,
        closing: list[Batch],
        parts: list[Batch],
        *,
        part: tuple[list[UUID], list[int]],
        settlements: list[Settlement],
    ) -> runs.Finished:
        leases = [batch.lease_id for batch in (*closing, *parts)]
        closes = [True] * len(closing) + [False] * len(parts)
        part_leases, part_positions = part

        def call(ends: list[Settlement]) -> Call[runs.Finished]:
            return runs.finish(
                leases,
                closes,
                part_leases=part_leases,
                part_positions=part_positions,
                settlements=ends,
            )

        try:
            return await self._link.run(call(settlements))
        except (psycopg.OperationalError, psycopg.InterfaceError):
            raise
        except (psycopg.Error, HudhudError, ValueError) as error:
            # Something in a failure's own text: what cannot be written must not block the rest.
            emit("finish.unrecordable", error=error, settlements=len(settlements))
            return await self._link.run(call([ending.last_resort(one) for one in settlements]))

    def _report(self, answer: runs.Finished, touched: list[Batch]) -> None:
        if answer.refused or answer.lost_leases:
            emit("finish.refused", refused=answer.refused, leases=len(answer.lost_leases))
        lost = {str(lease) for lease in answer.lost_leases}
        for batch in touched:
            if str(batch.lease_id) in lost:
                batch.is_lost = True
                self._touched.pop(batch, None)
                self._on_closed(batch)
        if answer.settled:
            emit("run.finished", settled=answer.settled)
