"""Laws of choosing: which scan ranges a claim looks at, and how much of each it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from hudhud.worker.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hudhud.worker.handler import Kind
    from hudhud.worker.ranges import Range

ASYNC: dict[Kind, int] = {"async": 100}


class Found(NamedTuple):
    """What a claim answers, as far as ranges care."""

    tops: list[int | None] | None
    counts: list[int] | None
    xid: int = 1
    xmin: int = 1


def known(amount: int, *, lane: int = 2) -> Ranges:
    ranges = Ranges()
    for number in range(amount):
        ranges.add(lane, f"tenant {number}")
    return ranges


def claim(
    ranges: Ranges,
    planned: Sequence[tuple[Range, int]],
    counts: Sequence[int],
    *,
    kind: Kind = "async",
) -> None:
    """Let a claim take so many jobs of each range, all of one kind."""
    found = Found([1 if count else None for count in counts], list(counts))
    ranges.note(planned, found)  # type: ignore[arg-type]
    kinds = {one.tenant_id: {kind} for one, _ in planned}
    ranges.note_kinds(planned, list(counts), kinds=kinds, rooms={kind: 0})


@pytest.mark.parametrize("amount", [1, 2, 7, 99, 100, 101, 1_000])
@pytest.mark.parametrize("room", [1, 2, 9, 100])
def test_a_claim_takes_no_more_than_there_is_room_for(amount: int, room: int) -> None:
    ranges = known(amount)
    for found in (0, 1):
        planned = ranges.plan({"async": room}, 1_000)
        assert 0 < sum(quantum for _, quantum in planned) <= room
        claim(ranges, planned, [found] * len(planned))


def test_ranges_with_work_share_the_room_of_a_claim() -> None:
    planned = known(4).plan(ASYNC, 1_000)
    assert [quantum for _, quantum in planned] == [25] * 4


def test_every_range_is_looked_at_in_turn() -> None:
    ranges = known(10)
    seen = {one.tenant_id for _ in range(5) for one, _ in ranges.plan({"async": 2}, 1_000)}
    assert len(seen) == 10


def test_a_range_without_work_is_looked_at_beside_those_that_have_some() -> None:
    ranges = known(3)
    planned = ranges.plan(ASYNC, 1_000)
    claim(ranges, planned, [5, 5, 0])
    shares = {one.tenant_id: quantum for one, quantum in ranges.plan(ASYNC, 1_000)}
    quiet = planned[2][0].tenant_id
    assert shares[quiet] == 12
    assert {shares[one] for one in shares if one != quiet} == {44}


def test_urgent_lanes_come_first() -> None:
    ranges = Ranges()
    for lane in (3, 0, 2, 1):
        ranges.add(lane, "tenant")
    assert [one.lane for one, _ in ranges.plan(ASYNC, 1_000)] == [0, 1, 2, 3]


def test_without_any_room_nothing_is_looked_at() -> None:
    assert known(3).plan({"async": 0, "thread": -2}, 1_000) == []


def test_a_range_is_taken_from_as_far_as_there_is_room_for_its_kind() -> None:
    ranges = known(2)
    rooms: dict[Kind, int] = {"async": 100, "thread": 3}
    claim(ranges, ranges.plan(rooms, 1_000), [1, 1], kind="thread")
    planned = ranges.plan(rooms, 1_000)
    assert [quantum for _, quantum in planned] == [3, 1]  # and a try of the other one
    assert [quantum for _, quantum in ranges.plan(rooms, 1_000)] == [3]
    claim(ranges, planned, [1] * len(planned), kind="thread")
    # A range is not kept from its async jobs by what its neighbours' jobs need.
    ranges.add(2, "other")
    shares = {one.tenant_id: quantum for one, quantum in ranges.plan(rooms, 1_000)}
    assert shares["other"] >= 1


def test_of_ranges_whose_kind_has_no_room_one_is_tried_now_and_then() -> None:
    ranges = known(50)
    for _ in range(60):  # one range after the other shows what its jobs are
        planned = ranges.plan({"async": 100, "thread": 100}, 1_000)
        claim(ranges, planned, [1] * len(planned), kind="thread")
    full: dict[Kind, int] = {"async": 100, "thread": 0}
    tried = [quantum for _ in range(20) for _, quantum in ranges.plan(full, 1_000)]
    assert tried in ([1], [1, 1])  # the second, should a moment have passed
