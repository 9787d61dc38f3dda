"""What a document holds: pages, words, characters, and which language it seems to be in.

A file from outside may keep a reader busy for hours or fill the memory. So it is read in a process
of its own, with limits on both (`python -m examples.documents.analysis FILE`): a file that breaks
them is refused, and the worker and its neighbours never notice.
"""

from __future__ import annotations

import codecs
import json
import logging
import re
import resource
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import py3langid  # type: ignore[import-untyped] # it has no stubs
from pypdf import PdfReader
from pypdf.errors import DependencyError, LimitReachedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT: Final = Path(__file__).parents[2]
READ_SECONDS_MAX: Final = 45.0  # below the handler's own limit
READ_BYTES_MAX: Final = 2 * 1024**3  # of memory
GUESS_CHARACTERS_MAX: Final = 5_000
GUESS_WORDS_MIN: Final = 3  # one or two words say nothing
# Apostrophes and the zero-width non-joiner stand inside words.
_WORD: Final = re.compile(r"\w+(?:['\u2019\u200c]\w+)*")
# Text that is not UTF-8 says so itself, if it is honest.
_MARKS: Final = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class Reason(StrEnum):
    """Why a file can never be analysed; the words are for grouping, the values are stored."""

    EMPTY = "empty"
    NOT_TEXT = "not_text"
    BROKEN_PDF = "broken_pdf"
    ENCRYPTED_PDF = "encrypted_pdf"
    TOO_COMPLEX = "too_complex"


class UnreadableError(Exception):
    """The file can never be analysed, however often it is tried."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason.value)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was found; `language` is an ISO 639-1 code, or None when there is too little text."""

    pages: int
    words: int
    characters: int
    language: str | None

    def as_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return asdict(self)


def analyse_apart(path: Path, *, seconds_max: float = READ_SECONDS_MAX) -> Analysis:
    """Analyse a file in a process of its own.

    Args:
        path: A PDF or a text.
        seconds_max: What it may take.

    Raises:
        UnreadableError: The file is neither, or broken, or locked, or asks for too much.
        RuntimeError: The process died of something else; it may be tried again.
    """
    command = [sys.executable, "-m", "examples.documents.analysis", str(path.absolute())]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, timeout=seconds_max, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnreadableError(Reason.TOO_COMPLEX, f"more than {seconds_max:g} s") from error
    if ended.returncode == -signal.SIGXCPU:
        raise UnreadableError(Reason.TOO_COMPLEX, "too much of the processor's time")
    if ended.returncode != 0:
        last_words = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
        message = f"the reading process ended with {ended.returncode}: {' '.join(last_words)}"
        raise RuntimeError(message)
    found = json.loads(ended.stdout)
    if "reason" in found:
        raise UnreadableError(Reason(found["reason"]), found["detail"])
    return Analysis(**found)


def analyse(path: Path) -> Analysis:
    """Analyse a PDF, or a text in UTF-8 or in what its byte order mark says.

    Raises:
        UnreadableError: It is neither, or broken, or locked.
    """
    with path.open("rb") as file:
        is_pdf = file.read(1024).lstrip().startswith(b"%PDF-")
    texts = _pages_of_pdf(path) if is_pdf else [_text(path)]
    if not any(text.strip() for text in texts):
        raise UnreadableError(Reason.EMPTY)
    words = sum(1 for text in texts for _ in _WORD.finditer(text))
    characters = sum(map(len, texts)) + len(texts) - 1
    return Analysis(len(texts), words, characters, _language(texts))


def main() -> int:
    """Analyse the file that is named, within limits, and print what was found as JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (READ_BYTES_MAX, READ_BYTES_MAX))
    # Should the worker die meanwhile, nobody else would end this.
    seconds = round(READ_SECONDS_MAX) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    logging.disable(logging.CRITICAL)  # what pypdf mends in silence is nobody's news
    try:
        found = analyse(Path(sys.argv[1])).as_json()
    except UnreadableError as error:
        found = {"reason": error.reason, "detail": error.detail}
    except MemoryError:
        found = {"reason": Reason.TOO_COMPLEX, "detail": "too much memory"}
    print(json.dumps(found))
    return 0


def _pages_of_pdf(path: Path) -> list[str]:
    try:
        return _read_pdf(path)
    except (UnreadableError, OSError, MemoryError):
        raise
    except DependencyError as error:
        raise UnreadableError(Reason.ENCRYPTED_PDF, str(error)) from error
    except LimitReachedError as error:
        raise UnreadableError(Reason.TOO_COMPLEX, str(error)) from error
    except Exception as error:  # a broken file makes the reader fail in any way
        raise UnreadableError(Reason.BROKEN_PDF, f"{type(error).__name__}: {error}") from error


def _read_pdf(path: Path) -> list[str]:
    reader = PdfReader(path, strict=False)
    # Many files are locked against changes only: the empty password opens them.
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError(Reason.ENCRYPTED_PDF)
    return [page.extract_text() for page in reader.pages]


def _text(path: Path) -> str:
    content = path.read_bytes()
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), None)
    try:
        text = content.decode(encoding or "utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"{error.reason} at byte {error.start}"
        raise UnreadableError(Reason.NOT_TEXT, where) from error
    if "\0" in text:
        raise UnreadableError(Reason.NOT_TEXT, "zero bytes")
    return text


def _language(texts: Iterable[str]) -> str | None:
    """Guess by the beginning; what a PDF's odd fonts turn into lone surrogates is left out."""
    sample = ""
    for text in texts:
        sample += " ".join(text[:GUESS_CHARACTERS_MAX].split()) + " "
        if len(sample) > GUESS_CHARACTERS_MAX:
            break
    sample = sample[:GUESS_CHARACTERS_MAX].encode(errors="ignore").decode()
    if len(_WORD.findall(sample)) < GUESS_WORDS_MIN:
        return None
    classify: Callable[[str], tuple[str, float]] = cast("Any", py3langid).classify
    return classify(sample)[0]


if __name__ == "__main__":
    sys.exit(main())
