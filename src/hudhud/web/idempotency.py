"""`Idempotency-Key`: a request that is repeated is answered as it was, and done once.

The key, the work and the kept answer are one transaction. So a crash at any point leaves either
all of it or nothing, and who repeats a request whose answer was lost gets that answer. Nothing is
kept of a request that was refused or that failed: the next one with its key runs afresh. A twin of
a request in progress is not made to wait; it is told to come again.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from starlette.responses import Response

from hudhud.domain.payload import check_text
from hudhud.errors import InvalidJobError
from hudhud.store import idempotency
from hudhud.store.idempotency import Answer, RequestKey
from hudhud.store.reads import Read
from hudhud.web import problems
from hudhud.web.face import face_of
from hudhud.web.problems import FieldError, Problem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from starlette.datastructures import Headers
    from starlette.requests import Request

    from hudhud.store.call import Call
    from hudhud.web.auth import Caller
    from hudhud.web.database import Run

HEADER = "Idempotency-Key"
KEY_CHARACTERS_MAX = 500
REPLAYED = "idempotent-replayed"
"""The header of an answer that was kept: this request did nothing, an earlier one did."""

# The IETF's draft has the key as a string of RFC 8941, which may be followed by parameters.
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"\s*(?:;.*)?')

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act(Generic[T]):
    """What a request does: one verb, and how what it came to is told.

    Attributes:
        call: The verb.
        answer: Makes the response, before the commit; what it raises undoes the verb.
        check: Gets what the verb answered and the database's time; what it raises undoes the verb.
    """

    call: Call[T]
    answer: Callable[[T], Response]
    check: Callable[[T, datetime], None] | None = None


async def perform(
    request: Request, caller: Caller, *, sent: Mapping[str, object], act: Act[T]
) -> Response:
    """Do what a request asks for, once for all requests of its key, and answer after the commit.

    A request without a key is one of its own each time. A caller who goes away meanwhile does not
    stop it.

    Args:
        request: Its headers may hold a key.
        caller: Whose tenant is the scope of the key.
        sent: The body as it was sent.
        act: What to do.

    Raises:
        ProblemError: 409 when the same request is in progress, 422 when its key was used for
            another one or cannot be kept; and what the act raises.
        HudhudError: What the database refused.
        psycopg.OperationalError: When it does not answer; whether the work is done is then
            unknown, and a repeated request with its key finds out.
    """
    database = face_of(request).database
    key = _request_key(request, caller, sent)
    if key is None:
        return await database.transact(lambda run: _done(run, act))
    return await database.transact(lambda run: _once(run, key, act))


def key_of(headers: Headers) -> str | None:
    """Return the key that a request names, bare or as a quoted string, None when it names none.

    Raises:
        ProblemError: 422 for a key that could not be kept, or more than one.
    """
    sent = headers.getlist(HEADER)
    if not sent:
        return None
    quoted = _QUOTED.fullmatch(sent[0].strip())
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else sent[0]
    problem = "must be sent once" if len(sent) > 1 else _problem_of(key)
    if problem is not None:
        raise problems.invalid(FieldError(f"header.{HEADER}", problem))
    return key


def _problem_of(key: str) -> str | None:
    if not 1 <= len(key) <= KEY_CHARACTERS_MAX:
        return f"must have 1 to {KEY_CHARACTERS_MAX} characters"
    try:
        check_text(key, "")
    except InvalidJobError as error:
        return str(error).strip()
    return None


def _request_key(request: Request, caller: Caller, sent: Mapping[str, object]) -> RequestKey | None:
    """Return what names this request.

    Two requests are the same when tenant, method, path and body are; the order of a body's fields
    and the space between them make no difference.
    """
    key = key_of(request.headers)
    if key is None:
        return None
    parts = [caller.tenant_id, request.method, request.url.path, sent]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return RequestKey(caller.tenant_id, key, hashlib.sha256(text.encode()).digest())


async def _once(run: Run, key: RequestKey, act: Act[T]) -> Response:
    taken = await run(idempotency.take_request(key))
    if taken.answer is not None:
        return _replayed(taken.answer)
    if taken.state == "in_progress":
        raise _in_progress()
    if taken.state == "other":
        raise _of_another()
    response = await _done(run, act)
    await run(idempotency.keep_answer(key, _kept(response)))
    return response


async def _done(run: Run, act: Act[T]) -> Response:
    came_to = await run(act.call)
    if act.check is not None:
        (row,) = await run(Read("clock"))
        act.check(came_to, cast("datetime", row["now"]))
    return act.answer(came_to)


def _kept(response: Response) -> Answer:
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return Answer(response.status_code, headers, bytes(response.body).decode())


def _replayed(answer: Answer) -> Response:
    headers = {**answer.headers, REPLAYED: "true"}
    return Response(answer.body, status_code=answer.status, headers=headers)


def _in_progress() -> ProblemError:
    return ProblemError(
        Problem(
            status=409,
            code="in_progress",
            detail="A request with this Idempotency-Key is in progress. Repeat it later: it is then"
            " answered as that one was, or done if that one failed.",
            headers={"retry-after": str(problems.RETRY_AFTER_SECONDS)},
        )
    )


def _of_another() -> ProblemError:
    return ProblemError(
        Problem(
            status=422,
            code="key_reused",
            detail="This Idempotency-Key was used for another request, to another path or with"
            " another body. Give each request a key of its own, and repeat a request as it was.",
        )
    )
