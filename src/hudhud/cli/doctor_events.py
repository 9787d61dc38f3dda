"""What `hudhud doctor` looks at in the outbox: copies, what waits, who holds it up, who is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from hudhud.cli.finding import Finding, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hudhud.store.events import Stall

    Row = Mapping[str, object]

WAIT_SECONDS_MAX: Final = 60.0
"""An event is routed within a second or so of its commit; this is no delay but nobody doing it."""
NAMES_MAX: Final = 5


def look(
    subscriptions: Sequence[Row], stalls: Sequence[Stall], *, is_copy: bool
) -> Iterator[Finding]:
    """Yield what is to be said about events.

    Args:
        subscriptions: As the read of that name has them.
        stalls: Sessions that hold events up for too long.
        is_copy: Whether the cursors speak of another server's transactions.
    """
    if is_copy:
        yield Finding(
            Verdict.WRONG,
            "events",
            "this database is a copy, and routes none. Make sure that the original does not act as"
            " well, then: hudhud events rebase --reason …",
        )
    else:
        yield _waiting(subscriptions)
    for stall in stalls:
        yield Finding(Verdict.WRONG, "events", f"{stall}. End it, or find out what it does.")
    yield from _gone(subscriptions)


def _waiting(subscriptions: Sequence[Row]) -> Finding:
    late = [
        one
        for one in subscriptions
        if one["state"] == "active"
        and not one["is_silent"]
        and cast("float", one["oldest_seconds"]) > WAIT_SECONDS_MAX
    ]
    named = ", ".join(f"{one['name']} ({one['oldest_seconds']:.0f} s)" for one in late[:NAMES_MAX])
    return judge(
        "events",
        f"{len(late)} subscriptions are behind: {named}"
        if late
        else f"{len(subscriptions)} subscriptions, none is behind",
        "Start a worker; if one runs, look in its log for relay, and at: hudhud events stalls",
        is_fine=not late,
    )


def _gone(subscriptions: Sequence[Row]) -> Iterator[Finding]:
    if silent := _names(
        one for one in subscriptions if one["is_silent"] and one["state"] == "active"
    ):
        yield Finding(
            Verdict.WRONG,
            "events",
            f"nobody has announced {silent} for days: nothing is routed or kept for them. Start"
            " their worker, or: hudhud events stop NAME --reason …",
        )
    if paused := _names(one for one in subscriptions if one["state"] == "paused"):
        yield Finding(
            Verdict.NOTE, "events", f"{paused} paused; their events are kept: hudhud events resume"
        )
    announced = [one for one in subscriptions if one["state"] == "stopped" and one["is_announced"]]
    if announced:
        named = ", ".join(str(one["name"]) for one in announced)
        yield Finding(
            Verdict.WRONG,
            "events",
            f"a worker announces {named}, which an operator stopped: nothing is routed to them."
            " hudhud events resume NAME --reason …",
        )
    if skipped := _names(one for one in subscriptions if one["skipped"]):
        yield Finding(
            Verdict.NOTE,
            "events",
            f"events went before {skipped} had them: see `skipped` in hudhud events subscriptions",
        )


def _names(subscriptions: Iterator[Row]) -> str:
    return ", ".join(str(one["name"]) for one in subscriptions if one["state"] != "stopped")
