"""For your tests: run jobs, set the clock, record effects, and crash handlers at every await."""

from hudhud.testing.clock import Clock, set_clock
from hudhud.testing.crash import CrashPoint, crash_points
from hudhud.testing.drain import NeverDrainedError, adrain, drain
from hudhud.testing.drained import Drained, EndedRun
from hudhud.testing.expect import EnqueuedJob, aassert_enqueued, assert_enqueued
from hudhud.testing.inline import Inline, StuckError, inline
from hudhud.testing.recording import LostReplyError, RecordedCall, Recorder, recording

__all__ = [
    "Clock",
    "CrashPoint",
    "Drained",
    "EndedRun",
    "EnqueuedJob",
    "Inline",
    "LostReplyError",
    "NeverDrainedError",
    "RecordedCall",
    "Recorder",
    "StuckError",
    "aassert_enqueued",
    "adrain",
    "assert_enqueued",
    "crash_points",
    "drain",
    "inline",
    "recording",
    "set_clock",
]
