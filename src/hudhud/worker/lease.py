"""Keeps the leases of this process alive, from a thread with a connection of its own.

A handler that blocks the event loop is thereby seen as stalled, not as dead; and handlers that
take every other connection cannot take this one. The same thread asks once a second whether
somebody wants one of our runs cancelled, and notices when the loop stands still.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from hudhud.worker.lease_thread import HeldLeases, Keeping, LeaseThread, LoopWatch
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

TICK_SECONDS: Final = 0.25
# What a statement in flight may take to end once the thread is told to.
_JOIN_SECONDS: Final = 5.0


class LeaseKeeper(Service):
    """Renews leases that outlive half their time, and only those.

    The service's task turns on the loop and stamps it; its thread does the work. The callbacks
    are called on the loop.
    """

    def __init__(
        self,
        url: str,
        worker_id: UUID,
        *,
        lease_seconds: int,
        on_lost: Callable[[UUID], None],
        on_cancel: Callable[[UUID, int], None],
    ) -> None:
        """Make a keeper; thread and connection begin with `start`.

        Args:
            url: Address of the database.
            worker_id: The registered worker whose runs are asked about.
            lease_seconds: How long a claim or a renewal holds.
            on_lost: Gets the id of a lease that the database no longer has. Its finish may just be
                in flight: only what still runs under it is to be stopped.
            on_cancel: Gets job id and run of a run that somebody asked to cancel; again with each
                beat until it has ended.
        """
        super().__init__("lease")
        self._held = HeldLeases(lease_seconds)
        self._watch = LoopWatch(TICK_SECONDS)
        self._url = url
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds
        self._on_lost = on_lost
        self._on_cancel = on_cancel

    def hold(self, lease_id: UUID, claimed_at: float) -> None:
        """Keep a lease from now on.

        Args:
            lease_id: As the claim returned it.
            claimed_at: `time.monotonic()` from before the claim was sent.
        """
        self._held.hold(lease_id, claimed_at)

    def release(self, lease_id: UUID) -> None:
        """Let go of a lease that holds no work any more; an unknown one is ignored."""
        self._held.release(lease_id)

    @override
    async def run(self) -> None:
        """Stamp the loop while the thread works; end, or fail, with the thread."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def tell(callback: Callable[..., object], *args: object) -> None:
            # A closed loop has nobody left to be told.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(callback, *args)

        thread = LeaseThread(
            Keeping(
                url=self._url,
                worker_id=self._worker_id,
                lease_seconds=self._lease_seconds,
                held=self._held,
                watch=self._watch,
                tell_lost=partial(tell, self._on_lost),
                tell_cancel=partial(tell, self._on_cancel),
                tell_ended=partial(tell, _settle, ended),
            )
        )
        self._watch.stamp()
        thread.start()
        self.mark_ready()
        try:
            while not ended.done() and await self.pause(TICK_SECONDS):
                self._watch.stamp()
        finally:
            thread.quit()
            async with asyncio.timeout(_JOIN_SECONDS):
                await ended


def _settle(ended: asyncio.Future[None], error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)
