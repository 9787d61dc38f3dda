"""For your tests: run jobs, set the clock, record effects, and crash handlers at every await."""

from hudhud.testing.clock import Clock, set_clock
from hudhud.testing.crash import CrashPoint, crash_points
from hudhud.testing.drain import NeverDrainedError, adrain, drain
from hudhud.testing.drained import Drained, EndedRun
from hudhud.testing.expect import EnqueuedJob, aassert_enqueued, assert_enqueued
from hudhud.testing.inline import Inline, StuckError, inline
from hudhud.testing.published import PublishedEvent, aassert_published, assert_published
from hudhud.testing.recording import LostReplyError, RecordedCall, Recorder, recording
from hudhud.testing.upcasters import UpcastSample, check_upcasters

__all__ = [
    "Clock",
    "CrashPoint",
    "Drained",
    "EndedRun",
    "EnqueuedJob",
    "Inline",
    "LostReplyError",
    "NeverDrainedError",
    "PublishedEvent",
    "RecordedCall",
    "Recorder",
    "StuckError",
    "UpcastSample",
    "aassert_enqueued",
    "aassert_published",
    "adrain",
    "assert_enqueued",
    "assert_published",
    "check_upcasters",
    "crash_points",
    "drain",
    "inline",
    "recording",
    "set_clock",
]
