"""What telemetry said during a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Told:
    """The events that were emitted, in order; subscribe it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Mapping[str, object]]] = []

    def __call__(self, event: str, fields: Mapping[str, object]) -> None:
        self.events.append((event, fields))

    @property
    def names(self) -> list[str]:
        return [event for event, _ in self.events]

    def of(self, event: str) -> list[Mapping[str, object]]:
        """Return the fields of every such event."""
        return [fields for name, fields in self.events if name == event]
