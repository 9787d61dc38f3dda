"""What a document holds: pages, words, characters, and which language it seems to be in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import py3langid  # type: ignore[import-untyped] # it has no stubs
from pypdf import PdfReader
from pypdf.errors import PyPdfError

if TYPE_CHECKING:
    from pathlib import Path

GUESS_CHARACTERS_MAX = 5_000
PAGES_MAX = 2_000
# Apostrophes and the zero-width non-joiner stand inside words.
_WORD = re.compile(r"\w+(?:['\u2019\u200c]\w+)*")


class UnreadableError(Exception):
    """The file can never be analysed, however often it is tried.

    Attributes:
        code: Why, as a word that groups: `broken_pdf`, `encrypted_pdf`, `not_text`, `empty`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was found; `language` is an ISO 639-1 code, or None when there is too little text."""

    pages: int
    words: int
    characters: int
    language: str | None

    def as_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {
            "pages": self.pages,
            "words": self.words,
            "characters": self.characters,
            "language": self.language,
        }


def analyse(path: Path) -> Analysis:
    """Analyse a PDF or a text in UTF-8.

    Raises:
        UnreadableError: It is neither, or broken, or locked.
    """
    with path.open("rb") as file:
        is_pdf = file.read(1024).lstrip().startswith(b"%PDF-")
    texts = _pages_of_pdf(path) if is_pdf else [_text(path)]
    whole = "\n".join(texts)
    if not whole.strip():
        code = "empty"
        message = "There is no text in it."
        raise UnreadableError(code, message)
    return Analysis(len(texts), len(_WORD.findall(whole)), len(whole), _language(whole))


def _pages_of_pdf(path: Path) -> list[str]:
    try:
        reader = PdfReader(path, strict=False)
        if reader.is_encrypted:
            code = "encrypted_pdf"
            message = "It is locked with a password."
            raise UnreadableError(code, message)
        return [page.extract_text() for page in reader.pages[:PAGES_MAX]]
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        # A broken file makes the reader fail in any of these ways.
        code = "broken_pdf"
        message = f"The PDF cannot be read: {error}"
        raise UnreadableError(code, message) from error


def _text(path: Path) -> str:
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        code = "not_text"
        message = f"It is neither a PDF nor text in UTF-8: {error.reason} at byte {error.start}"
        raise UnreadableError(code, message) from error
    if "\0" in text:
        code = "not_text"
        message = "It is neither a PDF nor text: it holds zero bytes"
        raise UnreadableError(code, message)
    return text


def _language(text: str) -> str | None:
    sample = " ".join(text[:GUESS_CHARACTERS_MAX].split())
    if len(_WORD.findall(sample)) < 3:  # noqa: PLR2004 - one or two words say nothing
        return None
    language, _ = py3langid.classify(sample)
    return str(language)
