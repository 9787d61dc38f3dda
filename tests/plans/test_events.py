"""The relay costs what it routes, whatever is kept and whatever the planner has believed.

60 days of partitions, events of 28 days that are routed long since, and plans that were cached when
every table was empty. Measured in blocks and in index entries, never in time.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from tests.support.events import NAME, due, numbers, relay, subscribe
from tests.support.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.server import Server

DAYS_BACK: Final = 28
DAYS_AHEAD: Final = 31
EVENTS_A_DAY: Final = 1_000
BATCH: Final = 100
# A descent into the index of each day, for what came after the cursor and for what it names.
BLOCKS_A_LOOK: Final = 6 * (DAYS_BACK + DAYS_AHEAD + 1)
BLOCKS_A_JOB: Final = 30
# Entries that a routed event may cost: its own, and a day's end that is looked at once too often.
ENTRIES_MAX: Final = BATCH + 2 * (DAYS_BACK + DAYS_AHEAD + 1)

_DAYS: Final = """
do $$
declare
    today date := (clock_timestamp() at time zone 'UTC')::date;
    day date;
    parent text;
    child text;
begin
    for day, parent in
        select today + n, p from generate_series(-%s, %s) n, unnest(array['event', 'event_job']) p
    loop
        child := parent || '_' || to_char(day, 'YYYYMMDD');
        continue when to_regclass('hudhud.' || child) is not null;
        execute format(
            'create table hudhud.%%I partition of hudhud.%%I for values from (%%L) to (%%L)',
            child, parent, hudhud.first_id(day::timestamp at time zone 'UTC'),
            hudhud.first_id((day + 1)::timestamp at time zone 'UTC'));
    end loop;
    -- What was cached on empty tables is used on full ones: nobody may tell the planner better.
    for child in
        select relname from pg_class
        where relname ~ '^(event|subscription)' and relkind = 'r'
          and relnamespace = 'hudhud'::regnamespace
    loop
        execute format('alter table hudhud.%%I set (autovacuum_enabled = false)', child);
    end loop;
end $$
"""
# Two in three are of the type that is subscribed to, and were there before its cursor.
_FILL: Final = """
insert into hudhud.event (
    id, shard, version, epoch, position, xid, occurred_at, type, tenant_id, correlation_id, payload)
select overlay(overlay(overlay(hudhud.first_id(at)::text placing '7' from 15 for 1)
           placing '8' from 20 for 1) placing lpad(to_hex(n), 8, '0') from 25 for 8)::uuid,
       0, 1, 0, nextval('hudhud.event_position'), '700', at,
       case n %% 3 when 0 then 'order.gone' else 'order.paid' end, 'acme', 'c', '{"n": 0}'
from generate_series(0, %s) d, generate_series(1, %s) n,
     lateral (select clock_timestamp() - make_interval(days => d, secs => n::float / 20)) i(at)
order by at
"""
_INDEXES: Final = """
select case when c.relname ~ 'type_epoch_xid' then 'event_xid'
            when c.relname ~ 'type_position' then 'event_order' else 'other' end as index,
       pg_stat_get_xact_tuples_returned(c.oid) as entries
from pg_class c join pg_index i on i.indexrelid = c.oid
where i.indrelid in (select inhrelid from pg_inherits where inhparent = 'hudhud.event'::regclass)
"""
_SCANS: Final = """
select coalesce(sum(pg_stat_get_xact_numscans(inhrelid)), 0)
from pg_inherits where inhparent = 'hudhud.event'::regclass
  and pg_stat_get_xact_tuples_returned(inhrelid) > 0
