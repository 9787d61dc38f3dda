"""How many suspects a worker tries at once: laws of the slow start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudhud.worker.claimer import TRIAL_SECONDS, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudhud.worker.handler import Kind

ROOMS: Mapping[Kind, int] = {"async": 100, "thread": 16}


def test_it_begins_with_one_and_doubles_what_was_tried() -> None:
    trial, asked = Trial(), []
    for now in range(6):
        asked.append(trial.amount(ROOMS, now))
        trial.tried(asked[-1], now)
    assert asked == [1, 2, 4, 8, 16, 16]


def test_it_doubles_what_there_was_not_what_was_asked_for() -> None:
    trial = Trial()
    for now in range(5):
        trial.tried(trial.amount(ROOMS, now), now)
    trial.tried(1, 5)
    assert trial.amount(ROOMS, 6) == 2


def test_there_is_always_one_whatever_the_room() -> None:
    assert Trial().amount({"async": 100, "thread": -3}, 0) == 1


def test_suspects_of_another_crash_are_begun_with_one_again() -> None:
    trial = Trial()
    for now in range(5):
        trial.tried(trial.amount(ROOMS, now), now)
    assert trial.amount(ROOMS, 4 + TRIAL_SECONDS) == 16
    assert trial.amount(ROOMS, 5 + TRIAL_SECONDS) == 1
