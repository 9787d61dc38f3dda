"""What a monitor sees, in Prometheus' text form, at a bounded cost whoever asks how often.

Three reads give everything, their cost does not grow with the backlog, and their answer is kept for
a few seconds. Counts that stopped at their cap are lower bounds; `hudhud_counts_capped` says so.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from hudhud.store.reads import Read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.metrics_core import Metric

    from hudhud.web.database import Database

    Row = Mapping[str, object]

KEEP_SECONDS = 2.0
COUNT_MAX = 10_000
SEEN_SECONDS = 30
"""A worker that beats once a second and was not seen for so long is not there."""

_GAUGES = {
    "ready": "Jobs that a worker could claim now.",
    "scheduled": "Jobs that wait for their time.",
    "waiting": "Jobs that wait behind an order key, a dependency or a hold.",
    "running": "Jobs that are claimed and not settled.",
    "dead": "Jobs that ended dead and are kept.",
    "workers": "Workers that serve this queue and were seen lately.",
    "oldest_ready_seconds": "How long the oldest claimable job has been waiting; 0 for none.",
}


_EVENT_FIGURES = {
    "waiting": ("hudhud_subscription_waiting", "Events that are committed and not routed yet."),
    "oldest_seconds": (
        "hudhud_subscription_oldest_seconds",
        "How long the oldest event that is not routed has been waiting: the relay's lag.",
    ),
    "routed": ("hudhud_subscription_routed", "Events that became jobs since it began."),
    "skipped": ("hudhud_subscription_skipped", "Events that were dropped before it had them."),
}
_EVENT_GAUGES = {"waiting", "oldest_seconds"}


class Metrics:
    """Reads the figures of the whole system, at most once in `KEEP_SECONDS`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._text = b""
        self._until = 0.0
        self._lock = asyncio.Lock()
        self._jobs = Growth()
        self._runs = Growth()

    async def text(self) -> bytes:
        """Return the exposition text.

        Raises:
            psycopg.OperationalError: When the database does not answer.
        """
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now >= self._until:
                self._text = await self._read()
                self._until = now + KEEP_SECONDS
            return self._text

    async def _read(self) -> bytes:
        seen = {"seen_seconds": SEEN_SECONDS}
        queues = await self._database.read(
            Read("queue_overview", {**seen, "tenant_id": None, "count_max": COUNT_MAX})
        )
        whole = (await self._database.read(Read("metrics", seen)))[0]
        subscriptions = await self._database.read(Read("subscriptions", {"count_max": COUNT_MAX}))
        self._jobs.look(cast("dict[str, int]", whole["jobs_inserted"]))
        self._runs.look(cast("dict[str, int]", whole["runs_ended"]))
        registry = CollectorRegistry()
        figures = [*_of_queues(queues), *_of_subscriptions(subscriptions), *self._of_whole(whole)]
        registry.register(_Figures(figures))
        return generate_latest(registry)

    def _of_whole(self, whole: Row) -> Iterable[Metric]:
        yield _gauge("hudhud_workers", "Workers that were seen lately.", whole["workers"])
        yield _gauge(
            "hudhud_partition_days_ahead",
            "Days for which jobs can be enqueued with the partitions that exist; alarm below 7.",
            whole["partition_days_ahead"],
        )
        yield CounterMetricFamily(
            "hudhud_jobs_enqueued",
            "Jobs written, as this process has seen since it started.",
            value=self._jobs.total,
        )
        yield CounterMetricFamily(
            "hudhud_runs_ended",
            "Runs that ended, whatever their outcome, as this process has seen since it started.",
            value=self._runs.total,
        )
        yield CounterMetricFamily(
            "hudhud_jobs_made_ready",
            "Times that a job became claimable, first runs and later ones.",
            value=cast("int", whole["ready_total"]),
        )


class Growth:
    """Sums how much the parts of a figure have grown; parts come and go with their partitions."""

    def __init__(self) -> None:
        self.total = 0
        self._last: dict[str, int] | None = None

    def look(self, parts: Mapping[str, int]) -> None:
        """Add what has been added to each part since the last look; the first look adds nothing."""
        if self._last is not None:
            self.total += sum(
                max(0, count - self._last.get(part, 0)) for part, count in parts.items()
            )
        self._last = dict(parts)


class _Figures(Collector):
    def __init__(self, figures: list[Metric]) -> None:
        self._figures = figures

    @override
    def collect(self) -> Iterable[Metric]:
        return self._figures


def _of_queues(rows: Iterable[Row]) -> Iterable[Metric]:
    rows = list(rows)
    for column, text in _GAUGES.items():
        unit = column if column.endswith("_seconds") else f"jobs_{column}"
        name = "hudhud_queue_workers" if column == "workers" else f"hudhud_{unit}"
        family = GaugeMetricFamily(name, text, labels=["queue"])
        for row in rows:
            family.add_metric([str(row["name"])], float(cast("float", row[column] or 0)))
        yield family
    capped = any(bool(row["is_capped"]) for row in rows)
    yield _gauge("hudhud_counts_capped", "1 when some count above is a lower bound.", int(capped))


def _of_subscriptions(rows: Iterable[Row]) -> Iterable[Metric]:
    rows = list(rows)
    for column, (name, text) in _EVENT_FIGURES.items():
        kind = GaugeMetricFamily if column in _EVENT_GAUGES else CounterMetricFamily
        family = kind(name, text, labels=["subscription"])
        for row in rows:
            # Nobody is behind with what is not to be routed.
            if column != "oldest_seconds" or (row["state"] == "active" and not row["is_silent"]):
                family.add_metric([str(row["name"])], float(cast("float", row[column])))
        yield family


def _gauge(name: str, text: str, value: object) -> Metric:
    return GaugeMetricFamily(name, text, value=float(cast("float", value)))
