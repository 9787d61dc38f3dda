"""The figures of a chaos run, and what makes it fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import uuid4

import pytest

from bench.chaos.acts import Tally
from bench.chaos.finding import Breach, Finding
from bench.chaos.points import Action
from bench.chaos.report import Report
from bench.chaos.verdict_outside import Outside
from tests.support.histories import History

NEEDED = {
    *("kills", "kills_in_flight", "acknowledged", "lost", "doubled", "stale_finishes"),
    *("refused_finishes", "overlaps", "stops", "terminated_sessions", "server_kills"),
    *("doubled_in_named_gap", "reconciled", "unknown", "failpoints_hit"),
    *("seed", "seconds"),
}


@pytest.fixture
def good() -> Report:
    """Give the report of a run in which every promise was kept."""
    history = History()
    job_id = history.enqueued()
    history.lost(job_id)
    history.ran(job_id, run=2)
    return Report(
        seed=1,
        seconds=2.0,
        tally=Tally(
            kills=10,
            kills_in_flight=8,
            fired=Counter({("claim.asked", Action.KILL): 2, ("claim.asked", Action.RAISE): 1}),
        ),
        resumed_seconds=[0.1, 0.3],
        answers=history.answers,
        record=history.record(),
        outside=Outside(in_named_gap=1),
        findings=[],
        unexpected=[],
        decided=4,
        told={"finish.refused": 3, "effect.reconciled": 5},
        deadlocks=0,
        dedups=False,
    )


def test_the_document_has_every_figure(good: Report) -> None:
    document = good.document()
    assert document.keys() >= NEEDED
    assert document["refused_finishes"] == 3
    assert document["acknowledged"] == document["runs_lost"] == 1
    assert (document["reconciled"], document["unknown"]) == (5, 4)
    assert document["doubled_in_named_gap"] == 1
    assert document["failpoints_hit"] == 3
    assert document["failpoints"] == {"claim.asked": {"kill": 2, "raise": 1}}
    assert good.is_good


@pytest.mark.parametrize("breach", Breach)
def test_any_breach_fails_the_run_and_is_counted_and_told(good: Report, breach: Breach) -> None:
    job_id = good.record.jobs[0].id
    found = replace(good, findings=[Finding(breach, "as it must not be", job_id)] * 2)
    assert not found.is_good
    assert found.document()[breach.value] == 2
    told = "\n".join(found.lines())
    assert f"{breach}: as it must not be (job {job_id})" in told
    assert "taken by claim" in told


def test_kills_that_hit_nothing_prove_nothing(good: Report) -> None:
    few = replace(good, tally=Tally(kills=10, kills_in_flight=7))
    assert not few.is_good


def test_a_death_by_nobodys_hand_and_a_deadlock_fail_the_run(good: Report) -> None:
    assert not replace(good, unexpected=["worker 1 ended with 1 while ready"]).is_good
    assert not replace(good, deadlocks=1).is_good


def test_of_many_findings_some_are_told_and_the_rest_counted(good: Report) -> None:
    found = replace(good, findings=[Finding(Breach.LOST, "gone", uuid4())] * 25)
    assert "… and 15 more" in list(found.lines())
