"""Who is calling: API keys, their tenant and their scopes."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudhud.domain import api_key
from hudhud.store import keys
from hudhud.web.problems import Problem, ProblemError

if TYPE_CHECKING:
    from uuid import UUID

    from hudhud.web.database import Database

CACHE_SECONDS = 5.0
"""How long a checked key is believed: a revoked key stops within this time."""
CACHE_KEYS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a valid key.

    Attributes:
        key_id: The key's public id.
        tenant_id: The tenant that binds every statement of this request.
        scopes: Some of `enqueue publish read operate approve`.
    """

    key_id: UUID
    tenant_id: str
    scopes: frozenset[str]

    @property
    def actor(self) -> str:
        """The name under which the audit records what this caller does."""
        return f"key:{self.key_id}"


class Keys:
    """Checks keys against the database and believes the answer for a few seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[bytes, tuple[float, Caller]] = {}

    async def caller(self, authorization: str) -> Caller:
        """Return the caller that an Authorization header stands for.

        Raises:
            ProblemError: 401 when the header is missing or malformed, or the key is unknown or
                revoked; which of these it was is not said.
        """
        scheme, _, text = authorization.partition(" ")
        key = api_key.parse(text.strip())
        if scheme.lower() != "bearer" or key is None:
            raise _unauthorized()
        found = await self._find(api_key.secret_hash(key.secret))
        if found is None or not hmac.compare_digest(found.key_id.bytes, key.id.bytes):
            raise _unauthorized()
        return found

    async def _find(self, digest: bytes) -> Caller | None:
        now = asyncio.get_running_loop().time()
        until, caller = self._known.get(digest, (0.0, None))
        if caller is not None and now < until:
            return caller
        self._known.pop(digest, None)
        owner = await self._database.call(keys.check_key(digest))
        if owner is None:
            return None
        caller = Caller(owner.key_id, owner.tenant_id, frozenset(owner.scopes))
        self._remember(digest, now, caller)
        return caller

    def _remember(self, digest: bytes, now: float, caller: Caller) -> None:
        if len(self._known) >= CACHE_KEYS_MAX:
            self._known.pop(next(iter(self._known)))
        self._known[digest] = (now + CACHE_SECONDS, caller)


def denied(scope: str) -> ProblemError:
    """Return the 403 for a valid key that lacks a scope."""
    return ProblemError(
        Problem(
            status=403,
            code="scope_missing",
            detail=f"This key lacks the scope {scope}. Make one that has it: hudhud keys create.",
        )
    )


def _unauthorized() -> ProblemError:
    return ProblemError(
        Problem(
            status=401,
            code="unauthorized",
            detail="Send a valid API key: Authorization: Bearer hk_<id>_<secret>.",
            headers={"www-authenticate": 'Bearer realm="hudhud"'},
        )
    )
