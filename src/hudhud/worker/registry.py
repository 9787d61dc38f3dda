"""Which handlers an application has: what it announces and what a worker can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from hudhud.errors import ConfigError
from hudhud.worker.handler import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hudhud.domain.schema import Announced
    from hudhud.worker.handler import AnyHandler


class Announcement(TypedDict):
    """One type as `announce` takes it."""

    type: str
    version: int
    queue: str
    lane: str
    max_attempts: int
    max_crashes: int
    schema: Announced


class Registry:
    """The handlers of an application, by type and version."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, int], AnyHandler] = {}

    def __iter__(self) -> Iterator[AnyHandler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)

    def add(self, handler: AnyHandler) -> None:
        """Take a handler in.

        Raises:
            ConfigError: There is one for this type and version already.
        """
        key = (handler.type, handler.version)
        known = self._handlers.setdefault(key, handler)
        if known is not handler:
            message = (
                f"{handler.contract} has two handlers, {place_of(known.function)} and"
                f" {place_of(handler.function)}; give one of them another type or version"
            )
            raise ConfigError(message)

    def find(self, type: str, version: int) -> AnyHandler | None:  # noqa: A002 - the word for it, everywhere
        """Return the handler of a type and version; None if this application has none."""
        return self._handlers.get((type, version))

    @property
    def contracts(self) -> list[str]:
        """Every `type:version` that can be run here, in order of definition."""
        return [handler.contract for handler in self]

    def announcement(self) -> list[Announcement]:
        """Return what `announce` tells the database: every type with its payload's schema."""
        return [
            {
                "type": handler.type,
                "version": handler.version,
                "queue": handler.queue,
                "lane": handler.lane,
                "max_attempts": handler.max_attempts,
                "max_crashes": handler.max_crashes,
                "schema": handler.schema.announced(),
            }
            for handler in self
        ]
