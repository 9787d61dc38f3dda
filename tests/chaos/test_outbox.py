"""The soak of the outbox, at a size of seconds; `make chaos` has it with 200,000 events."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 280  # liveness only


def test_no_event_is_lost_doubled_or_reordered_through_kills_and_a_copy() -> None:
    words = ["--events", "4000", "--seed", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.chaos.outbox", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told["events"] >= 4_000
    assert told["routed"] == told["events"] * told["subscriptions"]
    assert [told[name] for name in ("events_lost", "events_doubled", "events_reordered")] == [0] * 3
    assert told["rolled_back"] > 0.1 * told["events"]
    assert told["copy_refused"]
    assert min(told["relay_kills"], told["foreign_transactions"], told["failpoints_hit"]) >= 1
