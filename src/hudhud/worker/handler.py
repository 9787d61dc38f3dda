"""A handler: a function, the type it handles, and how its jobs are to be run."""

from __future__ import annotations

import dataclasses
import inspect
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
)

from typing_extensions import TypedDict, Unpack

from hudhud.domain.job import Lane, NewJob, OnConflict
from hudhud.domain.retry import RetryPolicy
from hudhud.domain.schema import PayloadSchema, schema_of
from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

P = ParamSpec("P")
R = TypeVar("R")

Kind: TypeAlias = Literal["async", "thread", "process"]
ErrorClass: TypeAlias = Literal["permanent", "retryable", "unknown"]
ErrorMap: TypeAlias = "Mapping[type[Exception], ErrorClass]"
_NO_ERRORS: ErrorMap = MappingProxyType({})
AnyHandler: TypeAlias = "Handler[..., Any]"

KINDS: Final = ("async", "thread", "process")
ERROR_CLASSES: Final = ("permanent", "retryable", "unknown")
# As the SQL function `enqueue` has them for a type that was never announced.
DEFAULT_QUEUE: Final = "default"
DEFAULT_LANE: Final = "normal"
DEFAULT_ATTEMPTS: Final = 20
SMALLINT_MAX: Final = 32_767
TIMEOUT_SECONDS_MAX: Final = 86_400.0
TYPE_CHARACTERS_MAX: Final = 200
QUEUE_CHARACTERS_MAX: Final = 63  # it is sent as a hint, and shown everywhere
_NAME = re.compile(r"[A-Za-z0-9_.:-]+")


class JobOptions(TypedDict, total=False):
    """What one enqueue may set beside the payload; see `NewJob`."""

    tenant_id: str
    queue: str
    lane: str
    idempotency_key: str
    on_conflict: OnConflict
    unique_for_seconds: float
    unique_by: str | Sequence[str]
    available_at: datetime
    delay_seconds: float
    expires_at: datetime
    max_attempts: int
    correlation_id: str
    traceparent: str
    tags: Sequence[str]


