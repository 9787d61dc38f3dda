"""The verdict about events: what keeps every promise is clean, each breach is found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID, uuid4

from bench.chaos.answers import Answers
from bench.chaos.bookkeeper import Act
from bench.chaos.fact import NOTE, SUBSCRIPTIONS, TELL
from bench.chaos.record import News, Published, Routed, Told
from bench.chaos.verdict_events import judge
from tests.support.histories import History


@dataclass
class Story:
    """Events in the making; each step is one that can be left out, or done twice."""

    answers: Answers = field(default_factory=Answers)
    history: History = field(default_factory=History)
    facts: list[Told] = field(default_factory=list[Told])
    published: list[Published] = field(default_factory=list[Published])
    routed: list[Routed] = field(default_factory=list[Routed])
    deliveries: list[tuple[UUID, str, UUID, int]] = field(
        default_factory=list[tuple[UUID, str, UUID, int]]
    )
    acts: list[Act] = field(default_factory=list[Act])

    def publish(self, number: int, place: int | None = None) -> UUID:
        event_id = uuid4()
        about = None if place is None else "a1"
        self.facts.append(Told(event_id, number, about, place))
        self.published.append(Published(event_id, number, place, about))
        self.answers.acknowledge({number: event_id})
        return event_id

    def route(self, event_id: UUID, subscription: str) -> UUID:
        job_id = uuid4()
        self.routed.append(Routed(len(self.routed) + 1, subscription, event_id, job_id))
        return job_id

    def deliver(self, event_id: UUID, subscription: str) -> None:
        """Route an event, and let its job come to its end."""
        job_id = self.route(event_id, subscription)
        self.history.ran(job_id)
        if subscription == NOTE:
            self.deliveries.append((event_id, NOTE, job_id, 1))
        else:
            key = f"{job_id}:tell"
            entry = len(self.acts) + 1
            self.acts.append(
                Act(
                    entry,
                    key,
                    at=1,
                    is_repeat=False,
                    worker=0,
                    pid=1,
                    job_id=str(job_id),
                    run=1,
                    asked_at=0,
                )
            )

    def deliver_all(self, *event_ids: UUID) -> None:
        for subscription in SUBSCRIPTIONS:
            for event_id in event_ids:
                self.deliver(event_id, subscription)

    def breaches(self) -> list[str]:
        news = News(self.facts, self.published, self.routed, self.deliveries)
        record = replace(self.history.record(), news=news)
        return [found.breach.value for found in judge(self.answers, record, self.acts)]


def test_events_that_every_subscription_got_once_and_in_order_are_as_they_should_be() -> None:
    story = Story()
    story.deliver_all(story.publish(1, 1), story.publish(2), story.publish(3, 2))
    assert story.breaches() == []


def test_an_acknowledged_event_that_is_not_there_is_lost() -> None:
    story = Story()
    story.answers.acknowledge({1: uuid4()})
    assert story.breaches() == ["events_lost"]


def test_an_event_whose_fact_was_committed_must_be_there() -> None:
    story = Story()
    story.deliver_all(story.publish(1))
    story.published.clear()
    assert "events_lost" in story.breaches()


def test_an_event_that_a_subscription_never_got_is_lost() -> None:
    story = Story()
    event_id = story.publish(1)
    story.deliver(event_id, NOTE)
    assert story.breaches() == ["events_lost"]


def test_an_event_of_which_the_handler_did_nothing_is_lost() -> None:
    for subscription in SUBSCRIPTIONS:
        story = Story()
        story.deliver_all(story.publish(1))
        if subscription == NOTE:
            story.deliveries.clear()
        else:
            story.acts.clear()
        assert story.breaches() == ["events_lost"]


def test_an_event_that_a_subscription_got_twice_is_doubled() -> None:
    story = Story()
    event_id = story.publish(1)
    story.deliver_all(event_id)
    story.deliver(event_id, TELL)
    assert story.breaches() == ["events_doubled"]
    story.deliver(event_id, NOTE)
    assert story.breaches() == ["events_doubled"] * 3  # the handler noted it twice, too


def test_events_of_one_aggregate_in_the_wrong_order_are_reordered() -> None:
    story = Story()
    first, second = story.publish(1, 1), story.publish(2, 2)
    story.deliver_all(second, first)
    assert story.breaches() == ["events_reordered"] * len(SUBSCRIPTIONS)


def test_an_event_whose_number_is_not_its_place_is_reordered() -> None:
    story = Story()
    story.deliver_all(story.publish(1, 1))
    story.published[0] = replace(story.published[0], sequence=2)
    assert story.breaches() == ["events_reordered"]


def test_what_was_rolled_back_is_not_there() -> None:
    story = Story()
    event_id = uuid4()
    story.published.append(Published(event_id, 1, None, None))
    story.answers.undo([1])
    story.deliver_all(event_id)
    assert story.breaches() == ["ghosts"]


def test_an_event_is_there_only_with_its_fact() -> None:
    story = Story()
    event_id = uuid4()
    story.published.append(Published(event_id, 1, None, None))
    story.deliver_all(event_id)
    assert story.breaches() == ["torn"]


def test_an_event_that_came_over_http_has_its_answer_for_a_fact() -> None:
    story = Story()
    first, second = story.publish(1, 1), story.publish(2, 2)
    story.facts.clear()
    for event_id in (first, second):
        story.deliver(event_id, TELL)
    story.deliver(first, NOTE)
    story.deliver(second, NOTE)
    assert story.breaches() == []
    story.answers.acknowledged[2] = uuid4()
    assert story.breaches() == ["events_lost", "torn"]


def test_what_no_subscription_can_have_got_is_a_ghost() -> None:
    story = Story()
    story.deliver(uuid4(), NOTE)
    assert story.breaches() == ["ghosts"]


def test_the_jobs_of_events_come_to_their_ends() -> None:
    story = Story()
    event_id = story.publish(1)
    story.deliver_all(event_id)
    story.history.entries.clear()
    assert story.breaches() == ["lost"] * len(SUBSCRIPTIONS)