"""


@pytest.fixture(scope="module")
def sessions(server: Server) -> Iterator[tuple[Verbs, Verbs]]:
    """Give a session whose plans were made on empty tables, and one that came later."""
    dsn = server.create(f"plans_{uuid.uuid4().hex}")
    with (
        psycopg.connect(server.direct(dsn), autocommit=True) as early,
        psycopg.connect(server.direct(dsn), autocommit=True) as late,
    ):
        early.execute((_DAYS % (DAYS_BACK + 1, DAYS_AHEAD)).encode())
        subscribe(Verbs(early))
        subscribe(Verbs(early), "all", start="beginning")
        for _ in range(7):
            with early.transaction(force_rollback=True):
                for use in (after_the_cursor, from_the_beginning):
                    use(Verbs(early))
        late.execute((_FILL % (DAYS_BACK, EVENTS_A_DAY)).encode())
        yield Verbs(early), Verbs(late)
    server.drop(dsn.split("?")[0].rsplit("/", 1)[-1])


def after_the_cursor(db: Verbs) -> None:
    """Route what was published since."""
    due(db)
    relay(db, max_events=BATCH + 1)


def from_the_beginning(db: Verbs) -> None:
    """Route the first of very many, and the next of them."""
    two_steps(db, "all")


def far_behind(db: Verbs) -> None:
    """Route of what was published in half of the days."""
    place(db, "700:700:", DAYS_BACK * EVENTS_A_DAY // 2)
    two_steps(db)


def of_a_huge_transaction(db: Verbs) -> None:
    """Route of what one transaction published that was open before."""
    place(db, "700:701:700", DAYS_BACK * EVENTS_A_DAY)
    two_steps(db)


def of_a_huge_transaction_that_went_on(db: Verbs) -> None:
    """Do the same where it has published all of that since."""
    place(db, "700:701:700", 0)
    two_steps(db)


def place(db: Verbs, snapshot: str, position: int) -> None:
    """Put the cursor where all that is there is yet to be routed, or what lies above a position."""
    db.rows(
        "update hudhud.subscription_cursor set from_snapshot = %s::pg_snapshot, from_position = %s"
        " where subscription = %s",
        snapshot,
        position,
        NAME,
    )


def two_steps(db: Verbs, name: str = NAME) -> None:
    """Route a batch in two calls."""
    for _ in range(2):
        relay(db, name, max_events=BATCH // 2)


WAYS: Final[dict[Callable[[Verbs], None], str]] = {
    after_the_cursor: "event_order",
    from_the_beginning: "event_order",
    far_behind: "event_order",
    of_a_huge_transaction: "event_xid",
    of_a_huge_transaction_that_went_on: "event_order",
}
EACH = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
BOTH = pytest.mark.parametrize("number", [0, 1], ids=["planned early", "planned late"])


def entries(db: Verbs) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in db.rows(_INDEXES):
        found[row.index] += row.entries
    return found


@EACH
@BOTH
def test_what_is_routed_is_found_by_its_index_and_nothing_else_is_read(
    sessions: tuple[Verbs, Verbs], number: int, *, way: Callable[[Verbs], None]
) -> None:
    db = sessions[number]
    publish_batch(db)
    with db.connection.transaction(force_rollback=True):
        before = entries(db)
        way(db)
        used = entries(db) - before
        assert db.value(_SCANS) == 0
    index = WAYS[way]
    assert BATCH <= used[index] <= ENTRIES_MAX, used
    assert used.total() - used[index] <= ENTRIES_MAX - BATCH, used


@EACH
@BOTH
def test_a_round_costs_blocks_for_its_days_and_what_it_routes(
    sessions: tuple[Verbs, Verbs], number: int, *, way: Callable[[Verbs], None]
) -> None:
    db = sessions[number]
    publish_batch(db)
    with db.connection.transaction(force_rollback=True):
        way(db)
    with db.connection.transaction(force_rollback=True):
        name = "all" if way is from_the_beginning else NAME
        statement = f"select * from hudhud.relay('{name}', {BATCH + 1})"  # noqa: S608
        assert blocks(db, statement) <= BLOCKS_A_LOOK + BLOCKS_A_JOB * BATCH


@BOTH
def test_a_look_when_there_is_nothing_costs_a_descent_per_day(
    sessions: tuple[Verbs, Verbs], number: int
) -> None:
    db = sessions[number]
    with db.connection.transaction(force_rollback=True):
        db.rows("delete from hudhud.subscription where name = 'all'")
        relay(db)
        assert due(db) == []
        assert blocks(db, "select hudhud.due_subscriptions()") <= BLOCKS_A_LOOK


def test_of_what_is_kept_and_routed_nothing_is_routed_again(
    sessions: tuple[Verbs, Verbs],
) -> None:
    early, _ = sessions
    publish_batch(early)
    with early.connection.transaction(force_rollback=True):
        after_the_cursor(early)
        assert numbers(early) == list(range(1, BATCH + 1))


def publish_batch(db: Verbs) -> None:
    """Commit a batch; everything before it is behind the cursor, as if it had been routed."""
    db.rows(
        "update hudhud.subscription_cursor set from_snapshot = pg_current_snapshot(),"
        " from_position = (select last_value from hudhud.event_position) where subscription = %s",
        NAME,
    )
    db.rows(
        "select count(hudhud.publish('order.paid', jsonb_build_object('n', n), notify => false))"
        " from generate_series(1, %s) n",
        BATCH,
    )


def blocks(db: Verbs, statement: str) -> int:
    explain = "explain (analyze, buffers, timing off, summary off, format json)"
    (row,) = db.connection.execute(f"{explain} {statement}".encode()).fetchall()
    top = row[0][0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
