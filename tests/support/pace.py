"""A worker's pace as a test wants it, where the real one is a matter of the machine."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from typing_extensions import override

if TYPE_CHECKING:
    from hudhud.worker.handler import Kind
    from hudhud.worker.runner import Runner


class _Steady(deque[float]):
    @override
    def append(self, rate: float, /) -> None:
        """Keep the rate that it was made with."""


def set_pace(runner: Runner, kind: Kind, jobs_per_second: float) -> None:
    """Make a runner believe that it finishes so many jobs of a kind, from its next tick on."""
    runner._slots[kind]._rates = _Steady([jobs_per_second])  # noqa: SLF001 - for tests alone
