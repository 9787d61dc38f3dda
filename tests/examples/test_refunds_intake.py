"""The intake of refunds: refused or recorded while its sender waits, each with its event."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg
import pytest

from examples.refunds import app as refunds
from examples.refunds import intake
from examples.refunds.sheet import Reason
from tests.support.refunds import HEAD, SHOP, query, read, take_in
from tests.support.wait import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def url(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a database with the example's tables."""
    monkeypatch.setenv("HUDHUD_DATABASE_URL", database)
    with psycopg.connect(database) as connection:
        refunds.set_up(connection)
    return database


def told(taken: intake.Intake) -> list[tuple[int, Reason]]:
    return [(one.number, one.reason) for one in taken.refused]


def test_a_refund_and_its_event_are_recorded_together_or_not_at_all(
    url: str, tmp_path: Path
) -> None:
    found = read(tmp_path, HEAD + "A,100000,20000\nA,100000,50000\n")
    with psycopg.connect(url) as connection:
        assert intake.take_in(connection, SHOP, found).recorded == 2
        connection.rollback()
    for table in ("refunds.refund", "refunds.batch", "refunds.transaction", "hudhud.event"):
        assert query(url, f"select * from {table}") == []  # noqa: S608 - names of ours
    take_in(url, tmp_path, "A,100000,20000", "A,100000,50000")
    recorded = query(url, "select id::text, amount from refunds.refund order by line")
    published = query(
        url,
        "select payload ->> 'refund_id', (payload ->> 'amount')::bigint, sequence, tenant_id,"
        " aggregate_id from hudhud.event order by position",
    )
    assert published == [(*recorded[0], 1, SHOP, "A"), (*recorded[1], 2, SHOP, "A")]
    assert query(url, "select refunded from refunds.transaction") == [(70_000,)]
    assert query(url, "select count(*) from hudhud.job") == [(0,)]


def test_sums_above_the_transaction_are_refused_at_the_line_that_exceeds_them(
    url: str, tmp_path: Path
) -> None:
    taken = take_in(url, tmp_path, "A,100,60", "B,100,101", "A,100,41", "A,100,40", "A,100,1")
    assert taken.recorded == 2
    assert told(taken) == [
        (3, Reason.ABOVE_TRANSACTION),
        (4, Reason.ABOVE_TRANSACTION),
        (6, Reason.ABOVE_TRANSACTION),
    ]
    message = "41 toman, after 60 before, are more than the 100 of transaction A"
    assert taken.refused[1].message == message
    # Of what was refused nothing is kept.
    assert query(url, "select transaction_id, refunded from refunds.transaction") == [("A", 100)]
    assert query(url, "select line, amount from refunds.refund order by 1") == [(2, 60), (5, 40)]
    assert query(url, "select count(*) from hudhud.event") == [(2,)]


def test_earlier_files_count_in_and_other_shops_do_not(url: str, tmp_path: Path) -> None:
    assert take_in(url, tmp_path, "A,100,60").recorded == 1
    again = take_in(url, tmp_path, "A,100,50", "A,100,40")
    assert (again.recorded, told(again)) == (1, [(2, Reason.ABOVE_TRANSACTION)])
    assert take_in(url, tmp_path, "A,100,100", shop="another").recorded == 1


def test_a_transaction_has_the_amount_that_was_said_first(url: str, tmp_path: Path) -> None:
    taken = take_in(url, tmp_path, "A,100,10", "A,1000,500", "A,100,20")
    assert (taken.recorded, told(taken)) == (2, [(3, Reason.AMOUNTS_DIFFER)])
    later = take_in(url, tmp_path, "A,90,10")
    assert (later.recorded, told(later)) == (0, [(2, Reason.AMOUNTS_DIFFER)])
    assert "90 toman here, and 100 before" in later.refused[0].message


def test_equal_refunds_of_a_transaction_stay_as_many_as_they_are(url: str, tmp_path: Path) -> None:
    assert take_in(url, tmp_path, "A,100,50", "A,100,50").recorded == 2


def test_the_same_file_is_taken_in_once(url: str, tmp_path: Path) -> None:
    assert take_in(url, tmp_path, "A,100,10").recorded == 1
    with pytest.raises(intake.TakenAlreadyError, match="was taken in before"):
        take_in(url, tmp_path, "A,100,10")
    assert take_in(url, tmp_path, "A,100,10", shop="another").recorded == 1
    assert query(url, "select count(*) from refunds.refund") == [(2,)]


def test_two_files_at_once_do_not_exceed_a_transaction_together(url: str, tmp_path: Path) -> None:
    first, second = (read(tmp_path, HEAD + line) for line in ("A,100,60", "A,100,50"))
    found: list[intake.Intake] = []

    def take_second() -> None:
        with psycopg.connect(url) as connection:
            found.append(intake.take_in(connection, SHOP, second))

    with psycopg.connect(url) as connection:
        assert intake.take_in(connection, SHOP, first).recorded == 1
        other = threading.Thread(target=take_second)
        other.start()
        _until_somebody_waits(url)
    other.join(30)
    [taken] = found
    assert (taken.recorded, told(taken)) == (0, [(2, Reason.ABOVE_TRANSACTION)])


def _until_somebody_waits(url: str) -> None:
    waiting = (
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and wait_event_type = 'Lock'"
    )
    until(lambda: query(url, waiting) == [(1,)])
