"""The plan of a chaos run: what the seed decides, and how much of everything there is."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.chaos.plan import BESIDE, KILLS_PER_ROUND, Kind, Mix, Window, plan
from bench.chaos.points import COMBINATIONS
from bench.chaos.proxy import Harm


def test_the_same_seed_makes_the_same_run_and_another_another() -> None:
    assert plan(50, 1) == plan(50, 1)
    assert plan(50, 1) != plan(50, 2)


@pytest.mark.parametrize("kills", [1, 5, 100, 300, 2_000])
def test_as_many_are_killed_as_was_said_and_other_faults_come_on_top(kills: int) -> None:
    faults = plan(kills, 3)
    kinds = Counter(fault.kind for fault in faults)
    assert sum(fault.kills for fault in faults) == kills
    assert all(kinds[kind] for kind in BESIDE)
    assert (kinds[Kind.KILL_SERVER] > 0) == (kills > 1)


def test_every_window_is_meant_and_some_are_only_of_one_kind() -> None:
    faults = plan(400, 4)
    workers = {fault.window for fault in faults if fault.kind is Kind.KILL_WORKER}
    servers = {fault.window for fault in faults if fault.kind is Kind.KILL_SERVER}
    freezes = {fault.window for fault in faults if fault.kind is Kind.FREEZE}
    apart = {Window.COMMITTING, Window.REQUESTING, Window.CHECKING, Window.SENDING}
    assert workers == set(Window) - apart
    assert Window.COMMITTING in servers
    assert {Window.CHECKING, Window.SENDING} <= freezes
    assert {fault.window for fault in faults if fault.kind is Kind.KILL_API} == {Window.REQUESTING}


@pytest.mark.parametrize("rounds", [1, 2, 20])
def test_each_way_to_fail_at_each_failpoint_comes_once_in_so_many_kills(rounds: int) -> None:
    faults = plan(rounds * KILLS_PER_ROUND, 5)
    fails = Counter((fault.point, fault.action) for fault in faults if fault.kind is Kind.FAIL)
    assert fails == dict.fromkeys(COMBINATIONS, rounds)


def test_a_short_run_has_some_of_them_and_a_mix_may_have_none() -> None:
    some = [fault for fault in plan(50, 6) if fault.kind is Kind.FAIL]
    assert 0 < len(some) < len(COMBINATIONS)
    assert not [fault for fault in plan(50, 6, Mix(rounds=0)) if fault.kind is Kind.FAIL]


def test_the_proxy_does_every_harm() -> None:
    orders = [fault.order for fault in plan(300, 7) if fault.kind is Kind.HARM]
    assert {order.harm for order in orders if order} == set(Harm)
    assert all(order.words for order in orders if order and order.harm is Harm.LOSE_REPLY)
