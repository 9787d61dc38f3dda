"""The ledger outside acts by key, keeps what it did, and behaves as badly as its seed says."""

from __future__ import annotations

import json
import socket
from collections import Counter
from typing import TYPE_CHECKING

from bench.chaos.bookkeeper import Bookkeeper, Manners
from bench.chaos.ledger import Ledger, Manner

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WHO = {"worker": 1, "pid": 2, "job_id": "3", "run": 4, "asked_at": 5.0}


def ask(book: Bookkeeper, call: Mapping[str, object]) -> object:
    with (
        socket.create_connection(("127.0.0.1", book.port), 10) as plug,
        plug.makefile("rb") as reader,
    ):
        plug.sendall(json.dumps(call).encode() + b"\n")
        line = reader.readline()
    return json.loads(line) if line else None


def test_what_was_acted_upon_is_in_the_journal_and_can_be_found(tmp_path: Path) -> None:
    with Bookkeeper(tmp_path, Manners(share=0), seed=1) as book:
        assert ask(book, {"find": "a"}) == {"entries": []}
        assert ask(book, {"act": "a", "who": WHO}) == {"entry": 1}
        assert ask(book, {"find": "a"}) == {"entries": [1]}
        (act,) = book.acts()
        assert (act.entry, act.key, act.worker, act.run, act.is_repeat) == (1, "a", 1, 4, False)


def test_one_that_knows_nothing_again_acts_each_time(tmp_path: Path) -> None:
    with Bookkeeper(tmp_path, Manners(share=0), seed=1) as book:
        answers = [ask(book, {"act": "a", "who": WHO}) for _ in "abc"]
        assert answers == [{"entry": 1}, {"entry": 2}, {"entry": 3}]
        assert [act.entry for act in book.acts()] == [1, 2, 3]


def test_one_that_deduplicates_answers_with_the_first(tmp_path: Path) -> None:
    with Bookkeeper(tmp_path, Manners(dedups=True, share=0), seed=1) as book:
        assert [ask(book, {"act": "a", "who": WHO}) for _ in "ab"] == [{"entry": 1}] * 2
        assert [(act.entry, act.is_repeat) for act in book.acts()] == [(1, False), (1, True)]


def test_some_acts_are_not_answered_and_some_answers_are_of_no_act(tmp_path: Path) -> None:
    with Bookkeeper(tmp_path, Manners(share=0.9), seed=2) as book:
        calls = {f"key {number}": {"act": f"key {number}", "who": WHO} for number in range(12)}
        ledger = Ledger(tmp_path / "other", 2, dedups=False, share=0.9)
        for key, call in calls.items():
            manner = ledger.manner(key)
            if manner is Manner.SILENT:
                continue  # nothing to wait for
            answer = ask(book, call)
            was_done = key in {act.key for act in book.acts()}
            assert was_done == (manner not in {Manner.HANGS_UP, Manner.REFUSES}), manner
            has_answer = manner not in {Manner.HANGS_UP, Manner.DROPS}
            assert (answer is not None) == has_answer, manner


def test_its_manners_are_the_seeds(tmp_path: Path) -> None:
    def manners(name: str, seed: int) -> list[Manner]:
        ledger = Ledger(tmp_path / name, seed, dedups=False, share=0.5)
        return [ledger.manner(str(number % 10)) for number in range(1_000)]

    assert manners("a", 1) == manners("b", 1) != manners("c", 2)
    found = Counter(manners("d", 3))
    assert set(found) == set(Manner)
    assert 400 < 1_000 - found[Manner.WELL] < 600
