"""new_id, new_ids, shard_of, id_time, first_id: an id is the server's and tells its shard."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.verbs import Verbs

# RFC 9562's example of a UUIDv7, and its instant.
EXAMPLE = uuid.UUID("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
EXAMPLE_TIME = datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC)


def one(db: Verbs, shard: int) -> list[UUID]:
    return [db.answer("new_id", shard=shard) for _ in range(20)]


def many(db: Verbs, shard: int) -> list[UUID]:
    return list(db.answer("new_ids", amount=1_000, shard=shard))


@pytest.mark.parametrize("make", [one, many])
@pytest.mark.parametrize("shard", [0, 1, 7, 255])
def test_an_id_is_a_uuid_of_version_7_that_ends_with_its_shard(
    db: Verbs, make: object, shard: int
) -> None:
    ids: list[UUID] = make(db, shard)  # type: ignore[operator]
    assert {one.version for one in ids} == {7}
    assert {one.variant for one in ids} == {uuid.RFC_4122}
    assert {one.bytes[15] for one in ids} == {shard}
    assert {db.answer("shard_of", id=one) for one in ids[:3]} == {shard}


@pytest.mark.parametrize("make", [one, many])
def test_ids_are_unique(db: Verbs, make: object) -> None:
    ids = [one for _ in range(20) for one in make(db, 0)]  # type: ignore[operator]
    assert len(set(ids)) == len(ids)


def test_ids_of_a_batch_ascend(db: Verbs) -> None:
    ids = many(db, 0)
    assert ids == sorted(ids)
    assert db.answer("new_ids", amount=0) == []


@pytest.mark.parametrize("make", [one, many])
def test_an_id_tells_when_it_was_made_by_the_real_clock(clocked: Verbs, make: object) -> None:
    clocked.advance(-86_400)
    before = clocked.value("select date_trunc('milliseconds', clock_timestamp())")
    ids: list[UUID] = make(clocked, 0)  # type: ignore[operator]
    after = clocked.value("select clock_timestamp()")
    assert before <= clocked.answer("id_time", id=ids[0]) <= after


def test_the_instant_is_where_the_rfc_puts_it(db: Verbs) -> None:
    assert db.answer("id_time", id=EXAMPLE) == EXAMPLE_TIME
    first = db.answer("first_id", at=EXAMPLE_TIME)
    assert str(first) == "017f22e2-79b0-0000-0000-000000000000"
    assert first < EXAMPLE


@pytest.mark.parametrize("day", ["1970-01-01", "2026-11-30", "2200-01-01", "9998-01-01"])
def test_the_first_id_of_a_day_is_no_greater_than_any_of_that_day(db: Verbs, day: str) -> None:
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    first, next_first = (db.answer("first_id", at=at) for at in (start, start + timedelta(days=1)))
    assert db.answer("id_time", id=first) == start
    assert first < next_first


def test_the_shard_is_the_last_byte_of_any_id(db: Verbs) -> None:
    assert db.answer("shard_of", id=EXAMPLE) == 0x8F


HOT = (
    "job",
    "job_kept",
    "ready",
    "scheduled",
    "waiting",
    "lease",
    "outcome",
    "outcome_kept",
    "range",
    "range_new",
    "idempotency",
)


@pytest.mark.parametrize("table", HOT)
def test_each_hot_table_has_the_shard(db: Verbs, table: str) -> None:
    """DESIGN.md 4.10."""
    read = (
        "select format_type(atttypid, null), attnotnull from pg_attribute"
        " where attrelid = %s::regclass and attname = 'shard'"
    )
    assert db.row(read, f"hudhud.{table}") == ("smallint", True)


@pytest.mark.parametrize("table", sorted({*HOT} - {"lease", "range_new", "ready"}))
def test_the_shard_is_in_the_key_of_each_hot_table_that_has_one(db: Verbs, table: str) -> None:
    """DESIGN.md 4.10; the id of a lease is random, ready and range_new have no key."""
    read = (
        "select array_agg(attname::text) from pg_index i"
        " join pg_attribute a on a.attrelid = indrelid and attnum = any (indkey)"
        " where indrelid = %s::regclass and indisprimary"
    )
    assert "shard" in db.value(read, f"hudhud.{table}")


@pytest.mark.parametrize("index", ["ready_claim", "scheduled_due", "lease_until", "range_number"])
def test_what_is_scanned_begins_with_the_shard(db: Verbs, index: str) -> None:
    read = "select pg_get_indexdef(%s::regclass, 1, true)"
    assert db.value(read, f"hudhud.{index}") == "shard"


def test_wherever_a_job_goes_its_shard_goes_with_it(clocked: Verbs) -> None:
    """DESIGN.md 4.10."""
    for n in range(4):
        clocked.enqueue(delay=timedelta(hours=1) if n == 3 else None, idempotency_key=f"k{n}")
    clocked.run("retry", delay_seconds=60)
    clocked.run("hand_back", code="no_handler")
    claim = clocked.claim_one()
    clocked.finish(claim)
    clocked.enqueue()
    clocked.claim_one()
    for table in ("job", "ready", "scheduled", "waiting", "outcome", "idempotency"):
        column = "id" if table == "job" else "job_id"
        told = clocked.values(
            f"select hudhud.shard_of({column}) = shard from hudhud.{table}"  # noqa: S608
        )
        assert all(told), table
    shards = clocked.row("select shard, hudhud.shard_of(job_ids[1]) from hudhud.lease")
    assert shards == (0, 0)
