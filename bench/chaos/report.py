"""What a run came to: one JSON object for machines, a few lines for people, an exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.chaos.finding import Breach
from bench.chaos.verdict import restarts, timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.chaos.acts import Tally
    from bench.chaos.answers import Answers
    from bench.chaos.finding import Finding
    from bench.chaos.record import Record
    from bench.chaos.verdict_outside import Outside

IN_FLIGHT_SHARE_MIN: Final = 0.8
_TOLD_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one run.

    Attributes:
        resumed_seconds: After each fault, until the next run's end was committed.
        outside: What came of the effects in the world outside.
        findings: What must not be, by the record.
        unexpected: What must not be, by the harness: deaths by nobody's hand, stalls.
        decided: Effects that nobody could ask the ledger about, and an operator decided.
        told: Telemetry events of the workers, counted by name.
        deadlocks: By the server's log.
        dedups: Whether the ledger acted upon a key once.
    """

    seed: int
    seconds: float
    tally: Tally
    resumed_seconds: Sequence[float]
    answers: Answers
    record: Record
    outside: Outside
    findings: Sequence[Finding]
    unexpected: Sequence[str]
    decided: int
    told: Mapping[str, int]
    deadlocks: int
    dedups: bool

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept, and the kills were worth it."""
        hit_enough = self.tally.kills_in_flight >= IN_FLIGHT_SHARE_MIN * self.tally.kills
        return hit_enough and self.is_sound

    @property
    def is_sound(self) -> bool:
        """Whether every promise was kept."""
        return not (self.findings or self.unexpected or self.deadlocks)

    def document(self) -> dict[str, object]:
        """Return the JSON object."""
        tally, found = self.tally, Counter(one.breach for one in self.findings)
        late = sorted(restarts(self.record))
        return {
            "kills": tally.kills,
            "kills_in_flight": tally.kills_in_flight,
            "windows": {window.value: amount for window, amount in sorted(tally.windows.items())},
            "server_kills": tally.server_kills,
            "api_kills": tally.api_kills,
            "relay_kills": tally.relay_kills,
            "stops": tally.stops,
            "terminated_sessions": tally.terminated_sessions,
            "graceful_stops": tally.graceful_stops,
            "held_rows": tally.holds,
            "standbys": tally.standbys,
            "harmed_connections": {harm.value: n for harm, n in sorted(tally.harms.items())},
            "failpoints_hit": tally.fired.total(),
            "failpoints": self._failpoints(),
            "ledger": "dedups" if self.dedups else "repeats",
            "acknowledged": len(self.answers.acknowledged),
            "broken_commits": self.answers.broken_commits,
            "broken_requests": self.answers.broken_requests,
            "commits_unknown": len(self.answers.unknown),
            "commits_unknown_done": len(self.answers.unknown & self.record.intents),
            "jobs": len(self.record.jobs),
            "effects": len(self.record.effects),
            "events": len(self.record.news.published),
            "events_routed": len(self.record.news.routed),
            "acts": self.outside.acts,
            "reconciled": self.told.get("effect.reconciled", 0),
            "unknown": self.decided,
            "doubled_in_named_gap": self.outside.in_named_gap,
            "runs_lost": sum(entry.outcome == "lost" for entry in self.record.entries),
            **{breach.value: found[breach] for breach in Breach},
            "refused_finishes": self.told.get("finish.refused", 0),
            "repeated_finishes": self.told.get("finish.repeated", 0),
            "unexpected": len(self.unexpected),
            "deadlocks": self.deadlocks,
            "restart_seconds_p50": round(late[len(late) // 2], 3) if late else 0.0,
            "restart_seconds_p99": round(late[len(late) * 99 // 100], 3) if late else 0.0,
            "resumed_seconds_max": round(max(self.resumed_seconds, default=0.0), 3),
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
        }

    def _failpoints(self) -> dict[str, dict[str, int]]:
        """Return how often what happened at which failpoint."""
        found: dict[str, dict[str, int]] = {}
        for (point, action), amount in sorted(self.tally.fired.items()):
            found.setdefault(point, {})[action.value] = amount
        return found

    def lines(self) -> Iterator[str]:
        """Yield what a person wants to know."""
        for words in self.unexpected:
            yield f"unexpected: {words}"
        for finding in self.findings[:_TOLD_MAX]:
            yield f"{finding.breach}: {finding.words} (job {finding.job_id})"
            if finding.job_id is not None:
                yield from (f"    {line}" for line in timeline(self.record, finding.job_id))
        if len(self.findings) > _TOLD_MAX:
            yield f"… and {len(self.findings) - _TOLD_MAX} more"
        told = ", ".join(f"{event} {amount}" for event, amount in sorted(self.told.items()))
        yield f"the workers told: {told}"
        share = self.tally.kills_in_flight / max(1, self.tally.kills)
        yield (
            f"{self.tally.kills} kills, {share:.0%} of them in flight;"
            f" {len(self.answers.acknowledged)} jobs acknowledged;"
            f" {'every promise kept' if self.is_good else 'NOT GOOD'}"
        )
