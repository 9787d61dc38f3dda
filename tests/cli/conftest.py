"""The command line called in this process, on a database of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from hudhud.cli.main import main
from tests.support.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass
class Said:
    """What a call of the command line came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document that was printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines that were printed."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def hudhud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Said]:
    """Give the command line, `hudhud("jobs", "list")`, without any configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUDHUD_EMBEDDED_DIRECTORY", str(tmp_path / "embedded"))

    def call(*words: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        code = ended.value.code
        out, err = capsys.readouterr()
        return Said(code if isinstance(code, int) else 0, out, err)

    return call


@pytest.fixture
def verbs(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Verbs]:
    """Give the verbs on a database of its own, which the command line uses too."""
    monkeypatch.setenv("HUDHUD_DATABASE_URL", database)
    with psycopg.connect(database, autocommit=True, prepare_threshold=None) as connection:
        yield Verbs(connection)
