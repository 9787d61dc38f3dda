"""Upcasters: how a payload of an older version is read as one of a newer version.

What is stored never changes. Each upcaster is a pure function from version n to n + 1, kept with a
golden sample of version n, so that a chain from any version that was ever published can be tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hudhud.errors import ConfigError

Payload: TypeAlias = dict[str, Any]
Upcast: TypeAlias = Callable[[Payload], Payload]


@dataclass(frozen=True, slots=True)
class Upcaster:
    """How a payload of `version` becomes one of the next; `sample` is one of `version`."""

    type: str
    version: int
    function: Upcast
    sample: Mapping[str, Any]


class Upcasters:
    """The upcasters of an application, by event type and version."""

    def __init__(self) -> None:
        self._upcasters: dict[tuple[str, int], Upcaster] = {}

    def __iter__(self) -> Iterator[Upcaster]:
        return iter(self._upcasters.values())

    def add(self, upcaster: Upcaster) -> None:
        """Take an upcaster in.

        Raises:
            ConfigError: There is one for this type and version already.
        """
        key = (upcaster.type, upcaster.version)
        if self._upcasters.setdefault(key, upcaster) is not upcaster:
            message = f"{upcaster.type}:{upcaster.version} has two upcasters; keep one"
            raise ConfigError(message)

    def oldest(self, type: str, version: int) -> int:  # noqa: A002 - the word for it, everywhere
        """Return the lowest version from which a chain leads to a version."""
        while (type, version - 1) in self._upcasters:
            version -= 1
        return version

    def upcast(
        self,
        type: str,  # noqa: A002 - the word for it, everywhere
        payload: Payload,
        *,
        version: int,
        to: int,
    ) -> Payload:
        """Return a payload of `version` as one of version `to`.

        Raises:
            KeyError: A step of the chain is missing.
        """
        for step in range(version, to):
            payload = self._upcasters[type, step].function(payload)
        return payload
