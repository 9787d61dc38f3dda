"""API keys: made, revoked and checked by the hash of their secret, which is never stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hudhud.store.call import Arg, Call, nothing, one

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from hudhud.store.call import Row


class KeyOwner(NamedTuple):
    """Whose key a secret is, and what it may do."""

    key_id: UUID
    tenant_id: str
    scopes: tuple[str, ...]


def create_key(
    name: str, tenant_id: str, scopes: Sequence[str], *, secret_hash: bytes, actor: str
) -> Call[UUID]:
    """Store a key.

    Args:
        name: What its owner calls it.
        tenant_id: The tenant that it acts for.
        scopes: Of enqueue, publish, read, operate, approve; at least one.
        secret_hash: SHA-256 of the secret, 32 bytes.
        actor: Who does it, for the audit.

    Returns:
        The key's id.

    Raises:
        InvalidJobError: When run with anything else.

    Source: sql/functions/keys/create_key.sql
    """
    args = (
        Arg("name", "text", name),
        Arg("tenant_id", "text", tenant_id),
        Arg("scopes", "text[]", list(scopes)),
        Arg("secret_hash", "bytea", secret_hash),
        Arg("actor", "text", actor),
    )
    return Call("create_key", args, one)


def revoke_key(key_id: UUID, *, actor: str) -> Call[None]:
    """Make a key useless from now on.

    Raises:
        JobNotFoundError: When run and there is no such key.
        MoveRefusedError: When run and it is revoked already.

    Source: sql/functions/keys/revoke_key.sql
    """
    args = (Arg("key_id", "uuid", key_id), Arg("actor", "text", actor))
    return Call("revoke_key", args, nothing)


def check_key(secret_hash: bytes) -> Call[KeyOwner | None]:
    """Find whose key a secret is.

    Returns:
        None when there is no such key or it is revoked.

    Source: sql/functions/keys/check_key.sql
    """
    return Call("check_key", (Arg("secret_hash", "bytea", secret_hash),), _owner)


def _owner(rows: Sequence[Row]) -> KeyOwner | None:
    if not rows or rows[0][0] is None:
        return None
    key_id, tenant_id, scopes = rows[0]
    return KeyOwner(key_id, tenant_id, tuple(scopes))
