"""What an application says about events: the types it publishes, who wants them, old versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict, Unpack

from hudhud.domain.event import NewEvent
from hudhud.domain.schema import PayloadSchema, schema_of_class
from hudhud.domain.upcast import Upcaster, Upcasters
from hudhud.errors import ConfigError, InvalidEventError, InvalidJobError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from hudhud.domain.schema import Announced
    from hudhud.domain.upcast import Upcast
    from hudhud.worker.handler import AnyHandler
    from hudhud.worker.registry import Registry
    from hudhud.worker.subscription import AnySubscription

VERSION_MAX = 32_767


@dataclass(frozen=True, slots=True)
class EventType:
    """A contract of an event type: which payload a version of it has.

    Attributes:
        personal: Names of the fields that tell something about a person.
        need: Why they are there; None when they may not be.
        sample: A golden sample of this version, or None.
    """

    type: str
    version: int
    schema: PayloadSchema
    personal: tuple[str, ...] = ()
    need: str | None = None
    sample: Mapping[str, Any] | None = None

    def check(self, payload: Mapping[str, object]) -> None:
        """Refuse a payload of another shape, or one that tells more than it may.

        Raises:
            InvalidEventError: Names the JSON path.
        """
        owner = f"The event {self.type} version {self.version} was refused:"
        try:
            self.schema.check(payload)
        except InvalidJobError as error:
            message = f"{owner} {error}"
            raise InvalidEventError(message) from error
        if self.need is None and (told := [name for name in self.personal if name in payload]):
            message = (
                f"{owner} $.{told[0]} is personal, and the type does not state why an event needs"
                " it; publish a reference."
            )
            raise InvalidEventError(message)


class AnnouncedEvent(TypedDict):
    """One event type as `announce_events` takes it."""

    type: str
    version: int
    schema: Announced
    personal: list[str]
    need: str | None


class AnnouncedSubscription(TypedDict):
    """One subscription as `announce_events` takes it."""

    name: str
    event_type: str
    queue: str
    lane: str
    max_attempts: int
    start: str


class PublishOptions(TypedDict, total=False):
    """What one publish may set beside the payload; see `NewEvent`. An aggregate's id may be any."""

    version: int | None
    tenant_id: str
    aggregate: tuple[str, object] | None
    ordered: bool
    occurred_at: datetime | None
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None


@dataclass(slots=True)
class Outbox:
    """The event types, subscriptions and upcasters of an application.

    Attributes:
        registry: Gets a handler for each version of an event that a subscription can read.
        types: By type and version.
        subscriptions: In the order of their definition.
    """

    registry: Registry
    types: dict[tuple[str, int], EventType] = field(default_factory=dict[Any, EventType])
    subscriptions: list[AnySubscription] = field(default_factory=list["AnySubscription"])
    upcasters: Upcasters = field(default_factory=Upcasters)

    def declare(
        self,
        type: str,  # noqa: A002 - the word for it, everywhere
        contract: type,
        *,
        version: int,
        personal: str | None,
        sample: Mapping[str, Any] | None,
    ) -> None:
        """Take the contract of a type in.

        Raises:
            ConfigError: A field cannot be carried, or there is a contract for this version.
        """
        owner = f"{type}:{version}"
        if (type, version) in self.types:
            message = f"{owner} has two contracts; give one of them another version"
            raise ConfigError(message)
        schema, marked = schema_of_class(contract, owner)
        declared = EventType(type, version, schema, tuple(marked), personal, sample=sample)
        if sample is not None:
            _check_sample(declared, sample)
        self.types[type, version] = declared

    def subscribe(self, subscription: AnySubscription) -> None:
        """Take a subscription in.

        Raises:
            ConfigError: There is one of this name already.
        """
        if any(one.name == subscription.name for one in self.subscriptions):
            message = f"There is a subscription {subscription.name} already; give this one a name."
            raise ConfigError(message)
        self._cover(subscription)
        self.subscriptions.append(subscription)

    def add_upcaster(self, upcaster: Upcaster) -> None:
        """Take an upcaster in; subscriptions then read the versions from which it leads to theirs.

        Raises:
            ConfigError: There is one for this type and version already.
        """
        self.upcasters.add(upcaster)
        for subscription in self.subscriptions:
            if subscription.event_type == upcaster.type:
                self._cover(subscription)

    def newest(self, type: str) -> int:  # noqa: A002 - the word for it, everywhere
        """Return the highest version of a type that has a contract here; 1 if none has."""
        return max((version for name, version in self.types if name == type), default=1)

    def check(self, type: str, version: int, payload: Mapping[str, object]) -> None:  # noqa: A002 - as above
        """Refuse a payload that does not fit the contract, if there is one here.

        Raises:
            InvalidEventError: Names the JSON path.
        """
        declared = self.types.get((type, version))
        if declared is not None:
            declared.check(payload)

    def announced_types(self) -> list[AnnouncedEvent]:
        """Return the contracts as `announce_events` takes them."""
        return [
            {
                "type": one.type,
                "version": one.version,
                "schema": one.schema.announced(),
                "personal": list(one.personal),
                "need": one.need,
            }
            for one in self.types.values()
        ]

    def announced_subscriptions(self) -> list[AnnouncedSubscription]:
        """Return the subscriptions as `announce_events` takes them."""
        return [self._announced(one) for one in self.subscriptions]

    def _announced(self, subscription: AnySubscription) -> AnnouncedSubscription:
        handler: AnyHandler | None = self.registry.find(subscription.name, subscription.version)
        assert handler is not None, subscription.name
        return {
            "name": subscription.name,
            "event_type": subscription.event_type,
            "queue": handler.queue,
            "lane": handler.lane,
            "max_attempts": handler.max_attempts,
            "start": subscription.start,
        }

    def _cover(self, subscription: AnySubscription) -> None:
        """Give each version that can be upcast to the subscription's a handler."""
        newest = subscription.version
        oldest = self.upcasters.oldest(subscription.event_type, newest)
        for version in range(oldest, newest + 1):
            if self.registry.find(subscription.name, version) is None:
                self.registry.add(subscription.handler(version, self.upcasters))


def new_event(
    outbox: Outbox,
    type: str,  # noqa: A002 - the word for it, everywhere
    payload: Mapping[str, object],
    **options: Unpack[PublishOptions],
) -> NewEvent:
    """Make an event that fits its contract, if there is one here.

    Raises:
        InvalidEventError: Names the JSON path, or the option.
    """
    version = options.get("version") or outbox.newest(type)
    outbox.check(type, version, payload)
    aggregate = options.get("aggregate")
    named = None if aggregate is None else (aggregate[0], str(aggregate[1]))
    rest: dict[str, Any] = {**options, "version": version, "aggregate": named}
    return NewEvent(type, payload, **rest)


def upcaster_of(
    type: str,  # noqa: A002 - the word for it, everywhere
    version: int,
    function: Upcast,
    *,
    sample: Mapping[str, Any],
) -> Upcaster:
    """Make an upcaster from `version` to the next.

    Raises:
        ConfigError: There is no such version.
    """
    if not 1 <= version < VERSION_MAX:
        message = f"{type}: an upcaster leads from a version, 1 to {VERSION_MAX - 1}, to the next"
        raise ConfigError(message)
    return Upcaster(type, version, function, sample)


def _check_sample(declared: EventType, sample: Mapping[str, Any]) -> None:
    try:
        declared.check(sample)
    except InvalidEventError as error:
        message = f"the sample of {declared.type}:{declared.version} is none: {error}"
        raise ConfigError(message) from error
