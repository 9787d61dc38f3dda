"""Holds what was published against what the relays made of it, and what came of that.

Pure: from the record and what the publishers were told to findings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from bench.chaos.fact import NOTE, SUBSCRIPTIONS, TELL
from bench.chaos.finding import Breach, Finding
from bench.chaos.record import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from bench.chaos.answers import Answers
    from bench.chaos.bookkeeper import Act
    from bench.chaos.record import News, Record, Told


def judge(answers: Answers, record: Record, acts: Sequence[Act]) -> list[Finding]:
    """Return everything that must not be; empty when the promises were kept.

    Args:
        answers: What the publishers were told, by the facts' numbers.
        record: All that is judged of the database.
        acts: The ledger's journal.
    """
    return [
        *judge_routing(answers, record.news),
        *_unfinished(record),
        *_deliveries(record.news),
        *_untold(record.news, acts),
    ]


def judge_routing(answers: Answers, news: News) -> list[Finding]:
    """Return everything that must not be, as far as relays bring events."""
    facts = {fact.event_id: fact for fact in news.facts}
    return [
        *_lost(answers, news, facts),
        *_torn(answers, news, facts),
        *(found for name in SUBSCRIPTIONS for found in _routing(name, news)),
    ]


def _lost(answers: Answers, news: News, facts: Mapping[UUID, Told]) -> Iterator[Finding]:
    known = {event.event_id for event in news.published}
    for number, event_id in answers.acknowledged.items():
        if event_id not in known:
            words = f"fact {number} was acknowledged and its event is not there"
            yield Finding(Breach.EVENTS_LOST, words)
    for event_id, fact in facts.items():
        if event_id not in known:
            words = f"fact {fact.number} was committed and its event is not there"
            yield Finding(Breach.EVENTS_LOST, words)


def _torn(answers: Answers, news: News, facts: Mapping[UUID, Told]) -> Iterator[Finding]:
    for event in news.published:
        number, fact = event.number, facts.get(event.event_id)
        if number in answers.undone:
            yield Finding(Breach.GHOST, f"fact {number} was rolled back and its event is there")
        elif fact is not None and event.sequence != fact.place:
            words = f"fact {number} is number {fact.place} and says {event.sequence}"
            yield Finding(Breach.EVENTS_REORDERED, words)
        elif fact is None and answers.acknowledged.get(number) != event.event_id:
            words = f"event {event.event_id} is there, its fact {number} not"
            yield Finding(Breach.TORN, words)


def _routing(subscription: str, news: News) -> Iterator[Finding]:
    """Compare what one subscription got, and in which order, with what was published."""
    routed = [one for one in news.routed if one.subscription == subscription]
    amounts = Counter(one.event_id for one in routed)
    events = {event.event_id: event for event in news.published}
    for event_id in events.keys() - amounts.keys():
        yield Finding(Breach.EVENTS_LOST, f"{subscription} never got event {event_id}")
    for event_id in amounts.keys() - events.keys():
        yield Finding(Breach.GHOST, f"{subscription} got event {event_id}, which is not there")
    for event_id, amount in amounts.items():
        for _ in range(amount - 1):
            words = f"{subscription} got event {event_id} {amount} times"
            yield Finding(Breach.EVENTS_DOUBLED, words)
    last: dict[str, int] = {}
    for one in routed:
        event = events.get(one.event_id)
        if event is None or event.aggregate is None or event.sequence is None:
            continue
        before = last.get(event.aggregate, 0)
        if event.sequence < before:
            places = f"number {event.sequence} of {event.aggregate} after {before}"
            words = f"{subscription} got {places}"
            yield Finding(Breach.EVENTS_REORDERED, words, one.job_id)
        last[event.aggregate] = max(before, event.sequence)


def _unfinished(record: Record) -> Iterator[Finding]:
    ended = {entry.job_ids[0] for entry in record.entries if entry.outcome in FINAL}
    for one in record.news.routed:
        if one.job_id not in ended:
            yield Finding(Breach.LOST, f"{one.subscription}'s job has no end", one.job_id)


def _deliveries(news: News) -> Iterator[Finding]:
    amounts = Counter(event_id for event_id, _, _, _ in news.deliveries)
    for event_id in {event.event_id for event in news.published} - amounts.keys():
        yield Finding(Breach.EVENTS_LOST, f"{NOTE}'s handler did nothing about event {event_id}")
    for event_id, amount in amounts.items():
        for _ in range(amount - 1):
            words = f"{NOTE}'s handler noted event {event_id} {amount} times"
            yield Finding(Breach.EVENTS_DOUBLED, words)


def _untold(news: News, acts: Sequence[Act]) -> Iterator[Finding]:
    """Find events that the other subscriber did not tell the ledger."""
    done: dict[str, int] = defaultdict(int)
    for act in acts:
        done[act.key] += not act.is_repeat
    for one in news.routed:
        if one.subscription == TELL and not done[f"{one.job_id}:tell"]:
            words = f"{TELL}'s handler did nothing about event {one.event_id}"
            yield Finding(Breach.EVENTS_LOST, words, one.job_id)
