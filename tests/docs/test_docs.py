"""What the documentation names exists, and what exists is documented."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import hudhud
from hudhud.config import Config, HttpConfig, WorkerConfig

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HOPS_MAX = 12
PUBLIC_NAMES_MAX = 25
_NUMBER = re.compile(r"R\d+ ")
_NO_SETTINGS = {"worker", "http", "origins"}


def test_every_hop_of_the_tour_exists() -> None:
    hops = re.findall(
        r"^\| (\d+) \| (?:`([^`]+)`|\*)", (DOCS / "tour.md").read_text(), re.MULTILINE
    )
    assert [int(number) for number, _ in hops] == list(range(1, len(hops) + 1))
    assert len(hops) <= HOPS_MAX
    for _, place in hops:
        if place:
            file, name = place.split(":")
            assert _defines(ROOT / file, name), place


def test_every_telemetry_event_is_documented_and_every_documented_one_is_emitted() -> None:
    table = (DOCS / "operating.md").read_text().split("## What a worker tells")[1].split("\n## ")[0]
    documented = {
        event
        for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
        for event in re.findall(r"`([a-z_]+\.[a-z_]+)`", row)
    }
    assert documented == _emitted()


def test_every_setting_is_documented_with_its_default() -> None:
    table = (DOCS / "operating.md").read_text().split("## Settings")[1].split("\n## ")[0]
    documented = dict(re.findall(r"^\| `([a-z_.]+)` \| ([^|]+?) \|", table, re.MULTILINE))
    known = {
        **{f.name: f.default for f in fields(Config) if f.name not in _NO_SETTINGS},
        **{f"worker.{f.name}": f.default for f in fields(WorkerConfig)},
        **{f"http.{f.name}": f.default for f in fields(HttpConfig)},
    }
    assert documented.keys() == known.keys()
    for key, default in known.items():
        if isinstance(default, (int, float)):
            assert float(documented[key]) == default, key


def test_the_public_names_are_few_and_each_is_documented() -> None:
    assert len(hudhud.__all__) <= PUBLIC_NAMES_MAX
    undocumented = [name for name in hudhud.__all__ if not getattr(hudhud, name).__doc__]
    assert undocumented == []


def test_the_codes_of_the_documentation_are_those_of_the_engine() -> None:
    text = (DOCS / "jobs.md").read_text().split("Codes of ours:")[1].split("\n\n")[0]
    documented = set(re.findall(r"`([a-z_]+)`", text))
    sources = [
        ROOT / "src/hudhud/errors.py",
        *ROOT.glob("src/hudhud/worker/*.py"),
        *ROOT.glob("src/hudhud/store/sql/**/*.sql"),
    ]
    everything = "\n".join(source.read_text() for source in sources)
    missing = {code for code in documented if not re.search(rf"""["']{code}["']""", everything)}
    assert missing == set()


def _emitted() -> set[str]:
    events: set[str] = set()
    for source in (ROOT / "src" / "hudhud").rglob("*.py"):
        events |= set(re.findall(r"\b(?:emit|span)\(\s*\"([a-z_.]+)\"", source.read_text()))
    return events


def _defines(file: Path, name: str) -> bool:
    text = file.read_text("utf-8")
    if file.suffix == ".sql":
        return f"function hudhud.{name}(" in text
    wanted = name.rsplit(".", maxsplit=1)[-1]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(
        isinstance(node, kinds) and node.name == wanted for node in ast.walk(ast.parse(text))
    )


def test_every_test_that_a_requirement_names_exists() -> None:
    lines = [
        line for line in (DOCS / "requirements.md").read_text().splitlines() if _NUMBER.match(line)
    ]
    assert lines
    for line in lines:
        places = re.findall(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`", line)
        assert places, line[:60]
        for file, name in places:
            assert _defines(ROOT / file, name), f"{file}::{name}"
