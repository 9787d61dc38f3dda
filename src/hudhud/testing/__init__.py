"""For your tests: run jobs in them, set the clock, and crash handlers at every await."""

from hudhud.testing.clock import Clock, set_clock
from hudhud.testing.crash import CrashPoint, crash_points
from hudhud.testing.drain import NeverDrainedError, adrain, drain
from hudhud.testing.drained import Drained, EndedRun
from hudhud.testing.expect import EnqueuedJob, aassert_enqueued, assert_enqueued
from hudhud.testing.inline import Inline, StuckError, inline

__all__ = [
    "Clock",
    "CrashPoint",
    "Drained",
    "EndedRun",
    "EnqueuedJob",
    "Inline",
    "NeverDrainedError",
    "StuckError",
    "aassert_enqueued",
    "adrain",
    "assert_enqueued",
    "crash_points",
    "drain",
    "inline",
    "set_clock",
]
