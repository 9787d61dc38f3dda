"""The plan of a chaos run: what the seed decides, and how much of everything there is."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.chaos.plan import KILLS, Kind, Window, plan


def test_the_same_seed_makes_the_same_run_and_another_another() -> None:
    assert plan(50, 1) == plan(50, 1)
    assert plan(50, 1) != plan(50, 2)


@pytest.mark.parametrize("kills", [1, 5, 100, 2_000])
def test_as_many_are_killed_as_was_said_and_other_faults_come_on_top(kills: int) -> None:
    kinds = Counter(fault.kind for fault in plan(kills, 3))
    assert sum(kinds[kind] for kind in KILLS) == kills
    assert all(kinds[kind] for kind in (Kind.FREEZE, Kind.TERMINATE, Kind.STOP))
    assert (kinds[Kind.KILL_SERVER] > 0) == (kills > 1)


def test_every_window_is_meant_and_a_producers_commit_only_for_the_server() -> None:
    faults = plan(200, 4)
    workers = {fault.window for fault in faults if fault.kind is Kind.KILL_WORKER}
    servers = {fault.window for fault in faults if fault.kind is Kind.KILL_SERVER}
    assert workers == set(Window) - {Window.COMMITTING}
    assert Window.COMMITTING in servers
