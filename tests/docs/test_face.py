"""docs/http.md and docs/commands.md name what there is: routes, problems, metrics, commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from hudhud import config
from hudhud.asgi import create_app
from hudhud.cli import main as entry
from hudhud.cli.supervisor import RESTART
from hudhud.domain.api_key import SCOPES

ROOT = Path(__file__).parents[2]
HTTP = (ROOT / "docs" / "http.md").read_text("utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text("utf-8")


def test_every_route_is_documented() -> None:
    app = create_app(config.load(env={}, arguments={"database_url": "host=nowhere"}))
    for path, methods in app.openapi()["paths"].items():
        short = path.replace("{job_id}", "{id}").replace("{event_id}", "{id}")
        for method in methods:
            assert f"`{method.upper()} {short}`" in HTTP or f"`{short}`" in HTTP, (method, path)


def test_every_problem_is_documented() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src/hudhud/web").glob("*.py"))
    raised = set(re.findall(r"code=\"(\w+)\"", source))
    raised |= set(re.findall(r"\(\d{3}, \"(\w+)\"", source))
    raised |= set(re.findall(r"\d{3}: \(\"(\w+)\"", source)) | {"http_error"}
    table = HTTP.split("## Problems")[1].split("\n## ")[0]
    documented = set(re.findall(r"`([a-z_]+)`", table)) - {"type", "errors"}
    assert documented == raised


def test_every_metric_is_documented() -> None:
    source = (ROOT / "src/hudhud/web/metrics.py").read_text("utf-8")
    told = set(re.findall(r"\"(hudhud_\w+)\"", source))
    documented = {name.removesuffix("_total") for name in re.findall(r"`(hudhud_\w+)", HTTP)}
    assert told <= documented


def test_every_scope_is_documented() -> None:
    assert all(f"`{scope}`" in HTTP for scope in SCOPES)


@pytest.mark.parametrize("name", list(entry.COMMANDS))
def test_every_command_is_documented(name: str) -> None:
    assert re.search(rf"`(hudhud )?{name}\b", COMMANDS)
    command = typer.main.get_command(entry.build(name)).commands[name]  # type: ignore[attr-defined]
    for subcommand in getattr(command, "commands", {}):
        assert re.search(rf"`(hudhud {name} )?{subcommand}\b", COMMANDS), (name, subcommand)


def test_every_exit_code_is_documented() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", COMMANDS, re.MULTILINE)}
    assert codes == {0, entry.FAILED, entry.USAGE, entry.AWAY, entry.SCHEMA, RESTART}
