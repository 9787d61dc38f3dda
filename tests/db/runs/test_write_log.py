"""write_log: what a handler says about its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.verbs import Row, Verbs


def lines(db: Verbs, job_id: UUID) -> list[Row]:
    return db.rows("select * from hudhud.log_all where job_id = %s order by line", job_id)


def test_lines_are_kept_in_order_with_their_run_and_instant(clocked: Verbs) -> None:
    job_id = clocked.enqueue()
    told = [
        {"level": "info", "message": "یک", "progress": None},
        {"level": "warning", "message": "two", "progress": 0.5},
    ]
    clocked.call("write_log", job_id=job_id, run=1, lines=told)
    clocked.advance(1)
    third = [{"level": "error", "message": "3", "progress": 1}]
    clocked.call("write_log", job_id=job_id, run=2, lines=third)
    kept = lines(clocked, job_id)
    assert [(row.run, row.level, row.message, row.progress) for row in kept] == [
        (1, "info", "یک", None),
        (1, "warning", "two", 0.5),
        (2, "error", "3", 1),
    ]
    assert (kept[2].at - kept[0].at).total_seconds() == 1


def test_a_long_message_is_cut(db: Verbs) -> None:
    job_id = db.enqueue()
    long = [{"level": "debug", "message": "ب" * 3_000, "progress": None}]
    db.call("write_log", job_id=job_id, run=1, lines=long)
    assert lines(db, job_id)[0].message == "ب" * 2_000


@pytest.mark.parametrize(
    "line",
    [
        {"level": "loud", "message": "x"},
        {"level": "info", "message": "x", "progress": 1.5},
        {"level": "info", "message": "x", "progress": -0.1},
        {"level": "info", "message": None},
        {"level": None, "message": "x"},
    ],
    ids=str,
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_what_is_no_line_is_refused(db: Verbs, line: dict[str, object], *, is_kept: bool) -> None:
    job_id = db.enqueue()
    if is_kept:
        db.value("select hudhud.close_day((clock_timestamp() at time zone 'UTC')::date)")
    with pytest.raises(psycopg.IntegrityError), db.connection.transaction():
        db.call("write_log", job_id=job_id, run=1, lines=[line])


def test_many_lines_of_a_closed_day_keep_their_order(db: Verbs) -> None:
    job_id = db.enqueue()
    told = [{"level": "info", "message": str(n), "progress": None} for n in range(500)]
    db.call("write_log", job_id=job_id, run=1, lines=told[:250])
    db.value("select hudhud.close_day((clock_timestamp() at time zone 'UTC')::date)")
    db.call("write_log", job_id=job_id, run=1, lines=told[250:])
    kept = lines(db, job_id)
    assert [int(row.message) for row in kept] == list(range(500))
    assert len({row.line for row in kept}) == 500
