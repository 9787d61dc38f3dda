"""What hudhud tells about itself: events in the past tense, to whoever subscribed.

Exporters (metrics, tracing, logs) attach from outside with `subscribe`; nothing in the engine
knows them. An event without subscribers costs one test of an empty tuple.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

Subscriber: TypeAlias = Callable[[str, Mapping[str, object]], None]

_logger = logging.getLogger("hudhud.telemetry")
_subscribers: tuple[Subscriber, ...] = ()


def subscribe(callback: Subscriber) -> Callable[[], None]:
    """Call `callback(event, fields)` for every event from now on.

    It is called on the thread that emits, in the engine's own time: it must be quick and safe from
    any thread. What it raises is logged and goes no further.

    Returns:
        A function that ends the subscription; calling it again does nothing.
    """
    global _subscribers  # noqa: PLW0603 - replaced as a whole, so that emit needs no lock
    _subscribers = (*_subscribers, callback)

    def unsubscribe() -> None:
        global _subscribers  # noqa: PLW0603 - as above
        _subscribers = tuple(one for one in _subscribers if one is not callback)

    return unsubscribe


def emit(event: str, /, **fields: object) -> None:
    """Tell every subscriber that something happened.

    Args:
        event: Dotted, past tense: "job.finished".
        fields: What belongs to it; units in the names, as everywhere.
    """
    for callback in _subscribers:
        try:
            callback(event, fields)
        except Exception:
            _logger.exception("A telemetry subscriber failed on %s.", event)


@contextmanager
def span(event: str, /, **fields: object) -> Generator[dict[str, object]]:
    """Emit `event` when the block ends, with how long it took and whether it failed.

    Yields:
        A mapping; what the block puts into it is emitted too.

    The event carries `seconds` (monotonic) and `failed` (the block raised) beside the fields.
    """
    found: dict[str, object] = {}
    started = time.monotonic()
    failed = True
    try:
        yield found
        failed = False
    finally:
        emit(event, **fields, **found, seconds=time.monotonic() - started, failed=failed)
