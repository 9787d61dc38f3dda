"""The verdict about the world outside: each breach is found, and only the named gap excuses."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from bench.chaos.bookkeeper import Act
from bench.chaos.fleet import Freeze
from bench.chaos.record import EffectOutside, Job, Record
from bench.chaos.task import OUTSIDE, Task
from bench.chaos.verdict_outside import judge
from tests.support.histories import History

JOB = UUID(int=7)
KEY = f"{JOB}:act-1"
ACT = Act(
    entry=1, key=KEY, at=2.0, is_repeat=False, worker=0, pid=5, job_id=str(JOB), run=1, asked_at=1.0
)
SECOND = replace(ACT, entry=2, at=10.0)
DONE = EffectOutside(KEY, "done", 1, JOB, 1)


def record(*effects: EffectOutside) -> Record:
    """Return the record of one job that succeeded."""
    history = History()
    history.jobs.append(Job(JOB, OUTSIDE, Task(number=1, acts=1)))
    history.ran(JOB)
    return replace(history.record(), outside=effects)


def found(*acts: Act, effect: EffectOutside = DONE, frozen: Freeze | None = None) -> list[str]:
    freezes = [] if frozen is None else [frozen]
    return [one.breach.value for one in judge(acts, record(effect), freezes).findings]


def test_an_act_with_its_record_is_as_it_should_be() -> None:
    assert found(ACT) == []


def test_a_second_act_of_one_key_is_found() -> None:
    assert found(ACT, SECOND) == ["doubled"]
    assert found(ACT, SECOND, replace(SECOND, entry=3)) == ["doubled"] * 2


def test_a_repeat_that_was_known_again_is_no_act() -> None:
    outside = judge([ACT, replace(SECOND, entry=1, is_repeat=True)], record(DONE), [])
    assert outside.findings == []
    assert (outside.acts, outside.repeats) == (1, 1)


def test_who_was_frozen_between_check_and_write_is_excused_and_counted() -> None:
    gap = Freeze(pid=5, sending=1, stopped_at=1.5, thawed_at=9.0)
    outside = judge([replace(ACT, pid=6), SECOND], record(DONE), [gap])
    assert outside.findings == []
    assert outside.in_named_gap == 1


def test_nothing_else_is_excused() -> None:
    others = replace(ACT, pid=6)
    gap = Freeze(pid=5, sending=1, stopped_at=1.5, thawed_at=9.0)
    for freeze in (
        replace(gap, pid=7),  # another process
        replace(gap, stopped_at=0.5),  # it was frozen before it checked
        replace(gap, thawed_at=11.0),  # it wrote before it was thawed
        replace(gap, sending=0),  # nobody stood in the gap
    ):
        assert found(others, SECOND, frozen=freeze) == ["doubled"]


def test_a_freeze_excuses_no_more_than_stood_in_its_gap() -> None:
    gap = Freeze(pid=5, sending=1, stopped_at=1.5, thawed_at=9.0)
    third = replace(SECOND, entry=3)
    assert found(replace(ACT, pid=6), SECOND, third, frozen=gap) == ["doubled"]


def test_an_act_without_an_intention_is_found() -> None:
    findings = judge([ACT], record(), []).findings
    assert [one.breach.value for one in findings] == ["torn"]


def test_an_effect_that_is_done_was_done_and_as_it_says() -> None:
    assert found() == ["torn", "torn"]  # the effect, and its job
    assert found(ACT, effect=replace(DONE, result=2)) == ["torn"]


def test_an_effect_that_is_not_done_was_not_done() -> None:
    not_done = replace(DONE, state="not_done", result=None)
    assert found(ACT, effect=not_done) == ["torn"]


def test_nothing_is_left_open() -> None:
    for state in ("intended", "unknown"):
        assert found(ACT, effect=replace(DONE, state=state, result=None)) == ["left_over"]


def test_a_job_that_succeeded_has_done_all_of_its_acts() -> None:
    findings = judge([], record(), []).findings
    assert [one.breach.value for one in findings] == ["torn"]
