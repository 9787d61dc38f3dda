"""What a look at one thing came to: the lines of `hudhud doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a look came to."""

    FINE = "fine"
    NOTE = "note"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was seen, and what to do if it is wrong."""

    verdict: Verdict
    subject: str
    detail: str


def judge(subject: str, seen: str, advice: str, *, is_fine: bool) -> Finding:
    """Return a finding that gives advice only where something is wrong."""
    if is_fine:
        return Finding(Verdict.FINE, subject, seen)
    return Finding(Verdict.WRONG, subject, f"{seen}. {advice}")
