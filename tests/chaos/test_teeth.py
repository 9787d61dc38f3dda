"""Planted faults: they fit the code as it is, and one that is planted is noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.chaos.finding import Breach
from bench.chaos.teeth import patches
from bench.chaos.teeth.catalogue import TEETH
from bench.chaos.teeth.functions import edited, text_of
from bench.chaos.teeth.tooth import STANDS_STILL, Edit, Tooth

ROOT = Path(__file__).parents[2]
SECONDS = 280  # liveness only


@pytest.mark.parametrize("tooth", TEETH.values(), ids=TEETH)
def test_a_planted_fault_fits_the_functions_as_they_are(tooth: Tooth) -> None:
    texts: dict[str, str] = {}
    for edit in tooth.edits:
        before = texts.get(edit.function) or text_of(edit.function)
        texts[edit.function] = edited(before, edit)
        assert texts[edit.function] != before
    assert tooth.edits or tooth.patch
    assert not tooth.patch or callable(getattr(patches, tooth.patch))


def test_a_fault_that_does_not_fit_any_more_cannot_be_planted() -> None:
    with pytest.raises(LookupError, match="settle has 'no such text' 0 times, not 1"):
        edited(text_of("settle"), Edit("settle", "no such text", ""))
    with pytest.raises(LookupError, match="no function"):
        text_of("no_such_function")


def test_each_fault_says_what_must_be_found_because_of_it() -> None:
    assert len(TEETH) >= 12
    known = {*(breach.value for breach in Breach), STANDS_STILL}
    assert all(tooth.expects and tooth.expects <= known for tooth in TEETH.values())


def test_a_fault_that_is_planted_is_noticed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.chaos.teeth", "early rescue", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told["noticed"] == 1
    assert told["tried"][0]["caught"] == ["early_rescues"]
