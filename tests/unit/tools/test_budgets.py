"""The budgets' script names what outgrows the house, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools import budgets

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = tmp_path / "src"
    (source / "hudhud" / "store").mkdir(parents=True)
    monkeypatch.setattr(budgets, "SOURCE", source)
    return source


def module(source: Path, name: str, text: str) -> budgets.Module:
    path = source / "hudhud" / f"{name}.py"
    path.write_text(text, "utf-8")
    return budgets.read(path)


def test_a_module_over_its_lines_is_named(source: Path) -> None:
    assert not list(budgets.too_long(module(source, "fits", "x = 1\n" * 400)))
    over = list(budgets.too_long(module(source, "over", "x = 1\n" * 401)))
    assert over == ["src/hudhud/over.py:1: 401 lines, over 400"]


def test_a_function_over_its_lines_is_named_wherever_it_stands(source: Path) -> None:
    text = "class A:\n    async def f(self):\n" + "        x = 1\n" * 50
    over = list(budgets.too_long(module(source, "over", text)))
    assert over == ["src/hudhud/over.py:2: f has 51 lines, over 50"]


def test_a_docstring_is_not_counted(source: Path) -> None:
    text = 'def f():\n    """One.\n' + "    more\n" * 60 + '    """\n    return 1\n'
    assert not list(budgets.too_long(module(source, "fits", text)))


@pytest.mark.parametrize(
    "text",
    [
        'x = "select id from hudhud.job"',
        'x = f"insert into {table} values (1)"',
        'x = "UPDATE hudhud.job SET type = 1"',
        'x = "\\n  with due as (select 1) delete from x"',
        'x = b.execute("drop table x")',
        'x = "create or replace function f()"',
    ],
)
def test_sql_outside_the_store_is_named(source: Path, text: str) -> None:
    assert list(budgets.sql_outside_store(module(source, "worker", text)))
    assert not list(budgets.sql_outside_store(module(source, "store/jobs", text)))


@pytest.mark.parametrize(
    "text",
    [
        '"""Select the jobs from a queue."""',
        'x = "Update the lock, then set it free."',
        'x = "listen hudhud"',
        'x = "with care"',
        'def f():\n    """Delete from the list."""',
    ],
)
def test_prose_is_not_taken_for_sql(source: Path, text: str) -> None:
    assert not list(budgets.sql_outside_store(module(source, "worker", text)))


@pytest.mark.parametrize(
    "back",
    [
        "from hudhud.a import x",
        "import hudhud.a",
        "from hudhud import a",
        "def f():\n    from hudhud import a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hudhud.a import x",
    ],
)
def test_every_kind_of_import_cycle_is_named(source: Path, back: str) -> None:
    modules = [module(source, "a", "from hudhud import b"), module(source, "b", back)]
    assert budgets.cycles(modules) in (
        ["import cycle: hudhud.a -> hudhud.b -> hudhud.a"],
        ["import cycle: hudhud.b -> hudhud.a -> hudhud.b"],
    )


def test_imports_downwards_are_no_cycle(source: Path) -> None:
    modules = [module(source, "a", "from hudhud.b import x"), module(source, "b", "import re")]
    assert not budgets.cycles(modules)


def test_the_script_fails_on_a_broken_budget_and_says_which(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module(source, "fine", "x = 1\n")
    assert budgets.main() == 0
    module(source, "over", "x = 1\n" * 401)
    assert budgets.main() == 1
    assert "src/hudhud/over.py:1: 401 lines, over 400" in capsys.readouterr().out
