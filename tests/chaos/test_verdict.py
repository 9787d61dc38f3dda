"""The verdict of a chaos run: a history that keeps every promise is clean, each breach is found."""

from __future__ import annotations

from uuid import uuid4

from bench.chaos.task import PLAIN, Task
from bench.chaos.verdict import restarts, timeline
from tests.support.histories import History


def test_a_history_that_keeps_every_promise_is_clean() -> None:
    history = History()
    plain = history.enqueued(failures=1)
    history.ran(plain, "retry", run=1)
    history.lost(plain, run=2)
    history.ran(plain, run=3)
    dead = history.enqueued(PLAIN, dies=1)
    history.ran(dead, "fail")
    first, second = history.enqueued(), history.enqueued()
    lease_id = history.taken(first, second)
    history.begin()
    history.gone(lease_id)  # in one transaction, the lease first
    history.ended(first, verb="finish")
    history.ended(second, verb="finish")
    assert history.breaches() == []


def test_an_acknowledged_job_that_is_not_there_is_lost() -> None:
    history = History()
    history.answers.acknowledge({1: uuid4()})
    assert history.breaches() == ["lost"]


def test_a_job_without_an_end_is_lost() -> None:
    history = History()
    history.enqueued()
    halfway = history.enqueued()
    history.lost(halfway)
    assert history.breaches() == ["lost", "lost"]


def test_a_job_of_an_unknown_commit_must_come_to_its_end_as_well() -> None:
    history = History()
    history.answers.doubt([1, 2])
    assert history.breaches() == []  # neither was committed
    history.intents.add(1)
    history.job(Task(number=1))
    assert history.breaches() == ["lost"]


def test_a_child_that_was_committed_with_its_parents_effect_must_be_there() -> None:
    history = History()
    parent = history.enqueued(children=2)
    history.ran(parent)
    history.ran(history.job(Task(number=1, child=1)))
    assert history.breaches() == ["lost"]
    history.ran(history.job(Task(number=1, child=2)))
    assert history.breaches() == []


def test_a_second_effect_of_a_job_is_found() -> None:
    history = History()
    job_id = history.enqueued()
    history.ran(job_id)
    history.effects.append((job_id, 1))
    assert history.breaches() == ["doubled"]


def test_a_second_job_of_one_intent_is_found() -> None:
    history = History()
    history.ran(history.enqueued())
    history.ran(history.job(Task(number=1)))
    assert history.breaches() == ["doubled"]


def test_a_key_that_was_given_two_jobs_is_found() -> None:
    history = History()
    history.ran(history.enqueued())
    history.answers.acknowledge({1: uuid4()})
    assert history.breaches() == ["doubled"]


def test_a_finish_that_is_accepted_after_a_rescue_is_found() -> None:
    history = History()
    job_id = history.enqueued()
    lease_id = history.taken(job_id)
    history.begin()
    history.gone(lease_id, "rescue")  # and its run not ended as lost
    history.begin()
    history.ended(job_id, verb="finish")
    assert history.breaches() == ["stale_finishes"]


def test_a_settle_that_is_accepted_beside_the_run_that_took_over_is_found() -> None:
    history = History()
    job_id = history.enqueued()
    history.lost(job_id, run=1)
    history.taken(job_id, run=2)
    history.begin()
    history.ended(job_id, "retry", run=1)
    history.ended(job_id, run=2)
    assert history.breaches() == ["gaps", "stale_finishes"]


def test_an_end_without_any_lease_is_found() -> None:
    history = History()
    job_id = history.enqueued()
    history.ended(job_id, verb="finish")
    assert history.breaches() == ["stale_finishes"]


def test_two_leases_that_hold_one_job_are_found() -> None:
    history = History()
    job_id = history.enqueued()
    history.taken(job_id, run=1)
    history.ran(job_id, run=1)
    assert history.breaches() == ["overlaps"]


def test_a_lease_that_never_ended_is_remembered_past_others() -> None:
    history = History()
    job_id = history.enqueued()
    history.taken(job_id, run=1)
    history.ran(job_id, "retry", run=2)
    history.ran(job_id, run=3)
    assert history.breaches().count("overlaps") == 2


