"""hudhud.store.reads: every file of sql/reads, in every driver's style."""

from __future__ import annotations

from importlib import resources

import pytest

from hudhud.store import reads
from hudhud.store.reads import Read

FILES = sorted(
    file.name.removesuffix(".sql")
    for file in (resources.files("hudhud.store") / "sql" / "reads").iterdir()
    if file.name.endswith(".sql")
)


@pytest.mark.parametrize("name", FILES)
def test_every_read_has_no_percent_sign_but_its_parameters(name: str) -> None:
    read = Read(name, dict.fromkeys(reads.parameters(name)))
    assert "%" not in read.sql(lambda number, _: f"${number}")


@pytest.mark.parametrize("name", FILES)
def test_every_read_says_what_it_is_for(name: str) -> None:
    assert reads.text(name).startswith("-- ")


def test_a_parameter_that_is_used_twice_is_one_value() -> None:
    read = Read("job_status", {"id": 7, "tenant_id": "a", "more": 1})
    text = read.sql(lambda number, name: f"<{number}:{name}>")
    assert "<1:id>::uuid" in text
    assert text.count("<2:tenant_id>") == 2
    assert read.values == [7, "a"]
    assert read.named == {"id": 7, "tenant_id": "a"}


def test_a_parameter_that_is_not_given_is_our_own_mistake() -> None:
    with pytest.raises(KeyError, match="tenant_id"):
        _ = Read("job_status", {"id": 7}).named


def test_rows_become_dicts_by_column_name() -> None:
    read = Read("job_status", {})
    assert read.answer([(1, "a"), (2, "b")], iter(["id", "type"])) == [
        {"id": 1, "type": "a"},
        {"id": 2, "type": "b"},
    ]
