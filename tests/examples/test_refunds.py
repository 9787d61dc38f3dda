"""The refunds example as a whole: a bank goes silent, workers die, and each refund is made once."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest

from examples.refunds import app as refunds
from examples.refunds import bank
from examples.refunds.bank import Bank
from examples.refunds.bank_server import Manner
from examples.refunds.books import Books, Entry, Step
from examples.refunds.judge import Recorded, beside, judge
from hudhud.testing import crash_points, drain, recording
from tests.support.refunds import HEAD, accepted, query, served, take_in

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from examples.refunds.bank_server import Bank as BankServer

ROOT = Path(__file__).parents[2]


class Shop:
    """A shop with its own database, and the books of its bank."""

    def __init__(self, url: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = url
        self.books = Books(directory / "books.jsonl")
        self.books.pay([("A", 100_000)])
        self._directory = directory
        self._monkeypatch = monkeypatch

    def records(self, *lines: str) -> None:
        take_in(self.url, self._directory, *lines)

    @contextmanager
    def bank(self, *manners: Manner) -> Generator[BankServer]:
        """Let its bank take the next calls in these manners."""
        with served(self.books, *manners) as server:
            self._monkeypatch.setenv(bank.URL, server.url)
            yield server

    def settles_at_once(self) -> None:
        """Let a bank that acts before it answers be asked at once."""
        self._monkeypatch.setattr(refunds.bank, "settle_seconds", 0.0)

    def refunds(self) -> list[tuple[Any, ...]]:
        """Return its own record, in the order of the lines."""
        return self.query(
            "select state, confirmation, reason from refunds.refund"
            " join refunds.batch on batch.id = batch_id order by created_at, line"
        )

    def query(self, text: str) -> list[tuple[Any, ...]]:
        return query(self.url, text)

    def accepted(self) -> list[Entry]:
        """Return what the bank has accepted of refunds."""
        return accepted(self._directory / "books.jsonl")


@pytest.fixture
def shop(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("HUDHUD_DATABASE_URL", database)
    with psycopg.connect(database) as connection:
        refunds.set_up(connection)
    made = Shop(database, tmp_path, monkeypatch)
    yield made
    made.books.close()


# One refund.


def test_a_recorded_refund_is_requested_confirmed_and_written_down(shop: Shop) -> None:
    shop.records("A,100000,20000", "A,100000,50000")
    with shop.bank():
        drain(refunds.app, shop.url, scheduled=True).succeeded()
    assert shop.refunds() == [("confirmed", 3, None), ("confirmed", 5, None)]
    assert [entry.amount for entry in shop.accepted()] == [20_000, 20_000, 50_000, 50_000]
    assert shop.query(
        "select (payload ->> 'confirmation')::bigint from hudhud.event"
        " where type = 'refund.confirmed' order by position"
    ) == [(3,), (5,)]


@pytest.mark.parametrize(
    "manners",
    [
        [Manner.DROPS_REPLY],
        [Manner.WELL, Manner.DROPS_REPLY],
        [Manner.DROPS_REPLY, Manner.DROPS_REPLY],
        [Manner.FAILS_AFTER, Manner.FAILS_AFTER],
        [Manner.FAILS_BEFORE, Manner.FAILS_BEFORE, Manner.DROPS_REPLY, Manner.FAILS_BEFORE],
        [Manner.TOO_MANY, Manner.DROPS_REPLY, Manner.UNAVAILABLE, Manner.FAILS_AFTER],
    ],
)
def test_r10_after_an_unclear_answer_the_bank_is_asked_and_the_refund_is_made_once(
    shop: Shop, manners: list[Manner]
) -> None:
    shop.settles_at_once()
    shop.records("A,100000,20000")
    with shop.bank(*manners) as server:
        drain(refunds.app, shop.url, scheduled=True)
        counts = server.mood.counts
    assert [entry.step for entry in shop.accepted()] == [Step.REQUEST, Step.CONFIRM]
    unclear = {Manner.DROPS_REPLY, Manner.FAILS_AFTER, Manner.FAILS_BEFORE}
    assert counts["found"] + counts["not_found"] == sum(one in unclear for one in manners)
    assert shop.refunds() == [("confirmed", 3, None)]


def test_a_pending_request_of_another_is_waited_for(shop: Shop) -> None:
    other = shop.books.request("A", 10_000, key="another's", reference="another's")
    shop.records("A,100000,20000")
    with shop.bank():
        runs = drain(refunds.app, shop.url)
        assert {(run.outcome, run.code) for run in runs} == {("retry", "pending_request_exists")}
        shop.books.confirm(other.number, key="another's")
        drain(refunds.app, shop.url, scheduled=True).succeeded()
    assert shop.refunds() == [("confirmed", 5, None)]


def test_what_the_bank_refuses_for_good_is_dead_and_shown_in_our_record(shop: Shop) -> None:
    shop.records("nobody's,100,10")
    with shop.bank():
        [run] = drain(refunds.app, shop.url, scheduled=True)
    assert (run.outcome, run.code) == ("fail", "unknown_transaction")
    assert shop.refunds() == [("refused", None, "unknown_transaction")]
    assert shop.accepted() == []


def test_r34_a_refund_is_made_once_wherever_its_worker_dies(shop: Shop) -> None:
    numbers = itertools.count(1)
    for point in crash_points(refunds.app, shop.url):
        shop.records(f"{point.number},100,10")
        with recording(refunds.bank, like=Bank) as recorded:
            recorded.answers("request", lambda *_, **__: {"number": next(numbers)})
            recorded.answers("confirm", lambda *_, **__: {"number": next(numbers)})
            point.run()
        [confirmed] = recorded.acted("confirm")
        [requested] = recorded.acted("request")
        assert confirmed.args[1] == cast("dict[str, int]", requested.answer)["number"], point
        number = cast("dict[str, int]", confirmed.answer)["number"]
        assert shop.refunds()[-1] == ("confirmed", number, None), point
    events = "select count(*) from hudhud.event where type = 'refund.confirmed'"
    assert shop.query(events) == [(len(shop.refunds()),)]


# What is judged.


def entry(number: int, step: Step, reference: str, *, amount: int = 10) -> Entry:
    return Entry(number, step, "A", amount, 1, f"key {number}", reference)


def test_the_judge_sees_what_is_doubled_missing_or_not_ours() -> None:
    ours = [
        Recorded("once", 2, "A", 10, "confirmed", 3),
        Recorded("twice", 3, "A", 10, "confirmed", 4),
        Recorded("never", 4, "A", 10, "confirmed", 9),
        Recorded("more than asked", 5, "A", 10, "confirmed", 6),
        Recorded("not written down", 6, "A", 10, "recorded", None),
        Recorded("requested only", 7, "A", 10, "recorded", None),
    ]
    found = [
        entry(2, Step.REQUEST, "requested only"),
        entry(3, Step.CONFIRM, "once"),
        entry(4, Step.CONFIRM, "twice"),
        entry(5, Step.CONFIRM, "twice"),
        entry(6, Step.CONFIRM, "more than asked", amount=11),
        entry(7, Step.CONFIRM, "not written down"),
        entry(8, Step.CONFIRM, "nobody's"),
    ]
    verdict = judge(ours, found)
    assert (verdict.confirmed, verdict.doubled, verdict.missing) == (4, 1, 2)
    # Another amount, somebody else's; what we claim and the bank denies, and the other way round.
    assert verdict.wrong == 4
    assert verdict.toman == 61


def test_both_ledgers_are_shown_side_by_side() -> None:
    ours = [
        Recorded("r", 7, "A", 20_000, "confirmed", 3),
        Recorded("q", 8, "A", 5, "recorded", None),
    ]
    lines = list(beside("A", ours, [entry(3, Step.CONFIRM, "r", amount=20_000)]))
    assert "line 7: 20,000 confirmed" in lines[0]
    assert "no. 3: 20,000 for request 1" in lines[0]
    assert "20,005 toman" in lines[-1]
    assert "1 confirmations, 20,000 toman" in lines[-1]


# The whole of it.


def program(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.refunds", "--json", *words],
        cwd=ROOT,
        env={**os.environ, "HUDHUD_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def played(url: str, *words: str) -> dict[str, Any]:
    ended = program(url, *words)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_the_demo_kills_workers_after_the_bank_has_acted_and_every_refund_is_made_once(
    shop: Shop,
) -> None:
    report = played(shop.url, "--seed", "5")
    assert (report["refunds"], report["confirmed"]) == (250, 250)
    assert (report["doubled"], report["missing"], report["wrong"], report["kills"]) == (0, 0, 0, 2)
    assert report["transaction_a"] == {"confirmations": 2, "toman": 70_000}
    assert report["dropped_replies"] > report["kills"]
    assert report["reconciled"] >= report["dropped_replies"]
    assert report["toman"] == report["toman_confirmed"]


def test_the_demo_takes_any_file_and_refuses_what_is_wrong_in_it(
    shop: Shop, tmp_path: Path
) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(
        b"\xef\xbb\xbf" + HEAD.encode() + b"X,100,60\r\nX,100,50\r\nX,90,5\r\n,1,1\r\nY,5,1.5\r\n"
    )
    report = played(shop.url, "--csv", str(path))
    assert (report["refunds"], report["confirmed"], report["refused_lines"]) == (1, 1, 4)
    assert (report["doubled"], report["missing"], report["kills"]) == (0, 0, 1)
    assert [(one["line"], one["reason"]) for one in report["refusals"]] == [
        (3, "above_transaction"),
        (4, "transaction_amounts_differ"),
        (5, "wrong_transaction_id"),
        (6, "not_a_whole_number"),
    ]
    assert report["transaction_a"] is None


@pytest.mark.parametrize("content", ["", HEAD, HEAD + "A,1,2\n"])
def test_a_file_without_a_refund_is_no_failure(shop: Shop, tmp_path: Path, content: str) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(content, "utf-8")
    report = played(shop.url, "--csv", str(path))
    assert (report["refunds"], report["confirmed"], report["kills"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, "No such file"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.write_text("a,b\n1,2\n"), "names the columns"),
    ],
)
def test_what_is_no_file_of_refunds_is_said_in_a_sentence(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "mine.csv")
    ended = program("nowhere", "--csv", str(tmp_path / "mine.csv"))
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