def test_a_job_may_be_taken_again_once_its_run_has_ended_although_the_lease_goes_on() -> None:
    history = History()
    job_id, slow = history.enqueued(failures=1), history.enqueued()
    lease_id = history.taken(job_id, slow)
    history.begin()
    history.ended(job_id, "retry", verb="finish")
    history.ran(job_id, run=2)
    history.begin()
    history.ended(slow)
    history.gone(lease_id)
    assert history.breaches() == []


def test_an_effect_without_its_success_is_torn() -> None:
    history = History()
    job_id = history.enqueued(failures=1)
    history.ran(job_id, "retry", run=1)
    history.effects.append((job_id, 1))
    history.ran(job_id, run=2)
    assert history.breaches() == ["doubled", "torn"]


def test_a_success_without_its_effect_is_torn() -> None:
    history = History()
    job_id = history.enqueued()
    history.ran(job_id)
    history.effects.clear()
    assert history.breaches() == ["torn"]


def test_an_intent_and_its_job_are_committed_together() -> None:
    history = History()
    history.ran(history.enqueued())
    history.intents.add(7)
    assert history.breaches() == ["torn"]
    history.intents = set()
    assert history.breaches() == ["torn"]


def test_children_are_not_there_without_their_parents_effect() -> None:
    history = History()
    parent = history.enqueued(children=1, dies=1)
    history.ran(parent, "fail")
    history.ran(history.job(Task(number=1, child=1)))
    assert history.breaches() == ["torn"]


def test_what_was_rolled_back_is_not_there() -> None:
    history = History()
    history.answers.undo([1])
    history.intents.add(1)
    history.ran(history.job(Task(number=1)))
    assert history.breaches() == ["ghosts"]


def test_a_job_ends_as_it_must() -> None:
    history = History()
    history.ran(history.enqueued(PLAIN), "fail")
    assert history.breaches() == ["wrong_ends"]


def test_runs_are_counted_without_gaps_and_nothing_follows_the_last() -> None:
    history = History()
    skipped = history.enqueued()
    history.ran(skipped, "retry", run=1)
    history.ran(skipped, run=3)
    assert history.breaches() == ["gaps"]
    followed = history.enqueued(PLAIN)
    history.ran(followed, run=1)
    history.ran(followed, "retry", run=2)
    assert history.breaches() == ["gaps", "gaps"]


def test_a_lease_that_is_taken_back_before_its_time_is_found() -> None:
    history = History()
    job_id = history.enqueued()
    lease_id = history.taken(job_id)
    history.begin()
    history.gone(lease_id, "rescue", seconds_left=0.5)
    history.ended(job_id, "lost", verb="rescue")
    history.ran(job_id, run=2)
    assert history.breaches() == ["early_rescues"]


def test_a_drained_queue_has_no_rows_left() -> None:
    history = History(left_over={"ready": 1, "lease": 2, "waiting": 0})
    assert history.breaches() == ["left_over"] * 3


def test_the_timeline_tells_a_job_from_its_first_lease_to_its_end() -> None:
    history = History()
    job_id, other = history.enqueued(), history.enqueued()
    history.lost(job_id)
    history.ran(other)
    history.ran(job_id, run=2)
    told = timeline(history.record(), job_id)
    assert [line.split(": ")[1].split(",")[0] for line in told] == [
        "taken by claim",
        "gone by rescue",
        "ended by rescue",
        "taken by claim",
        "ended by settle",
        "gone by finish",
    ]


def test_the_time_to_a_restart_counts_from_the_end_of_the_lost_lease() -> None:
    history = History()
    job_id = history.enqueued()
    lease_id = history.taken(job_id)
    history.begin()
    history.gone(lease_id, "rescue", seconds_left=-2)  # noted at 1, so its end was at -1
    history.ended(job_id, "lost", verb="rescue")
    history.ran(job_id, run=2)  # taken at 3
    assert list(restarts(history.record())) == [4]
