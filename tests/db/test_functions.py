"""The files of the functions: one each, with a head that tells the truth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from hudhud.store import migrate
from tests.support.server import ROOT

if TYPE_CHECKING:
    from tests.support.verbs import Verbs

PACKAGE = ROOT / "src" / "hudhud"
FINAL = {"succeed", "fail", "cancel"}
_CREATE = re.compile(r"create or replace (function|view) hudhud\.(\w+)")
_CALL = re.compile(r"hudhud\.(\w+)\s*\(")
_WRITE = re.compile(r"(?:insert into|update|delete from) hudhud\.(\w+)")
# Callers too many to be listed are named by what they have in common.
_ANY_CALLER = re.compile(r"whatever|every verb")


@dataclass(frozen=True)
class File:
    """A function's or view's file, cut into its head and its body."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return self.path.removesuffix(".sql").rsplit("/", 1)[-1]

    @cached_property
    def head(self) -> str:
        """The comment at the top, as one line."""
        lines = self.text[: self.text.index("create or replace")].splitlines()
        return " ".join(line.removeprefix("--").strip() for line in lines)

    @cached_property
    def body(self) -> str:
        """The statement without its comments."""
        return re.sub(r"--.*", "", self.text[self.text.index("create or replace") :])

    def told(self, word: str) -> str:
        """Return what the head says after a word: `Called by: claim, stage.` and the like."""
        parts = re.split(
            r"\b(Parameters|Returns|Raises|Touches|Locks|Called by)\b[^:]*:", self.head
        )
        return " ".join(
            text for key, text in zip(parts[1::2], parts[2::2], strict=True) if key == word
        )


FILES = {file.name: file for file in (File(s.path, s.text) for s in migrate.functions())}
EACH = pytest.mark.parametrize("file", FILES.values(), ids=list(FILES))


def callers(name: str) -> set[str]:
    return {
        file.name
        for file in FILES.values()
        if name in _CALL.findall(file.body) and file.name != name
    }


@EACH
def test_a_file_holds_one_function_or_view_of_its_own_name(file: File) -> None:
    assert [name for _, name in _CREATE.findall(file.text)] == [file.name]


@EACH
def test_a_file_begins_with_its_purpose(file: File) -> None:
    first = file.text.splitlines()[0]
    assert first.startswith("-- ")
    assert len(first) > 20
    assert file.head.rstrip().endswith(".")


@EACH
def test_callers_that_a_head_names_exist_and_call_it(file: File) -> None:
    told = file.told("Called by")
    for path in re.findall(r"[\w/]+\.py", told):
        assert (PACKAGE / path).is_file(), path
    named = {word for word in re.findall(r"\w+", told) if word in FILES}
    for word in re.findall(r"\b[a-z]+_[a-z_]+\b", re.sub(r"[\w/]+\.py|`[^`]*`", "", told)):
        assert word in FILES, word
    if told and callers(file.name) and not _ANY_CALLER.search(told):
        assert named == callers(file.name)


@EACH
def test_a_function_that_only_others_call_says_who(file: File) -> None:
    is_public = "security definer" in file.body or file.path.startswith(
        ("base/", "views/", "history/")
    )
    if not is_public:
        assert file.told("Called by")


@EACH
def test_tables_that_a_function_writes_are_named_in_its_head(file: File) -> None:
    written = {name for name in _WRITE.findall(file.body) if name not in FILES}
    told = set(re.findall(r"\w+", file.told("Touches")))
    assert written <= told


@EACH
def test_tables_that_a_head_names_exist(db: Verbs, file: File) -> None:
    words = set(re.findall(r"\b[a-z]+_[a-z_]+\b", file.told("Touches")))
    tables = set(
        db.values("select relname from pg_class where relnamespace = 'hudhud'::regnamespace")
    )
    assert words <= tables | set(FILES)


def test_every_function_of_the_database_has_its_file(db: Verbs) -> None:
    known = db.values(
        "select proname from pg_proc where pronamespace = 'hudhud'::regnamespace"
        " union all select relname from pg_class"
        " where relnamespace = 'hudhud'::regnamespace and relkind = 'v'"
    )
    assert sorted(known) == sorted(FILES)


def test_instants_come_from_the_one_clock() -> None:
    """A04. The real clock is for what time itself limits: ids, days, hints, sessions."""
    real = {file.name for file in FILES.values() if "clock_timestamp()" in file.body}
    allowed = {"clock", "new_id", "enqueue", "publish", "wake", "mark_busy", "mark_relay"}
    allowed |= {"make_partitions", "days_ahead", "relay_stalls"}
    assert real <= allowed
    loose = r"\bnow\(\)|current_timestamp|current_date|localtime|statement_timestamp"
    assert not [file.name for file in FILES.values() if re.search(loose, file.body)]


@EACH
def test_what_must_use_an_index_is_never_compiled(file: File) -> None:
    """Before PostgreSQL 18 a scan that is off costs 1e10, and for that each plan was compiled.

    Of `enqueue` each setting costs one part in a hundred, and all it reads it finds by a primary
    key: no plan of it is dear enough.
    """
    is_compiled = file.name != "enqueue" and "set jit = off" not in file.body
    assert ("set enable_seqscan = off" in file.body) is not is_compiled


def test_final_outcomes_are_the_same_everywhere() -> None:
    """A55: wherever SQL lists them, it lists those that the retention knows."""
    texts = {file.path: file.body for file in FILES.values()}
    texts |= {
        path.name: path.read_text("utf-8") for path in (PACKAGE / "store/sql/reads").iterdir()
    }
    lists = {
        (path, tuple(re.findall(r"'(\w+)'", listed)))
        for path, text in texts.items()
        for listed in re.findall(r"\bin \(('succeed'[^)]*)\)", text)
    }
    assert len(lists) > 5
    longer = {(path, names) for path, names in lists if set(names) != FINAL}
    assert {path for path, _ in longer} == {"runs/settle_runs.sql"}
    assert set(re.findall(r"when '(\w+)'", FILES["retention"].body)) == FINAL


@EACH
def test_no_function_reads_the_row_of_a_sequence_that_it_relies_on(file: File) -> None:
    """It shows for an instant what `nextval` logs ahead; `pg_sequence_last_value` does not."""
    assert "from hudhud.event_position" not in file.body
