"""Holds what the ledger did against what hudhud says about it: no act twice, none forgotten.

Pure: from the journal, the record and the freezes to findings. A second act of one key is excused
only by the gap that no check can close: its sender was frozen, by us, between its last check and
its first byte, and went on when the ledger had settled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.chaos.finding import Breach, Finding
from bench.chaos.task import WITH_ACTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.chaos.bookkeeper import Act
    from bench.chaos.fleet import Freeze
    from bench.chaos.record import EffectOutside, Job, Record

OPEN: Final = frozenset({"intended", "unknown"})


@dataclass(slots=True)
class Outside:
    """What came of the effects outside.

    Attributes:
        findings: What must not be.
        in_named_gap: Second acts that only the named gap explains.
        acts: Keys that were acted upon.
        repeats: Calls that the ledger knew again.
    """

    findings: list[Finding] = field(default_factory=list[Finding])
    in_named_gap: int = 0
    acts: int = 0
    repeats: int = 0


def judge(acts: Sequence[Act], record: Record, freezes: Sequence[Freeze]) -> Outside:
    """Return what came of the effects outside."""
    by_key: dict[str, list[Act]] = defaultdict(list)
    for act in acts:
        if not act.is_repeat:
            by_key[act.key].append(act)
    known = {effect.key: effect for effect in record.outside}
    found = Outside(acts=len(by_key), repeats=sum(act.is_repeat for act in acts))
    late = _late(acts, freezes)
    for key, done in by_key.items():
        # Of several the late ones are the second ones: who was frozen came after its check.
        excused = min(sum(act.entry in late for act in done), len(done) - 1)
        found.in_named_gap += excused
        job_id = known[key].job_id if key in known else None
        for _ in range(len(done) - 1 - excused):
            words = f"{key} was acted upon {len(done)} times: {_told(done)}"
            found.findings.append(Finding(Breach.DOUBLED, words, job_id))
        if job_id is None:
            words = f"{key} was acted upon without an intention"
            found.findings.append(Finding(Breach.TORN, words))
    found.findings += _torn(known, by_key, late)
    found.findings += _missing(record.jobs, record, by_key)
    return found


def _late(acts: Sequence[Act], freezes: Sequence[Freeze]) -> set[int]:
    """Return the entries of those that were frozen in the gap, of each freeze as many as it had."""
    late: set[int] = set()
    for freeze in freezes:
        frozen = [
            act.entry
            for act in acts
            if act.pid == freeze.pid
            and act.asked_at <= freeze.stopped_at
            and act.at >= freeze.thawed_at
        ]
        late.update(frozen[: freeze.sending])
    return late


def _torn(
    known: Mapping[str, EffectOutside], by_key: Mapping[str, Sequence[Act]], late: set[int]
) -> Iterator[Finding]:
    """Compare what hudhud says of each effect with the journal."""
    for key, effect in known.items():
        done = by_key.get(key, [])
        if effect.state in OPEN:
            yield Finding(Breach.LEFT_OVER, f"{key} is {effect.state} in the end", effect.job_id)
        elif effect.state == "done" and not done:
            yield Finding(
                Breach.TORN, f"{key} is done, and the ledger knows nothing", effect.job_id
            )
        elif effect.state == "done" and effect.result not in [act.entry for act in done]:
            words = f"{key} is done with {effect.result}: {_told(done)}"
            yield Finding(Breach.TORN, words, effect.job_id)
        elif effect.state == "not_done" and [act for act in done if act.entry not in late]:
            yield Finding(Breach.TORN, f"{key} is not done: {_told(done)}", effect.job_id)


def _missing(
    jobs: Sequence[Job], record: Record, by_key: Mapping[str, Sequence[Act]]
) -> Iterator[Finding]:
    """Find jobs that succeeded without all of their acts."""
    succeeded = Counter(entry.job_ids[0] for entry in record.entries if entry.outcome == "succeed")
    for job in jobs:
        if job.type in WITH_ACTS and job.id in succeeded:
            for name in job.task.act_names:
                if f"{job.id}:{name}" not in by_key:
                    words = f"it succeeded, and {name} was not done"
                    yield Finding(Breach.TORN, words, job.id)


def _told(acts: Sequence[Act]) -> str:
    return "; ".join(
        f"entry {act.entry} by worker {act.worker} (pid {act.pid}) in run {act.run},"
        f" checked at {act.asked_at:.3f}, done at {act.at:.3f}"
        for act in acts
    )
