"""hudhud.telemetry: events reach whoever subscribed, and nobody else's trouble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from hudhud import telemetry

Heard = list[tuple[str, Mapping[str, object]]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    events: Heard = []
    unsubscribe = telemetry.subscribe(lambda event, fields: events.append((event, fields)))
    yield events
    unsubscribe()


def test_an_event_reaches_every_subscriber_with_its_fields(heard: Heard) -> None:
    telemetry.emit("job.finished", type="refund", seconds=0.5)
    assert heard == [("job.finished", {"type": "refund", "seconds": 0.5})]


def test_who_unsubscribed_hears_nothing_more(heard: Heard) -> None:
    other: list[str] = []
    unsubscribe = telemetry.subscribe(lambda event, _: other.append(event))
    unsubscribe()
    unsubscribe()
    telemetry.emit("job.finished")
    assert other == []
    assert len(heard) == 1


def test_a_subscriber_that_fails_stops_neither_the_others_nor_the_engine(
    heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: str, fields: Mapping[str, object]) -> None:
        raise ZeroDivisionError(event, fields)

    unsubscribe = telemetry.subscribe(broken)
    telemetry.emit("job.finished")
    unsubscribe()
    telemetry.emit("job.finished")
    assert [event for event, _ in heard] == ["job.finished", "job.finished"]
    assert "failed on job.finished" in caplog.text


def test_a_span_is_told_when_it_ends_with_its_length(heard: Heard) -> None:
    with telemetry.span("claim.made", queue="bank") as found:
        assert heard == []
        found["jobs"] = 3
    [(event, fields)] = heard
    assert event == "claim.made"
    assert fields["queue"] == "bank"
    assert fields["jobs"] == 3
    assert fields["failed"] is False
    assert isinstance(fields["seconds"], float)


def test_a_span_that_fails_is_told_too_and_the_error_goes_on(heard: Heard) -> None:
    with pytest.raises(KeyError), telemetry.span("claim.made"):
        raise KeyError
    [(_, fields)] = heard
    assert fields["failed"] is True
