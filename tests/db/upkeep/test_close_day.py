"""Closing a day: when nobody can write into its partitions any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.wait import until

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs

TODAY = "(clock_timestamp() at time zone 'UTC')::date"


def close_day(db: Verbs) -> int:
    return int(db.value(f"select hudhud.close_day({TODAY})"))


def is_settled(db: Verbs, xid: int) -> bool:
    """Ask once; transactions of other tests on the same server count too."""
    return bool(db.answer("is_settled", xid=xid))


def test_a_closed_day_is_settled_when_nobody_else_writes(sessions: Sessions) -> None:
    db = sessions.open()
    xid = close_day(db)
    assert is_settled(db, xid) is False
    until(lambda: is_settled(db, xid))


def test_a_day_is_not_settled_while_an_older_writer_is_open(sessions: Sessions) -> None:
    db, writer = sessions.open(), sessions.open()
    with writer.connection.transaction():
        writer.enqueue()
        xid = close_day(db)
        assert [is_settled(db, xid) for _ in range(3)] == [False] * 3
    until(lambda: is_settled(db, xid))


def test_a_day_is_not_settled_while_a_writer_is_open_that_has_read_the_old_mark(
    sessions: Sessions,
) -> None:
    db, maintainer, writer = sessions.open(), sessions.open(), sessions.open()
    claim = (db.enqueue(), db.claim_one())[1]
    with writer.connection.transaction():
        with maintainer.connection.transaction():
            xid = close_day(maintainer)
            assert writer.finish(claim).settled == 1
        assert writer.value("select pg_current_xact_id()::text::bigint") > xid
        assert [is_settled(db, xid) for _ in range(3)] == [False] * 3
    until(lambda: is_settled(db, xid))
    assert db.value("select count(*) from hudhud.outcome") == 1


def test_the_mark_never_goes_back(db: Verbs) -> None:
    close_day(db)
    mark = db.value("select kept_below from hudhud.setting")
    db.value(f"select hudhud.close_day({TODAY} - 3)")
    assert db.value("select kept_below from hudhud.setting") == mark
    assert mark == db.value(f"select hudhud.first_id(({TODAY} + 1)::timestamp at time zone 'UTC')")


def test_what_happens_to_a_closed_days_jobs_is_written_beside_it(db: Verbs) -> None:
    job_id = db.enqueue()
    claim = db.claim_one()
    close_day(db)
    lines = [{"level": "info", "message": "x", "progress": 0.5}]
    db.call("write_log", job_id=job_id, run=1, lines=lines)
    db.finish(claim)
    for table in ("outcome", "log"):
        assert db.value(f"select count(*) from hudhud.{table}") == 0  # noqa: S608
        assert db.value(f"select count(*) from hudhud.{table}_kept") == 1  # noqa: S608
    assert db.status(job_id).status == "succeeded"
    assert db.value("select message from hudhud.log_all") == "x"
