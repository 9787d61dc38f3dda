"""Which exception becomes which problem: the one table, and its handlers.

Everything that leaves a route passes here: our own errors, the framework's (unknown route, method,
query parameter), the database's, and what nobody foresaw. The last kind answers 500 and says
nothing but that; what it was goes to the log of the server, without the values in it.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

import psycopg
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from hudhud import errors
from hudhud.domain.redact import redact
from hudhud.web import problems
from hudhud.web.problems import FieldError, Problem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

_logger = logging.getLogger("hudhud.web")

OWN: Mapping[type[errors.HudhudError], tuple[int, str, bool]] = {
    errors.InvalidJobError: (422, "invalid_job", True),
    errors.InvalidEventError: (422, "invalid_event", True),
    errors.UnknownTypeError: (422, "unknown_type", False),
    errors.PayloadTooLargeError: (413, "payload_too_large", True),
    errors.DuplicateJobError: (409, "duplicate_job", False),
    errors.MoveRefusedError: (409, "move_refused", True),
}
"""Per class: status, code, and whether its own message is shown.

A message that repeats what the caller sent, such as a key or a type's name, is not shown; the
class's default message stands in for it.
"""

_AWAY = (
    "The database did not answer. Whether a write was accepted is unknown: repeat it with the same"
    " Idempotency-Key."
)
_HELD = "Somebody's open transaction holds what this request needs. Nothing was done: repeat it."
_FRAMEWORK = {
    404: ("not_found", "There is nothing here that you may see."),
    405: ("method_not_allowed", "This resource does not offer that method; see the Allow header."),
}


def install(app: FastAPI) -> None:
    """Make every error of the app a problem document."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(errors.HudhudError, _on_own)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_framework)
    app.add_exception_handler(psycopg.Error, _on_database)
    app.add_exception_handler(TimeoutError, _on_timeout)
    app.add_exception_handler(Exception, _on_unforeseen)


async def _on_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return error.problem.response()


async def _on_own(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.HudhudError)
    problem = of_own(error)
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _record(request, type(error).__name__)
    return problem.response()


def of_own(error: errors.HudhudError) -> Problem:
    """Return the problem that one of our errors is to a caller of the HTTP face."""
    if isinstance(error, errors.JobNotFoundError):
        return problems.not_found().problem
    if isinstance(error, errors.SchemaError):
        return problems.unavailable(errors.default_message(errors.SchemaError)).problem
    for kind, (status, code, shows_message) in OWN.items():
        if isinstance(error, kind):
            detail = str(error) if shows_message else errors.default_message(kind)
            return Problem(status=status, code=code, detail=detail)
    return _unforeseen()


async def _on_validation(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problems.invalid(
        *(FieldError(_path(fault["loc"]), str(fault["msg"])) for fault in error.errors())
    ).problem.response()


def _path(location: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in location)


async def _on_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, detail = _FRAMEWORK.get(
        error.status_code, ("http_error", "The request could not be handled.")
    )
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["allow"] = ", ".join(sorted(_methods(request)))
    return Problem(status=error.status_code, code=code, detail=detail, headers=headers).response()


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes of the path; the framework names the first route's only."""
    paths: Mapping[str, Mapping[str, object]] = cast("FastAPI", request.app).openapi()["paths"]
    return {
        method.upper()
        for path, methods in paths.items()
        if compile_path(path)[0].match(request.url.path)
        for method in methods
    }


async def _on_database(request: Request, error: Exception) -> Response:
    assert isinstance(error, psycopg.Error)
    if isinstance(error, psycopg.DataError) or errors.is_limit(error.sqlstate):
        problem = Problem(
            status=422,
            code="invalid_request",
            detail="A value of this request is out of the range that the database can hold.",
        )
    elif isinstance(error, psycopg.errors.LockNotAvailable):
        problem = problems.unavailable(_HELD).problem
    elif isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        problem = problems.unavailable(_AWAY).problem
    elif isinstance(error, (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction)):
        problem = of_own(errors.SchemaError())
    else:
        problem = _unforeseen()
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # Not the detail, which repeats the row with its payload.
        told = error.diag.message_primary
        _record(request, f"{type(error).__name__} {error.sqlstate or ''} {redact(told or '')}")
    return problem.response()


async def _on_timeout(request: Request, _: Exception) -> Response:
    _record(request, "the database did not answer in time")
    return problems.unavailable(_AWAY).problem.response()


async def _on_unforeseen(_: Request, __: Exception) -> Response:
    return _unforeseen().response()


def _record(request: Request, what: str) -> None:
    _logger.error("%s %s failed: %s", request.method, request.url.path, what)


def _unforeseen() -> Problem:
    return Problem(
        status=500,
        code="internal_error",
        detail="Something went wrong on our side. It has been recorded.",
    )
