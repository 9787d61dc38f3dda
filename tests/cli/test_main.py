"""The entry: codes that scripts can use, one clear line for an error, nothing loaded in vain."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hudhud.cli import main as entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import typer

    from tests.cli.conftest import Said
    from tests.support.verbs import Verbs

    Hudhud = Callable[..., Said]

AWAY = "host=127.0.0.1 port=1 user=nobody dbname=nothing"


def test_the_help_names_every_command_with_its_line(hudhud: Hudhud) -> None:
    said = hudhud("--help")
    assert said.code == 0
    for name, command in entry.COMMANDS.items():
        assert f"  {name}" in said.out
        assert command.help in said.out


@pytest.mark.parametrize("name", list(entry.COMMANDS))
def test_every_command_can_be_loaded_and_explains_itself(hudhud: Hudhud, name: str) -> None:
    said = hudhud(name, "--help")
    assert (said.code, said.err) == (0, "")
    assert f"Usage: hudhud {name}" in said.out
    assert "None" not in said.out


def test_the_version_is_printed(hudhud: Hudhud) -> None:
    assert hudhud("--version").out.strip().count(".") == 2


@pytest.mark.usefixtures("verbs")
def test_0_is_done(hudhud: Hudhud) -> None:
    assert hudhud("jobs", "list").code == 0


@pytest.mark.usefixtures("verbs")
def test_1_is_failed_with_one_line(hudhud: Hudhud) -> None:
    said = hudhud("jobs", "show", "0199c0de-0000-7000-8000-000000000000")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("hudhud: There is no such job")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "list", "--status", "done"),
        ("jobs", "list", "--limit", "0"),
        ("jobs", "show", "x"),
        ("jobs", "reschedule", "0199c0de-0000-7000-8000-000000000000", "--at", "2027-01-15T08:00"),
        ("dead", "resubmit", "0199c0de-0000-7000-8000-000000000000"),
        ("nothing",),
        ("demo", "nothing"),
        ("worker", "--processes", "0"),
    ],
)
@pytest.mark.usefixtures("verbs")
def test_2_is_wrong_use(hudhud: Hudhud, words: tuple[str, ...]) -> None:
    said = hudhud(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err


def test_2_is_no_database_named(hudhud: Hudhud) -> None:
    said = hudhud("jobs", "list")
    assert said.code == 2
    assert "HUDHUD_DATABASE_URL" in said.err


def test_2_is_a_wrong_setting_with_the_nearest_name(
    hudhud: Hudhud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDHUD_DATABASE_URI", "x")
    said = hudhud("jobs", "list")
    assert said.code == 2
    assert "HUDHUD_DATABASE_URL" in said.err


ID = "0199c0de-0000-7000-8000-000000000000"
CONNECTING = [
    ("up",),
    ("serve",),
    ("worker", "shop:app"),
    ("worker", "shop:app", "--processes", "2"),
    ("migrate",),
    ("migrate", "--check"),
    ("doctor",),
    ("jobs", "list"),
    ("jobs", "cancel", ID),
    ("dead",),
    ("replay", ID, "--reason", "x"),
    ("keys", "list"),
    ("types",),
    ("demo",),
]


@pytest.mark.parametrize("words", CONNECTING, ids=" ".join)
@pytest.mark.parametrize("variable", ["HUDHUD_DATABASE_URL", "HUDHUD_DIRECT_URL"])
def test_2_is_an_address_that_is_none(
    *, hudhud: Hudhud, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], variable: str
) -> None:
    monkeypatch.setenv("HUDHUD_DATABASE_URL", AWAY)
    monkeypatch.setenv(variable, "mysql://u:hunter2@h/x")
    said = hudhud(*words)
    assert (said.code, said.out) == (2, "")
    assert f"({variable}) is no address of a PostgreSQL" in said.err
    assert said.err.count("\n") == 1
    assert "hunter2" not in said.err


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "postgresql://u:%hunter2@h/x",
        "postgresql://u:hunter2/3@h/x",
        "postgresql://u:a@hunter2@h/x",
        "postgresql://u:p@h/x?hunter2=1",
        "host=h hunter2",
    ],
)
@pytest.mark.parametrize("words", [("jobs", "list"), ("bench",)])
def test_an_address_that_is_none_is_not_shown(
    hudhud: Hudhud, words: tuple[str, ...], url: str
) -> None:
    """A password whose /, @ or % is not escaped is no host or port to complain about."""
    said = hudhud(*words, "--database-url", url)
    assert (said.code, said.out) == (2, "")
    assert "is no address of a PostgreSQL" in said.err
    assert "hunter2" not in said.err


def test_an_address_that_is_none_may_be_the_applications(
    hudhud: Hudhud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "misled.py").write_text(
        "from hudhud import Context, Hudhud\n"
        "app = Hudhud('mysql://u:hunter2@h/x')\n"
        "@app.handler('quick')\n"
        "async def quick(ctx: Context) -> None: ...\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    said = hudhud("worker", "misled:app")
    assert said.code == 2
    assert "(misled:app) is no address of a PostgreSQL" in said.err
    assert "hunter2" not in said.err


@pytest.mark.parametrize(
    "words", [("jobs", "list"), ("migrate",), ("doctor",), ("keys", "list"), ("dead",)]
)
def test_3_is_a_database_that_does_not_answer(hudhud: Hudhud, words: tuple[str, ...]) -> None:
    said = hudhud(*words, "--database-url", AWAY)
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith("hudhud: The database does not answer: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("words", [("jobs", "list"), ("keys", "create", "x"), ("dead",)])
def test_4_is_a_database_without_our_schema(
    hudhud: Hudhud, verbs: Verbs, words: tuple[str, ...]
) -> None:
    verbs.connection.execute("drop schema hudhud cascade")
    said = hudhud(*words)
    assert (said.code, said.out) == (4, "")
    assert "hudhud migrate" in said.err
    assert said.err.count("\n") == 1


def test_a_command_without_its_extra_says_which(
    hudhud: Hudhud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "hudhud.cli.serve", raising=False)
    said = hudhud("serve")
    assert said.code == 2
    assert "pip install 'hudhud[api]'" in said.err


def test_a_command_loads_no_other_command_and_no_web() -> None:
    heavy = {"fastapi", "starlette", "uvicorn", "pydantic", "prometheus_client", "rich", "jinja2"}
    others = {"hudhud.cli.serve", "hudhud.cli.up", "hudhud.cli.jobs", "hudhud.asgi"}
    program = (
        "import sys; from hudhud.cli.main import build; build('worker');"
        f"print(sorted(({heavy!r} | {others!r}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_shell_can_complete_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        environment = {
            **os.environ,
            "_HUDHUD_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        done = subprocess.run(
            [sys.executable, "-m", "hudhud.cli.main"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.split()

    assert {"jobs", "keys"} <= set(completed("hudhud "))
    assert {"list", "show", "cancel", "run-now", "reschedule"} <= set(completed("hudhud jobs "))
    assert "--status" in completed("hudhud jobs list --st")


def test_a_fault_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str | None) -> typer.Typer:
        message = "a fault"
        raise RuntimeError(message)

    monkeypatch.setattr(entry, "build", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        entry.main(["jobs"])
