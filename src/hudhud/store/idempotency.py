"""Keys of requests and inboxes of consumers: what was answered already, what was taken in already.

The keys of jobs are the third use of the same table; `store.jobs.enqueue` takes those.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hudhud.domain.payload import check_text
from hudhud.store.call import Arg, Call, nothing, one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from hudhud.store.call import Row

State: TypeAlias = Literal["new", "in_progress", "other", "answered"]


class RequestKey(NamedTuple):
    """One request by the name that its caller gave it.

    Attributes:
        tenant_id: Whose request it is.
        key: The caller's name for it, 1 to 500 characters, once per tenant.
        fingerprint: SHA-256 of everything that would make it another request.
    """

    tenant_id: str
    key: str
    fingerprint: bytes


class Answer(NamedTuple):
    """What a request was answered: status, the headers that are its own, the body's text."""

    status: int
    headers: Mapping[str, str]
    body: str


class Taken(NamedTuple):
    """What became of taking a request's key; `answer` is there when the state is "answered"."""

    state: State
    answer: Answer | None


def take_request(request: RequestKey) -> Call[Taken]:
    """Take a request's key until the transaction ends, or find out what it was answered.

    Never waits. Runs in the transaction that does the work and then keeps the answer.

    Returns:
        "new": do the work, then `keep_answer`. "in_progress": another transaction is at it.
        "other": the key was used for another request. "answered": with the answer.

    Source: sql/functions/idempotency/take_request.sql
    """
    return Call("take_request", _named(request), _taken)


def keep_answer(request: RequestKey, answer: Answer) -> Call[None]:
    """Keep what a request was answered, for `setting.keep_answers`, with the work's own commit.

    Source: sql/functions/idempotency/keep_answer.sql
    """
    document = json.dumps(answer._asdict())
    return Call("keep_answer", (*_named(request), Arg("answer", "jsonb", document)), nothing)


def take_in(consumer: str, event_id: UUID, *, tenant_id: str = "default") -> Call[bool]:
    """Take an event into a consumer's inbox, in the transaction that does what follows from it.

    Args:
        consumer: Its name, 1 to 200 characters; another name is another inbox.
        event_id: Of any event, also of another system's.
        tenant_id: The tenant that the event belongs to.

    Returns:
        True the first time. False when it was taken in before: nothing is to be done. Whoever
        comes second waits for the first one's transaction, and is the first if that rolls back.

    Raises:
        InvalidJobError: For a name that PostgreSQL cannot keep; when run, for one too long.

    Source: sql/functions/idempotency/take_in.sql
    """
    check_text(consumer, "consumer")
    check_text(tenant_id, "tenant_id")
    args = (
        Arg("consumer", "text", consumer),
        Arg("event_id", "uuid", event_id),
        Arg("tenant_id", "text", tenant_id),
    )
    return Call("take_in", args, one)


def _named(request: RequestKey) -> tuple[Arg, ...]:
    return (
        Arg("tenant_id", "text", request.tenant_id),
        Arg("key", "text", request.key),
        Arg("fingerprint", "bytea", request.fingerprint),
    )


def _taken(rows: Sequence[Row]) -> Taken:
    state, text = rows[0]
    return Taken(state, None if text is None else Answer(**json.loads(text)))
