"""Moves what is due, takes back what was lost, and keeps the house; any number may run at once."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from hudhud.store import upkeep
from hudhud.telemetry import emit
from hudhud.worker.housekeeping import Housekeeping
from hudhud.worker.link import Link
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from hudhud.store.upkeep import Rescued

JOBS_MAX: Final = 1_000
LEASES_MAX: Final = 20
STAGE_SECONDS_MIN: Final = 0.05  # while something is due
STAGE_SECONDS_MAX: Final = 0.25
RESCUE_SECONDS: Final = 1.0
HOUSE_SECONDS: Final = 60.0


class Maintainer(Service):
    """Stages and rescues on one connection; the house is kept beside it, on another.

    Attributes:
        housekeeping: The slow rounds; a failure there is reported and stops nothing here.
    """

    def __init__(self, url: str, *, house_seconds: float = HOUSE_SECONDS) -> None:
        """Make a maintainer; nothing is opened before `start`.

        Args:
            url: Address of the database.
            house_seconds: Between two rounds of housekeeping, give or take a fifth.
        """
        super().__init__("maintainer")
        self.housekeeping = Housekeeping(url)
        self._url = url
        self._house_seconds = house_seconds

    @override
    async def run(self) -> None:
        """Work until a stop."""
        link = Link(self._url, "maintainer")
        house = asyncio.ensure_future(self._keep_house())
        try:
            await self._maintain(link)
        finally:
            house.cancel()
            await asyncio.wait({house})
            await link.close()

    async def _maintain(self, link: Link) -> None:
        seconds = STAGE_SECONDS_MIN
        rescue_at = time.monotonic()
        while True:
            moved = await self._stage(link)
            if time.monotonic() >= rescue_at:
                await self._rescue(link)
                rescue_at = time.monotonic() + _spread(RESCUE_SECONDS)
            self.mark_ready()
            seconds = STAGE_SECONDS_MIN if moved else min(seconds * 2, STAGE_SECONDS_MAX)
            if not await self.pause(_spread(seconds)):
                return

    async def _stage(self, link: Link) -> int:
        """Move what is due, in bounded steps; return how many jobs that were."""
        moved = step = await link.run(upkeep.stage(JOBS_MAX))
        while step >= JOBS_MAX and not self.is_stopping:
            step = await link.run(upkeep.stage(JOBS_MAX))
            moved += step
        return moved

    async def _rescue(self, link: Link) -> None:
        while any(found := await link.run(upkeep.rescue(LEASES_MAX))):
            _tell_rescued(found)
            if self.is_stopping:
                return

    async def _keep_house(self) -> None:
        async with self.until_stop():
            while True:
                try:
                    await self.housekeeping.go_round()
                except Exception as error:  # noqa: BLE001 - whatever it is, the next round tries again
                    emit("maintainer.housekeeping_failed", error=error)
                await asyncio.sleep(_spread(self._house_seconds))


def _tell_rescued(found: Rescued) -> None:
    emit("lease.rescued", jobs_ready=found.rescued, jobs_ended=found.dead)


def _spread(seconds: float) -> float:
    """Give or take a fifth, so that the maintainers of a fleet do not meet."""
    return seconds * (0.8 + random.random() * 0.4)  # noqa: S311 - spreads load
