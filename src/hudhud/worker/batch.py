"""What one claim took: the jobs under one lease, kept as the arrays that the database returned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hudhud.worker.link import as_uuid

if TYPE_CHECKING:
    from uuid import UUID

    from hudhud.store.runs import Claimed


@dataclass(slots=True, eq=False)
class Batch:
    """The jobs of one lease and how many of their runs have not ended.

    Attributes:
        claimed: The arrays; element i is the job at position i + 1 of the lease.
        lease_id: The lease that all of the batch is held under.
        open_runs: Runs whose end is not recorded here yet.
        ended: Positions (1-based) that succeeded and were not sent yet.
        is_lost: Whether the database no longer has the lease.
    """

    claimed: Claimed
    lease_id: UUID = field(init=False)
    open_runs: int = field(init=False)
    ended: list[int] = field(default_factory=list[int])
    is_lost: bool = False

    @property
    def is_suspect(self) -> bool:
        """As `Claimed.are_suspects`."""
        return self.claimed.are_suspects

    def __post_init__(self) -> None:
        self.lease_id = as_uuid(self.claimed.lease_id)
        self.open_runs = len(self.claimed.job_ids)

    @property
    def is_whole(self) -> bool:
        """Whether every run succeeded and none of that was sent or committed yet."""
        return len(self.ended) == len(self.claimed.job_ids)
