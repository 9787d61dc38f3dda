"""Every error of the HTTP face as one `application/problem+json` document (RFC 9457).

A problem never repeats what the caller sent: a title and a detail are ours, and the only part of
the input that is named is the JSON path of the field that is wrong. Programs decide by `type`,
which is `urn:hudhud:problem:<code>`; people read `title` and `detail`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:hudhud:problem:"

RETRY_AFTER_SECONDS = 1
"""What a caller is told to wait before it repeats a request that the server could not take."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that is wrong.

    Attributes:
        path: JSON path from the body's root (`$.payload.amount`), or a query's `query.limit`.
        detail: What is wrong with it, in our words.
    """

    path: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error as the caller will read it.

    Attributes:
        status: HTTP status, 400 to 599.
        code: The last part of `type`; stable, in snake_case.
        detail: One or two sentences: what happened, what to do.
        errors: The fields that are wrong, for a 422.
        headers: Headers of the response besides the media type.
    """

    status: int
    code: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def response(self) -> Response:
        """Return the response that carries this problem."""
        document: dict[str, object] = {
            "type": TYPE_PREFIX + self.code,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = [{"path": e.path, "detail": e.detail} for e in self.errors]
        return Response(
            json.dumps(document),
            status_code=self.status,
            media_type=MEDIA_TYPE,
            headers={
                "cache-control": "no-store",
                "x-content-type-options": "nosniff",
                **self.headers,
            },
        )


class ProblemError(Exception):
    """Ends the request with the problem it carries."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def not_found() -> ProblemError:
    """Return the one answer for what does not exist and for what belongs to another tenant.

    Both must be the same to the byte, or the difference tells a stranger which ids are real.
    """
    return ProblemError(
        Problem(status=404, code="not_found", detail="There is nothing here that you may see.")
    )


def invalid(*errors: FieldError) -> ProblemError:
    """Return a 422 that names each wrong field by its path."""
    return ProblemError(
        Problem(
            status=422,
            code="invalid_request",
            detail="The request was understood, but these fields are not valid.",
            errors=errors,
        )
    )


def body_too_large(bytes_max: int) -> ProblemError:
    """Return a 413 for a body over `bytes_max` bytes."""
    return ProblemError(
        Problem(
            status=413,
            code="body_too_large",
            detail=f"The body is larger than {bytes_max} bytes. Store the data elsewhere and send a"
            " reference to it.",
        )
    )


def unavailable(detail: str) -> ProblemError:
    """Return a 503 with `Retry-After`."""
    return ProblemError(
        Problem(
            status=503,
            code="database_unavailable",
            detail=detail,
            headers={"retry-after": str(RETRY_AFTER_SECONDS)},
        )
    )
