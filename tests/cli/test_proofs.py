"""`hudhud demo`, `bench`, `chaos`: programs of the repository, started with what they need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Said

    Hudhud = Callable[..., Said]

PROGRAM = """
import json, os, pathlib, sys
told = {"words": sys.argv[1:], "url": os.environ.get("HUDHUD_DATABASE_URL")}
pathlib.Path("told.json").write_text(json.dumps(told))
sys.exit(int(pathlib.Path("code").read_text()))
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a repository whose programs tell what they were started with."""
    for package in ("examples/documents", "examples/refunds", "bench/engine", "bench/chaos"):
        directory = tmp_path / "repository" / package
        directory.mkdir(parents=True)
        (directory / "__main__.py").write_text(PROGRAM, "utf-8")
    root = tmp_path / "repository"
    (root / "code").write_text("0", "utf-8")
    monkeypatch.setattr("hudhud.cli.proofs.ROOT", root)
    return root


def told(repository: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((repository / "told.json").read_text("utf-8"))
    return found


def test_a_demo_is_played_on_the_database_that_is_named(
    hudhud: Hudhud, repository: Path, database: str
) -> None:
    assert hudhud("demo", "documents", "--json", "--database-url", database).code == 0
    assert told(repository) == {"words": ["--size", "short", "--json"], "url": database}


def test_a_demo_that_fails_fails(hudhud: Hudhud, repository: Path, database: str) -> None:
    (repository / "code").write_text("3", "utf-8")
    assert hudhud("demo", "--database-url", database).code == 1


def test_what_is_said_to_one_demo_is_not_said_to_the_others(
    hudhud: Hudhud, repository: Path, database: str
) -> None:
    words = ("--csv", str(repository / "my.csv"), "--seed", "7", "--database-url", database)
    assert hudhud("demo", *words).code == 0
    played = told(repository)["words"]
    assert played == ["--size", "short", "--csv", str(repository / "my.csv"), "--seed", "7"]
    said = hudhud("demo", "documents", *words)
    assert said.code == 2
    assert "for the demo refunds" in said.err


def test_both_demos_are_played_though_the_first_fails(
    hudhud: Hudhud, repository: Path, database: str
) -> None:
    (repository / "code").write_text("1", "utf-8")
    said = hudhud("demo", "--database-url", database)
    assert said.code == 1
    assert "demo documents" in said.err
    assert "demo refunds" in said.err


@pytest.mark.parametrize(
    ("words", "passed"),
    [
        (("bench", "drain", "--size", "full"), ["drain", "--size", "full"]),
        (("bench", "--json"), ["--size", "short", "--json"]),
        (("bench", "engine", "--short", "--json"), ["engine", "--size", "short", "--json"]),
        (("chaos", "--kills", "7", "--seed", "9"), ["--kills", "7", "--seed", "9"]),
    ],
)
@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_program_gets_its_options_and_gives_its_code(
    *, hudhud: Hudhud, repository: Path, words: tuple[str, ...], passed: list[str], code: int
) -> None:
    (repository / "code").write_text(str(code), "utf-8")
    assert hudhud(*words).code == code
    assert told(repository)["words"] == passed


def test_without_the_repository_it_is_said_where_they_are(
    hudhud: Hudhud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudhud.cli.proofs.ROOT", tmp_path)
    said = hudhud("chaos")
    assert said.code == 2
    assert "comes with the repository" in said.err
