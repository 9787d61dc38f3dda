"""Which leases this process holds, shared between the loop and the renewal thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID


class HeldLeases:
    """The leases this process holds, and since when their time counts.

    The loop adds and removes, the thread reads a copy: each step is one operation on a dict,
    which is atomic, so there is no lock that a claim could wait for.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._half_seconds = lease_seconds / 2
        self._since: dict[UUID, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def hold(self, lease_id: UUID, since: float) -> None:
        """Keep a lease whose time counts from a monotonic second."""
        self._since[lease_id] = since

    def release(self, lease_id: UUID) -> bool:
        """Let a lease go; return whether it was held."""
        return self._since.pop(lease_id, None) is not None

    def due(self, now: float) -> list[UUID]:
        """Return the leases past half their time, oldest first."""
        since = self._since.copy()
        return sorted(
            (lease for lease, at in since.items() if now - at >= self._half_seconds),
            key=since.__getitem__,
        )

    def renew(self, leases: Iterable[UUID], since: float) -> None:
        """Count the time of renewed leases anew, unless they were let go meanwhile."""
        for lease in leases:
            if lease in self._since:
                self._since[lease] = since
