"""The child's side of a process handler: waits for runs, answers with what they came to.

It speaks over one pipe and knows no database: what the handler logs goes back to the worker, which
holds the lease. It ends when the pipe closes, so it never outlives its worker for longer than the
run it is in.
"""

from __future__ import annotations

import importlib
import pickle
import signal
import traceback
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from hudhud.domain.cause import Known, caused_by
from hudhud.worker.handler import Handler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection
    from uuid import UUID


class Request(NamedTuple):
    """One run: where the function is, and what it is called with."""

    module: str
    qualname: str
    facts: Mapping[str, Any]
    payload: Mapping[str, object]


class Line(NamedTuple):
    """A call of `log` or `progress` on its way to the worker."""

    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


class Returned(NamedTuple):
    """The handler returned."""

    result: object


class Unsent(NamedTuple):
    """The handler returned something that does not cross processes."""

    reason: str


class Raised(NamedTuple):
    """The handler raised: the exception pickled, or None where it cannot be, and its traceback."""

    pickled: bytes | None
    module: str
    qualname: str
    message: str
    trace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessContext:
    """What a process handler is given: which job this is, and a way to report.

    As `Context`, but without `transaction`, `effect` and `state`: connections and clients do not
    cross processes.
    """

    pipe: Connection
    job_id: UUID
    run: int
    attempt: int
    max_attempts: int
    type: str
    version: int
    tenant_id: str
    idempotency_key: str | None
    correlation_id: str | None
    traceparent: str | None
    tags: Sequence[str]
    root_id: UUID

    def log(self, message: str, *, level: str = "info") -> None:
        """Keep a line about this run, as `Context.log`."""
        self.pipe.send(Line("log", (message,), {"level": level}))

    def progress(self, share: float, message: str = "") -> None:
        """Say how far this run has come, as `Context.progress`."""
        self.pipe.send(Line("progress", (share, message), {}))

    def check(self) -> None:
        """Do nothing: a process whose run may not go on is killed."""

    def transaction(self) -> NoReturn:
        """Refuse: a process handler has no connection.

        Raises:
            RuntimeError: Always; return the result, or use kind="thread".
        """
        message = "a process handler has no ctx.transaction(): return a result, or use a thread"
        raise RuntimeError(message)

    def effect(self, name: str, *_: object, **__: object) -> NoReturn:
        """Refuse: a process handler has no provider's client.

        Raises:
            RuntimeError: Always; return what to send, and send it in another job.
        """
        message = f"a process handler has no ctx.effect({name!r}): enqueue a job that has"
        raise RuntimeError(message)


# What the worker sends along, by the names that `Context` has for it.
FACTS = tuple(one.name for one in fields(ProcessContext) if one.name != "pipe")


def serve(pipe: Connection) -> None:
    """Run what comes through the pipe, one after another, until it closes."""
    # Signals to the whole group are the worker's business: it decides what becomes of this run.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            request: Request = pipe.recv()
        except EOFError:
            return
        _answer(request, pipe)


def _answer(request: Request, pipe: Connection) -> None:
    try:
        function = _find(request.module, request.qualname)
        context = ProcessContext(pipe=pipe, **request.facts)
        flow_id = context.correlation_id or str(context.root_id)
        with caused_by(Known(flow_id, context.job_id)):
            result = function(context, **request.payload)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the run's outcome
        pipe.send(_raised(error))
    else:
        pipe.send(_returned(result))


def _returned(result: object) -> Returned | Unsent:
    try:
        pickle.loads(pickle.dumps(result))  # noqa: S301 - bytes of our own
    except BaseException as error:  # noqa: BLE001 - the work is done, whatever the result is
        return Unsent(f"$ is of type {type(result).__name__}, which cannot be sent: {_text(error)}")
    return Returned(result)


def _find(module: str, qualname: str) -> Callable[..., object]:
    found: object = attrgetter(qualname)(importlib.import_module(module))
    if isinstance(found, Handler):
        return found.function
    if callable(found):
        return found
    message = f"{module}.{qualname} is no handler in a fresh process; it must be importable there"
    raise RuntimeError(message)


def _raised(error: BaseException) -> Raised:
    cls = type(error)
    trace = "".join(traceback.format_exception(error))
    return Raised(_pickled(error), cls.__module__, cls.__qualname__, _text(error), trace)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - an exception that cannot be printed is still an outcome
        return "(its text cannot be made)"


def _pickled(error: BaseException) -> bytes | None:
    """Pickle an exception if it also comes back; many with own arguments do not."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # noqa: S301 - bytes of our own, one line above
    except BaseException:  # noqa: BLE001 - the worker then makes the exception from its parts
        return None
    return pickled
