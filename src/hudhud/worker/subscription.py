"""A subscription: a function that gets every event of a type, each as a job of its own."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from typing_extensions import TypedDict, Unpack

from hudhud.domain.cause import Known, caused_by
from hudhud.domain.event import Event, read
from hudhud.errors import ConfigError, Permanent
from hudhud.worker.handler import HandlerOptions, define, place_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hudhud.domain.retry import RetryPolicy
    from hudhud.domain.upcast import Upcasters
    from hudhud.worker.handler import AnyHandler, ErrorMap

R = TypeVar("R")
AnySubscription: TypeAlias = "Subscription[Any]"

POSITION_MAX = 10**18 - 1


class SubscriptionOptions(TypedDict, total=False):
    """How the jobs of a subscription are run; see `Handler`."""

    queue: str
    lane: str
    timeout_seconds: float
    max_attempts: int
    max_crashes: int
    retry: RetryPolicy
    errors: ErrorMap


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Subscription(Generic[R]):
    """A function, and the events that it wants; called like the function itself.

    Attributes:
        name: Its own, and the type of its jobs. It keeps the subscription's place: renamed, it
            would be a new one.
        event_type: Which events.
        version: Of the payload that the function gets; older ones are upcast to it.
        start: Where a new one begins: "now", "beginning" (of what is kept), or the position after
            which. It says nothing about one that exists.
        options: How its jobs are run.
    """

    name: str
    event_type: str
    version: int
    start: str
    function: Callable[[Any, Event], R]
    options: SubscriptionOptions

    def __call__(self, ctx: Any, event: Event, /) -> R:  # noqa: ANN401 - any stand-in for a context
        """Call the function itself, as a test does."""
        return self.function(ctx, event)

    def handler(self, version: int, upcasters: Upcasters) -> AnyHandler:
        """Return what handles its jobs of events that were published with a version."""
        options = cast("HandlerOptions", {**self.options, "version": version})
        return define(self.name, _reader(self, upcasters), **options)


def subscribe(
    event_type: str,
    function: Callable[[Any, Event], R],
    *,
    version: int,
    name: str | None,
    start: str | int,
    **options: Unpack[SubscriptionOptions],
) -> Subscription[R]:
    """Make a subscription of a function, refusing here what could only fail later.

    Raises:
        ConfigError: An option is out of bounds, or the function does not take a context and an
            event.
    """
    own = name or f"{event_type}:{getattr(function, '__name__', 'handler')}"
    _check_parameters(function, own)
    return Subscription(
        name=own,
        event_type=event_type,
        version=version,
        start=_start(start, own),
        function=function,
        options=options,
    )


def _reader(
    subscription: Subscription[Any], upcasters: Upcasters
) -> Callable[..., Any] | Callable[..., Awaitable[Any]]:
    """Return a handler that makes the event out of a job's payload and calls the function."""
    function = subscription.function

    async def handle(ctx: Any, event: dict[str, Any]) -> object:  # noqa: ANN401 - handed through
        given = _read(subscription, upcasters, event, of=ctx.tenant_id)
        with caused_by(_cause(given)):
            return await cast("Awaitable[object]", function(ctx, given))

    def handle_in_thread(ctx: Any, event: dict[str, Any]) -> object:  # noqa: ANN401 - as above
        given = _read(subscription, upcasters, event, of=ctx.tenant_id)
        with caused_by(_cause(given)):
            return function(ctx, given)

    reader = handle if inspect.iscoroutinefunction(function) else handle_in_thread
    # What is said about the handler is meant of the function.
    reader.__qualname__ = getattr(function, "__qualname__", reader.__qualname__)
    reader.__doc__ = function.__doc__
    return reader


def _read(
    subscription: Subscription[Any], upcasters: Upcasters, document: dict[str, Any], *, of: str
) -> Event:
    """Make the event out of a job's payload.

    Whoever may enqueue may write any document: it is believed no further than the job, which is
    `of` a tenant. What an upcaster raises is a handler's error like any.
    """
    try:
        event = read(document, subscription.version)
        version, payload = document["version"], document["payload"]
        is_ours = (
            (event.tenant_id, event.type) == (of, subscription.event_type)
            and upcasters.oldest(event.type, event.version) <= version <= event.version
            and isinstance(payload, dict)
        )
    except (KeyError, TypeError, ValueError) as error:
        message = f"The job's event cannot be read: {type(error).__name__}"
        raise Permanent(message, code="malformed") from error
    if not is_ours:
        message = "The job's event is of another tenant, type or version than the job"
        raise Permanent(message, code="malformed")
    known = cast("dict[str, Any]", payload)
    newest = upcasters.upcast(event.type, known, version=version, to=event.version)
    return replace(event, payload=newest)


def _cause(event: Event) -> Known:
    return Known(event.correlation_id, event.id)


def _check_parameters(function: Callable[..., object], name: str) -> None:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError) as error:
        message = f"{name} ({place_of(function)}): a subscription's function takes ctx and event"
        raise ConfigError(message) from error


def _start(start: str | int, name: str) -> str:
    """Return where to begin as the database takes it."""
    if start in {"now", "beginning"}:
        return str(start)
    if type(start) is int and 0 <= start <= POSITION_MAX:
        return str(start)
    message = f'{name}: start must be "now", "beginning" or a position, not {start!r}'
    raise ConfigError(message)
