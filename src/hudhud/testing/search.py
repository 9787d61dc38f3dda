"""Look for what a test wants among what is there, and say what came closest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from uuid import UUID

LOOKED_AT_MAX: Final = 1_000  # the newest; a test that makes more counts by itself
SHOWN_MAX: Final = 5


class Findable(Protocol):
    """What is looked for: a job as it was enqueued, an event as it was published."""

    @property
    def id(self) -> UUID:
        """Its id."""
        ...

    @property
    def payload(self) -> Mapping[str, Any]:
        """Its payload."""
        ...


T = TypeVar("T", bound=Findable)


@dataclass(slots=True)
class Search(Generic[T]):
    """What is looked for, and how each thing of the type differs from it.

    Attributes:
        noun: What it is: "job" or "event".
        payload: The part of the payload that must be equal, nested objects included.
        options: Attributes that must be equal; of `tags` those that must be there.
        count: How many must match; None: at least one.
    """

    noun: str
    type: str
    payload: Mapping[str, object]
    options: Mapping[str, object]
    count: int | None
    seen: list[tuple[T, list[str]]] = field(default_factory=list[tuple[T, list[str]]])

    def look_at(self, found: Iterable[T]) -> None:
        """Compare what there is."""
        for one in found:
            differences = [*_differences(self.payload, one.payload), *self._other_options(one)]
            self.seen.append((one, differences))

    @property
    def found(self) -> list[T]:
        """What matches, in the order in which it was looked at."""
        return [one for one, differences in self.seen if not differences]

    @property
    def is_satisfied(self) -> bool:
        """Whether that is what is wanted."""
        return bool(self.found) if self.count is None else len(self.found) == self.count

    def complaint(self, types: Sequence[Mapping[str, Any]]) -> str:
        """Say what was looked for, what came closest, and what else there is."""
        return "\n".join([self._headline(), *self._closest(), *self._other_types(types)])

    def _other_options(self, one: T) -> Iterator[str]:
        for name, value in self.options.items():
            found: object = getattr(one, name)
            if name == "tags":
                missing = sorted(
                    set(cast("Sequence[str]", value)) - set(cast("Sequence[str]", found))
                )
                if missing:
                    yield f"tags have no {', '.join(map(_shown, missing))}"
            elif found != value:
                yield f"{name} is {_shown(found)}, not {_shown(value)}"

    def _headline(self) -> str:
        parts = [f"payload {_shown(self.payload)}"] if self.payload else []
        parts += [
            f"{name} {_shown(value)}"
            for name, value in self.options.items()
            if (name, value) != ("version", 1)
        ]
        wanted = f"{self.type} with {' and '.join(parts)}" if parts else self.type
        if self.count is None:
            return f"No {self.noun} {wanted}."
        return f"{len(self.found)} {self.noun}s {wanted}, not {self.count}."

    def _closest(self) -> Iterator[str]:
        if self.seen:
            yield f"{self.noun.capitalize()}s of this type, the closest first:"
        closest = sorted(self.seen, key=lambda one: len(one[1]))
        for one, differences in closest[:SHOWN_MAX]:
            status = getattr(one, "status", None)
            name = f"{one.id} {status}" if status else one.id
            yield f"  {name}: {'; '.join(differences) or 'matches'}"
        if len(closest) > SHOWN_MAX:
            yield f"  and {len(closest) - SHOWN_MAX} more"

    def _other_types(self, types: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        others = [one for one in types if one["type"] != self.type]
        if others:
            named = ", ".join(
                f"{one['type']} ({one[self.noun + 's']})" for one in others[:SHOWN_MAX]
            )
            yield f"Other types: {named}"
        if not types:
            made = "enqueued" if self.noun == "job" else "published"
            yield (
                f"There are no {self.noun}s at all. Was it {made}, and can this connection see it?"
            )


def _differences(wanted: object, found: object, path: str = "payload") -> Iterator[str]:
    """Say where a value has not what is wanted of it; of objects only the named fields are."""
    if not (isinstance(wanted, Mapping) and isinstance(found, Mapping)):
        yield from _difference(wanted, found, path)  # pyright: ignore[reportUnknownArgumentType]
        return
    inner = cast("Mapping[str, object]", found)
    for name, value in cast("Mapping[str, object]", wanted).items():
        if name in inner:
            yield from _differences(value, inner[name], f"{path}.{name}")
        else:
            yield f"{path}.{name} is not there"


def _difference(wanted: object, found: object, path: str) -> Iterator[str]:
    if _plain(wanted) != _plain(found):
        yield f"{path} is {_shown(found)}, not {_shown(wanted)}"


def _plain(value: object) -> object:
    """Return a tuple as the list that JSON makes of it."""
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value) if hasattr(value, "isoformat") else repr(value)
