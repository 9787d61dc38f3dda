"""Laws of docs/testing.md: it names everything public, and its examples are Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import hudhud.testing

TEXT = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")


def test_every_public_name_is_documented() -> None:
    words = set(re.findall(r"\w+", TEXT))
    assert set(hudhud.testing.__all__) <= words


def test_the_examples_are_python_and_import_what_there_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) >= 6
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module == "hudhud.testing":
                assert all(hasattr(hudhud.testing, name.name) for name in node.names)


def test_every_section_that_the_table_points_to_exists() -> None:
    headings = {
        heading.lower().replace(" ", "-").replace(",", "")
        for heading in re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    }
    assert set(re.findall(r"\(#([\w-]+)\)", TEXT)) <= headings
