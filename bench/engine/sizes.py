"""How much is measured: minutes, the full figures, or hours."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Size:
    """The amounts of one size. Jobs are counts, the others seconds or numbers of samples.

    Attributes:
        name: As on the command line.
        rounds: How often each side of a comparison is measured.
        drain_jobs: In one drain.
        fed_jobs: At least so many pass through a fed drain,
        fed_seconds: and it takes at least so long.
        fed_rounds: How often, with and without an old snapshot.
        clients: How many at once.
        client_rounds: Of enqueues by clients at once, a quarter of a second each.
        bulk_calls: Of 1,000 jobs each, for each side.
        beside_samples: Enqueues alone, and as many beside an open transaction.
        pickups: Single jobs into an idle queue, and single events.
        connections: How many transactions at once.
        handler_jobs: That write a row each.
        effects: That are timed, one after another.
        relay_events: That a relay finds when it starts.
        backlog_jobs: That a worker has while its memory is looked at.
        history_jobs: Finished jobs in the history that a drain is measured with.
        soak_seconds: How long the steady load of a soak lasts.
    """

    name: str
    rounds: int
    drain_jobs: int
    fed_jobs: int
    fed_seconds: float
    fed_rounds: int
    clients: tuple[int, ...]
    client_rounds: int
    bulk_calls: int
    beside_samples: int
    pickups: int
    connections: tuple[int, ...]
    handler_jobs: int
    effects: int
    relay_events: int
    backlog_jobs: int
    history_jobs: int
    soak_seconds: float


SIZES: Final[Mapping[str, Size]] = MappingProxyType(
    {
        "short": Size(
            "short",
            rounds=3,
            drain_jobs=60_000,
            fed_jobs=200_000,
            fed_seconds=6,
            fed_rounds=1,
            clients=(1, 8),
            client_rounds=20,
            bulk_calls=20,
            beside_samples=200,
            pickups=150,
            connections=(1, 4, 8),
            handler_jobs=4_000,
            effects=200,
            relay_events=20_000,
            backlog_jobs=100_000,
            history_jobs=1_000_000,
            soak_seconds=60,
        ),
        "full": Size(
            "full",
            rounds=5,
            drain_jobs=400_000,
            fed_jobs=2_000_000,
            fed_seconds=60,
            fed_rounds=3,
            clients=(1, 8),
            client_rounds=60,
            bulk_calls=100,
            beside_samples=1_000,
            pickups=1_000,
            connections=(1, 4, 8),
            handler_jobs=20_000,
            effects=1_000,
            relay_events=200_000,
            backlog_jobs=100_000,
            history_jobs=10_000_000,
            soak_seconds=600,
        ),
        "soak": Size(
            "soak",
            rounds=5,
            drain_jobs=400_000,
            fed_jobs=20_000_000,
            fed_seconds=600,
            fed_rounds=1,
            clients=(1, 8),
            client_rounds=60,
            bulk_calls=100,
            beside_samples=1_000,
            pickups=1_000,
            connections=(1, 4, 8),
            handler_jobs=20_000,
            effects=1_000,
            relay_events=200_000,
            backlog_jobs=100_000,
            history_jobs=10_000_000,
            soak_seconds=7_200,
        ),
    }
)
