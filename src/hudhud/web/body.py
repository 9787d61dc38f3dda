"""Read and write JSON bodies exactly, and within bounds.

The standard library's parser keeps every integer exact, at any size; a float path would not. It
lets `NaN` and infinities through, as the check of the field that holds them can name its path.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, cast

from starlette.responses import Response

from hudhud.domain.plain import json_text
from hudhud.web import problems
from hudhud.web.problems import FieldError, Problem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

JSON_MEDIA_TYPE = "application/json"

_NUMERALS = 20  # of a Content-Length; a longer one is counted as it arrives, like a missing one


async def read_object(request: Request, *, bytes_max: int) -> dict[str, object]:
    """Return the JSON object in the body of a request.

    Args:
        request: Its body is read here and nowhere else.
        bytes_max: Bytes of the body, counted as they arrive, whatever Content-Length says.

    Returns:
        The object as Python values: integers exact, keys as sent, the last of a repeated key.

    Raises:
        ProblemError: 415 for another media type, 413 for a larger body, 400 for what is not JSON,
            422 for JSON that is not an object.
    """
    _require_json(request.headers.get("content-type", ""))
    value = _parse(await _read(request, bytes_max))
    if not isinstance(value, dict):
        raise problems.invalid(FieldError("$", "must be a JSON object"))
    return cast("dict[str, object]", value)


def answer(
    document: Mapping[str, object], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response that no cache may keep and no browser may take for HTML.

    Integers have every digit, instants are in UTC, ids are text.
    """
    return Response(
        json_text(document),
        status_code=status,
        media_type="application/json",
        headers={
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            **(headers or {}),
        },
    )


def _require_json(content_type: str) -> None:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != JSON_MEDIA_TYPE:
        raise ProblemError(
            Problem(
                status=415,
                code="unsupported_media_type",
                detail=f"Send the body as {JSON_MEDIA_TYPE}.",
                headers={"accept-post": JSON_MEDIA_TYPE},
            )
        )


async def _read(request: Request, bytes_max: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and len(announced) < _NUMERALS and int(announced) > bytes_max:
        raise problems.body_too_large(bytes_max)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            raise problems.body_too_large(bytes_max)
    return bytes(body)


def _parse(body: bytes) -> object:
    try:
        return json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProblemError(
            Problem(
                status=400,
                code="malformed_json",
                detail="The body is not JSON text in UTF-8, or nests too deep, or holds an integer"
                f" of more than {sys.get_int_max_str_digits()} digits.",
            )
        ) from error
