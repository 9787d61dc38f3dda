"""The verbs of effects: intend one, record what became of it, decide about one nobody knows.

Each returns a `Call`; nothing happens until a driver runs it. The states are those of
sql/migrations/0004_effects.sql.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hudhud.store.call import Arg, Call, given, one

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from hudhud.domain.effect import Verdict
    from hudhud.store.call import Row


class Intention(NamedTuple):
    """What is to be changed outside, and by which run."""

    lease_id: UUID
    position: int  # of the run in its lease, from 1
    tenant_id: str
    key: str  # unique in its tenant
    name: str
    provider: str
    reconcile: str  # dedups, queryable, replaces or none
    fingerprint: str  # of the request
    root_id: UUID  # the first job of the line of replays
    send_seconds: float
    settle_seconds: float
    token: UUID  # of this intention, for asking again when the answer was lost


class Intended(NamedTuple):
    """What the database says to an intention.

    `verdict`: send, done, open, cancelled or lost. `sends` is the fence for the record of what
    became of it. `result` is a JSON value, with `reference`, for what is done. What is open was
    asked of the provider `of_provider`, and may be looked into after `wait_seconds`.
    """

    verdict: Verdict
    effect_id: UUID
    sends: int
    reference: str | None
    result: Any
    of_provider: str
    wait_seconds: float


class Closing(NamedTuple):
    """What became of an intention.

    `state`: done, not_done or unknown. For done: `reference`, the provider's name for it, and
    `result`, JSON text. `code` says why for the others. With `settle_seconds` the sender has
    stopped, and the provider may still act for so long.
    """

    state: str
    code: str | None = None
    reference: str | None = None
    result: str | None = None
    settle_seconds: float | None = None


def intend(intention: Intention, *, after_send: int | None = None) -> Call[Intended]:
    """Commit an intention under the run's fence, or learn what became of an earlier one.

    Args:
        intention: What, and by whom.
        after_send: `sends` of an open effect that was looked into, and is to be sent again.

    Raises:
        EffectMismatchError: When run, if the key was used for another request.

    Source: sql/functions/effects/intend.sql
    """
    args = given(
        Arg("lease_id", "uuid", intention.lease_id),
        Arg("place", "integer", intention.position),
        Arg("tenant_id", "text", intention.tenant_id),
        Arg("key", "text", intention.key),
        Arg("name", "text", intention.name),
        Arg("provider", "text", intention.provider),
        Arg("reconcile", "text", intention.reconcile),
        Arg("fingerprint", "text", intention.fingerprint),
        Arg("root_id", "uuid", intention.root_id),
        Arg("send_seconds", "double precision", intention.send_seconds),
        Arg("settle_seconds", "double precision", intention.settle_seconds),
        Arg("token", "uuid", intention.token),
        Arg("after_send", "integer", after_send),
    )
    return Call("intend", args, _intended)


def close_effect(effect_id: UUID, sends: int, closing: Closing) -> Call[bool]:
    """Record what became of an intention.

    Args:
        effect_id: The effect.
        sends: Which send this is about.
        closing: What became of it.

    Returns:
        False when it was sent anew, or closed otherwise, meanwhile.

    Source: sql/functions/effects/close_effect.sql
    """
    args = given(
        Arg("effect_id", "uuid", effect_id),
        Arg("sends", "integer", sends),
        Arg("state", "text", closing.state),
        Arg("reference", "text", closing.reference),
        Arg("result", "jsonb", closing.result),
        Arg("code", "text", closing.code),
        Arg("settle_seconds", "double precision", closing.settle_seconds),
    )
    return Call("close_effect", args, one)


def decide_effect(
    effect_id: UUID,
    decision: str,
    *,
    actor: str,
    reason: str,
    result: str | None = None,
    tenant_id: str | None = None,
) -> Call[int]:
    """Decide what became of an effect that nobody can ask the provider about.

    Args:
        effect_id: The effect.
        decision: done or not_done.
        actor: Who decides, for the audit.
        reason: Why, for the audit.
        result: JSON text of what the provider would have answered, for done.
        tenant_id: The caller's; None for an operator across tenants.

    Returns:
        How many jobs go on now.

    Raises:
        InvalidJobError, JobNotFoundError, MoveRefusedError: When run; see the source.

    Source: sql/functions/effects/decide_effect.sql
    """
    args = given(
        Arg("effect_id", "uuid", effect_id),
        Arg("decision", "text", decision),
        Arg("actor", "text", actor),
        Arg("reason", "text", reason),
        Arg("result", "jsonb", result),
        Arg("tenant_id", "text", tenant_id),
    )
    return Call("decide_effect", args, one)


def prune_effects(max_rows: int = 1_000) -> Call[int]:
    """Delete closed effects whose time is over and whose key no job can carry any more.

    Returns:
        Rows deleted; call again while it equals max_rows.

    Source: sql/functions/effects/prune_effects.sql
    """
    return Call("prune_effects", (Arg("max_rows", "integer", max_rows),), one)


def _intended(rows: Sequence[Row]) -> Intended:
    return Intended(*rows[0])