class HandlerOptions(TypedDict, total=False):
    """What a handler's definition may set; see `Handler`."""

    version: int
    queue: str
    lane: str
    timeout_seconds: float
    max_attempts: int
    max_crashes: int
    retry: RetryPolicy
    errors: ErrorMap
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Handler(Generic[P, R]):
    """A function and the type it handles; called like the function itself.

    Attributes:
        type: The job type, 1 to 200 of `A-Z a-z 0-9 _ . : -`.
        version: Of the payload's contract; 1 to 32767.
        queue: Where its jobs go unless one says otherwise.
        lane: How urgent they are: critical, high, normal or bulk.
        timeout_seconds: Time limit of one run; above 0, at most a day.
        max_attempts: Attempts before a failing job is dead.
        max_crashes: Crashes alone in a lease before it is dead as `worker_lost`.
        retry: How long to wait between attempts, per class of error.
        errors: Exception class to `permanent`, `retryable` or `unknown`; the nearest base class
            of a raised exception decides.
        kind: `async` runs on the event loop, `thread` in a thread, `process` in a process of its
            own (for CPU-bound work; killed at its time limit).
        schema: Which payload it takes.
        options: What `using` set for enqueues through this object.
    """

    type: str
    function: Callable[Concatenate[Any, P], R]
    schema: PayloadSchema
    kind: Kind = "async"
    version: int = 1
    queue: str = DEFAULT_QUEUE
    lane: str = DEFAULT_LANE
    timeout_seconds: float = 60.0
    max_attempts: int = DEFAULT_ATTEMPTS
    max_crashes: int = 3
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    errors: ErrorMap = field(default_factory=lambda: _NO_ERRORS)
    options: JobOptions = field(default_factory=JobOptions)

    @property
    def contract(self) -> str:
        """`type:version`, as a claim names what a worker can run."""
        return f"{self.type}:{self.version}"

    def __call__(self, ctx: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: ANN401 - see below
        """Call the function itself, as a test does with any stand-in for a context."""
        return self.function(ctx, *args, **kwargs)

    def using(self, **options: Unpack[JobOptions]) -> Handler[P, R]:
        """Return the same handler with options for the jobs made through it.

        `refund.using(tenant_id="acme", delay_seconds=60).job(transaction_id="A")`
        """
        return dataclasses.replace(self, options={**self.options, **options})

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Make a job with this payload, to be enqueued; the arguments are the handler's own.

        Raises:
            InvalidJobError: A field is missing, unknown or of another JSON type than annotated.
        """
        payload = self._named(args, kwargs) if args else dict(kwargs)
        self.schema.check(payload)
        return NewJob(self.type, payload, version=self.version, **(self._own() | self.options))

    def class_of(self, error: BaseException) -> ErrorClass | None:
        """Return the class that `errors` gives an exception, by its nearest base; None if none."""
        for base in type(error).__mro__:
            if base in self.errors:
                return self.errors[base]
        return None

    def _own(self) -> JobOptions:
        """Return what the definition says and no default does.

        A worker announces the same to the database, but a job may be enqueued before the first
        worker starts, and would otherwise lie in a queue that nobody serves.
        """
        own = JobOptions()
        if self.queue != DEFAULT_QUEUE:
            own["queue"] = self.queue
        if self.lane != DEFAULT_LANE:
            own["lane"] = self.lane
        if self.max_attempts != DEFAULT_ATTEMPTS:
            own["max_attempts"] = self.max_attempts
        return own

    def _named(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        """Give positional arguments the names that the function has for them."""
        bound = inspect.signature(self.function).bind(None, *args, **kwargs)
        named = dict(zip(list(bound.signature.parameters)[1:], args, strict=False))
        return {**named, **kwargs}


def define(
    type: str,  # noqa: A002 - the word for it, everywhere
    function: Callable[Concatenate[Any, P], R],
    **options: Unpack[HandlerOptions],
) -> Handler[P, R]:
    """Make a handler of a function, refusing here what could only fail later.

    Raises:
        ConfigError: An option is out of bounds, or the function cannot be a handler of its kind.
    """
    owner = f"{type}:{options.get('version', 1)}"
    options.setdefault("kind", "async" if _is_async(function) else "thread")
    handler = Handler(type=type, function=function, schema=schema_of(function, owner), **options)
    _check_names(handler)
    _check_numbers(handler)
    _check_errors(handler)
    _check_kind(handler)
    return dataclasses.replace(handler, errors=MappingProxyType(dict(handler.errors)))


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - of an object that is called like one
    )


def place_of(function: object) -> str:
    """Say where a function is defined, for a message to a person."""
    module = getattr(function, "__module__", "?")
    return f"{module}.{getattr(function, '__qualname__', repr(function))}"


def _refuse(handler: AnyHandler, why: str) -> None:
    message = f"{handler.contract} ({place_of(handler.function)}): {why}"
    raise ConfigError(message)


def _check_names(handler: AnyHandler) -> None:
    for word, name, characters_max in (
        ("type", handler.type, TYPE_CHARACTERS_MAX),
        ("queue", handler.queue, QUEUE_CHARACTERS_MAX),
    ):
        if len(name) > characters_max or not _NAME.fullmatch(name):
            _refuse(
                handler, f"{word} {name!r} must be 1 to {characters_max} of A-Z a-z 0-9 _ . : -"
            )
    if handler.lane not in tuple(Lane):
        _refuse(handler, f"lane {handler.lane!r} must be one of {', '.join(Lane)}")


def _check_numbers(handler: AnyHandler) -> None:
    for name in ("version", "max_attempts", "max_crashes"):
        number: object = getattr(handler, name)
        if type(number) is not int or not 1 <= number <= SMALLINT_MAX:
            _refuse(handler, f"{name} must be from 1 to {SMALLINT_MAX}, not {number!r}")
    if not 0 < handler.timeout_seconds <= TIMEOUT_SECONDS_MAX:
        limit = f"above 0 and at most {TIMEOUT_SECONDS_MAX:g}"
        _refuse(handler, f"timeout_seconds must be {limit}, not {handler.timeout_seconds!r}")


def _check_errors(handler: AnyHandler) -> None:
    for error, error_class in cast("Mapping[object, object]", handler.errors).items():
        if not (inspect.isclass(error) and issubclass(error, Exception)):
            _refuse(handler, f"errors names {error!r}, which is no exception class")
        if error_class not in ERROR_CLASSES:
            wanted = ", ".join(ERROR_CLASSES)
            _refuse(handler, f"errors gives {error!r} {error_class!r}, not one of {wanted}")


def _check_kind(handler: AnyHandler) -> None:
    function, kind = handler.function, handler.kind
    if kind not in KINDS:
        _refuse(handler, f"kind {kind!r} must be one of {', '.join(KINDS)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        _refuse(handler, "a handler returns its result; it does not yield")
    if (kind == "async") != _is_async(function):
        wanted = "an async def" if kind == "async" else "a plain def"
        _refuse(handler, f"kind {kind!r} needs {wanted}")
    qualname: str = getattr(function, "__qualname__", "<object>")
    if kind == "process" and "<" in qualname:
        _refuse(handler, "a process handler must be importable: define it at module level")
