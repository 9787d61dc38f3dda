"""API keys as text: `hk_<id>_<secret>`, and the hash by which the database knows a secret.

`id` is the public half (32 hexadecimal digits, for lists and revocation), `secret` is 256 random
bits in base64url. The database keeps the SHA-256 of the secret: at 256 random bits a slow hash
would add nothing but load, and nobody can steer a hash, so a look-up by it tells a stranger
nothing by its time.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Sequence

SCOPES: Sequence[str] = ("enqueue", "publish", "read", "operate", "approve")
SECRET_BYTES = 32

_FORM = re.compile(r"hk_([0-9a-f]{32})_([A-Za-z0-9_-]{43})", re.ASCII)


class ApiKey(NamedTuple):
    """A key taken apart."""

    id: UUID
    secret: str


def parse(text: str) -> ApiKey | None:
    """Return a key's two halves, None when the text is no key."""
    found = _FORM.fullmatch(text)
    return ApiKey(UUID(found[1]), found[2]) if found else None


def new_secret() -> str:
    """Return a new secret: 256 bits of the system's random source as 43 characters."""
    return secrets.token_urlsafe(SECRET_BYTES)


def secret_hash(secret: str) -> bytes:
    """Return the 32 bytes by which the database knows a secret."""
    return hashlib.sha256(secret.encode("ascii")).digest()


def key_text(key_id: UUID, secret: str) -> str:
    """Return the key as its holder keeps it; shown once, when it is made."""
    return f"hk_{key_id.hex}_{secret}"
