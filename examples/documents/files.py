"""Where the bytes are: files named by what they hold, beside the database."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in the store: its key, and the SHA-256 of its bytes in hexadecimal."""

    key: str
    sha256: str


def directory() -> Path:
    """Return the store's directory: `DOCUMENTS_DIRECTORY`, or one under the temporary files."""
    chosen = os.environ.get("DOCUMENTS_DIRECTORY")
    place = Path(chosen) if chosen else Path(tempfile.gettempdir()) / "hudhud-documents"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def put(content: bytes) -> Stored:
    """Keep bytes, durably and once; the same bytes have the same key."""
    sha256 = hashlib.sha256(content).hexdigest()
    place = directory() / sha256
    if not place.exists():
        with tempfile.NamedTemporaryFile(dir=directory(), delete=False) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).rename(place)
    return Stored(sha256, sha256)


def path_of(stored: Stored) -> Path:
    """Return where a file is.

    Raises:
        ValueError: It does not hold what it was stored with.
    """
    place = directory() / stored.key
    with place.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != stored.sha256:
        message = f"{stored.key} holds something else than was stored."
        raise ValueError(message)
    return place
