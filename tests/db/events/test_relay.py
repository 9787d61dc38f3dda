"""The relay's laws: every committed event becomes one job of each subscription, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support.events import (
    NAME,
    cursor,
    documents,
    due,
    in_aggregate,
    numbers,
    publish,
    relay,
    relay_all,
    replaced,
    subscribe,
)

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs

# Each has an id of its own, because it writes.
_SAVEPOINTS = """
do $$
begin
    create temp table if not exists savepoint_done (n integer) on commit drop;
    for n in 1 .. %s loop
        begin
            insert into savepoint_done values (n);
        exception when division_by_zero then
            null;
        end;
    end loop;
end $$
"""
# As if the sequence had been looked at before anything was published.
_LONG_AGO = b"""
create or replace function hudhud.position_before() returns bigint language sql
as 'select 0::bigint'
"""


@pytest.fixture
def db(sessions: Sessions) -> Verbs:
    """Give a session that commits, with one subscription."""
    db = sessions.open()
    subscribe(db)
    return db


def take_xid(db: Verbs) -> None:
    """Let a transaction have its id, as if it had written elsewhere."""
    db.value("select pg_current_xact_id()::text")


def test_an_event_becomes_one_job_of_each_subscription(db: Verbs) -> None:
    subscribe(db, "order.paid:bill")
    subscribe(db, "order.gone:bill", "order.gone")
    event = publish(db, 7, tenant_id="acme", aggregate_type="order", aggregate_id="A")
    assert sorted(due(db)) == ["order.paid:bill", NAME]
    for _ in range(2):
        assert [relay_all(db, name) for name in due(db)] in ([1, 1], [])
    for name in (NAME, "order.paid:bill"):
        (document,) = documents(db, name)
        assert document["id"] == str(event.id)
        (job,) = db.rows("select * from hudhud.job where type = %s", name)
        assert (job.version, job.tenant_id, job.queue, job.max_attempts) == (
            1,
            "acme",
            "default",
            20,
        )
        assert job.correlation_id == str(event.id)
    assert numbers(db, "order.gone:bill") == []


def test_a_slow_transactions_event_comes_after_its_commit_and_holds_no_other_up(
    db: Verbs, sessions: Sessions
) -> None:
    """A48: the order of a sequence is not the order of commits."""
    slow = sessions.open()
    with slow.connection.transaction():
        publish(slow, 1)
        publish(db, 2)
        assert relay_all(db) == 1
        publish(db, 3)
        assert relay_all(db) == 1
        assert numbers(db) == [2, 3]
        assert due(db) == []
    assert due(db) == [NAME]
    assert relay_all(db) == 1
    assert numbers(db) == [2, 3, 1]
    assert due(db) == []


def test_a_foreign_transaction_that_is_open_for_long_delays_nothing(
    db: Verbs, sessions: Sessions
) -> None:
    """Here in the same database; one elsewhere on the server is in the snapshot likewise."""
    foreign = sessions.open()
    with foreign.connection.transaction():
        take_xid(foreign)
        for n in range(3):
            publish(db, n)
            assert relay_all(db) == 1
    assert relay_all(db) == 0
    assert numbers(db) == [0, 1, 2]


def test_the_order_within_an_aggregate_is_that_of_its_commits_whatever_the_transaction_ids(
    db: Verbs, sessions: Sessions
) -> None:
    """The second writer has the smaller id: it wrote elsewhere before it waited its turn."""
    first, second = sessions.open(), sessions.open()
    about: dict[str, Any] = {"aggregate_type": "order", "aggregate_id": "A"}
    second.connection.execute("begin")
    take_xid(second)
    first.connection.execute("begin")
    publish(first, 1, **about)
    waiting = sessions.start_blocked(lambda: publish(second, 2, **about), waits=second, for_=first)
    assert relay_all(db) == 0
    first.connection.execute("commit")
    assert waiting.result(60).sequence == 2
    publish(db, 9)
    second.connection.execute("commit")
    assert relay_all(db) == 3
    assert list(in_aggregate(documents(db), "A")) == [1, 2]
    xids = db.values(
        "select xid::text::bigint from hudhud.event where sequence > 0 order by sequence"
    )
    assert xids == sorted(xids, reverse=True)


def test_events_of_savepoints_are_routed_with_their_transaction(
    db: Verbs, sessions: Sessions
) -> None:
    """What counts is the whole transaction's id: a savepoint's would be looked for in vain."""
    user = sessions.open()
    with user.connection.transaction():
        publish(user, 1)
        with user.connection.transaction():
            publish(user, 2)
        with user.connection.transaction(force_rollback=True):
            publish(user, 3)
        publish(db, 4)
        assert relay_all(db) == 1
    assert relay_all(db) == 2
    assert numbers(db) == [4, 1, 2]


@pytest.mark.parametrize("savepoints", [0, 3, 1_100])
def test_who_had_an_id_when_a_step_began_is_met_by_the_next_whatever_positions_it_has(
    db: Verbs, sessions: Sessions, *, savepoints: int
) -> None:
    """PostgreSQL's snapshot does not list it, when nobody with a later id was over by then."""
    slow = sessions.open()
    slow.connection.execute("begin")
    publish(slow, 1)
    slow.connection.execute((_SAVEPOINTS % savepoints).encode())
    publish(db, 2, notify=False)
    relay(db)
    publish(slow, 3)
    last = sessions.open()
    last.connection.execute("begin")
    take_xid(last)
    relay(db)
    publish(last, 4)
    slow.connection.execute("commit")
    relay_all(db)
    last.connection.execute("commit")
    publish(db, 5)
    relay_all(db, max_events=1)
    assert numbers(db) == [2, 1, 3, 4, 5]
    assert due(db) == []


def test_the_next_step_begins_behind_this_one_however_many_ids_somebody_has(
    db: Verbs, sessions: Sessions
) -> None:
    publish(db, 0)
    assert relay_all(db) == 1
    slow = sessions.open()
    slow.connection.execute("begin")
    slow.connection.execute((_SAVEPOINTS % 1_100).encode())
    publish(db, 1)
    slow.connection.execute((_SAVEPOINTS % 1_100).encode())
    assert relay_all(db) == 1
    assert cursor(db).from_position == db.value("select max(position) from hudhud.event")


def test_a_relay_that_was_slow_to_begin_is_no_copy(db: Verbs) -> None:
    """Another one has moved the cursor between its look at the sequence and its lock."""
    publish(db, 1)
    assert relay_all(db) == 1
    bound = cursor(db).from_position
    db.connection.execute(_LONG_AGO)
    publish(db, 2)
    assert relay_all(db) == 1
    assert cursor(db).from_position == bound > 0


def test_a_rolled_back_event_is_routed_to_nobody(db: Verbs, sessions: Sessions) -> None:
    """A49."""
    user = sessions.open()
    with user.connection.transaction(force_rollback=True):
        publish(user, 1, aggregate_type="order", aggregate_id="A")
    assert (due(db), relay_all(db)) == ([], 0)
    assert publish(db, 2, aggregate_type="order", aggregate_id="A").sequence == 1


def test_two_relays_at_once_share_the_work_and_repeat_nothing(
    db: Verbs, sessions: Sessions
) -> None:
    for n in range(10):
        publish(db, n)
    one, other = sessions.open(), sessions.open()
    other.is_impatient = True
    with one.connection.transaction():
        assert relay(one, max_events=4) == (4, True)
        assert relay(other) == (0, False)
    assert relay_all(other, max_events=3) == 6
    assert numbers(db) == list(range(10))


@pytest.mark.parametrize("point", ["relay.inserted", "relay.moved"])
def test_a_relay_that_dies_before_its_commit_leaves_nothing_and_the_next_one_repeats_nothing(
    own: Sessions, point: str
) -> None:
    """A50: jobs and cursor are one commit."""
    db = own.open()
    subscribe(db)
    for n in range(5):
        publish(db, n)
    relay(db, max_events=2)
    replaced(db, point)
    with pytest.raises(psycopg.errors.RaiseException):
        relay(db, max_events=2)
    assert numbers(db) == [0, 1]
    replaced(db, "nowhere")
    assert relay_all(db, max_events=2) == 3
    assert numbers(db) == [0, 1, 2, 3, 4]


def test_a_relay_whose_commit_was_not_acknowledged_repeats_nothing(
    db: Verbs, sessions: Sessions
) -> None:
    """A50: it asks the database how far it is, and remembers nothing itself."""
    publish(db, 1)
    lost = sessions.open()
    relay(lost)
    lost.connection.close()
    assert relay_all(db) == 0
    assert numbers(db) == [1]


def test_a_long_step_goes_on_where_it_stopped_and_what_comes_meanwhile_comes_after_it(
    db: Verbs, sessions: Sessions
) -> None:
    slow = sessions.open()
    slow.connection.execute("begin")
    publish(slow, 0)
    for n in range(1, 8):
        publish(db, n)
    assert relay(db, max_events=3) == (3, True)
    assert cursor(db).to_snapshot is not None
    publish(db, 8)
    slow.connection.execute("commit")
    assert relay(db, max_events=3) == (3, True)
    assert relay(db, max_events=3) == (1, False)
    assert cursor(db).to_snapshot is None
    assert relay_all(db, max_events=3) == 2
    assert numbers(db) == [1, 2, 3, 4, 5, 6, 7, 0, 8]


def test_a_step_of_exactly_its_limit_ends(db: Verbs) -> None:
    for n in range(4):
        publish(db, n)
    assert relay(db, max_events=4) == (4, True)
    assert relay(db, max_events=4) == (0, False)
    assert due(db) == []


def test_a_quiet_subscription_writes_nothing(db: Verbs, sessions: Sessions) -> None:
    publish(db, 1, "order.gone")
    assert due(db) == []
    before = cursor(db)
    watch = sessions.open()
    with watch.connection.transaction():
        assert due(watch) == []
        assert watch.value("select pg_current_xact_id_if_assigned() is null")
        assert relay(watch) == (0, False)
    assert cursor(db) == before


@pytest.mark.parametrize(
    ("start", "wanted"), [("now", [3, 4]), ("beginning", [1, 2, 3, 4]), ("after 1", [2, 3, 4])]
)
def test_a_new_subscription_begins_where_it_says(
    db: Verbs, sessions: Sessions, *, start: str, wanted: list[int]
) -> None:
    """A transaction that is open when it begins counts as coming after it."""
    open_one = sessions.open()
    publish(db, 1)
    publish(db, 2)
    position = db.value("select min(position) from hudhud.event")
    open_one.connection.execute("begin")
    publish(open_one, 3)
    name = subscribe(db, "late", start=str(position) if start == "after 1" else start)
    open_one.connection.execute("commit")
    publish(db, 4)
    relay_all(db, name, max_events=1)
    assert numbers(db, name) == wanted


def test_where_it_begins_is_asked_once(db: Verbs) -> None:
    publish(db, 1)
    subscribe(db, start="beginning", queue="post", lane="high", max_attempts=3)
    publish(db, 2)
    relay_all(db)
    assert numbers(db) == [1, 2]
    (line,) = db.rows("select distinct queue, lane, max_attempts from hudhud.job")
    assert line == ("post", 1, 3)


def test_jobs_are_claimed_in_the_order_of_the_events(db: Verbs) -> None:
    for n in range(20):
        publish(db, n, aggregate_type="order", aggregate_id=str(n % 2))
    relay_all(db, max_events=7)
    claim = db.claim(100)
    wanted = [document["id"] for document in documents(db)]
    payloads = db.values(
        "select payload -> 'event' ->> 'id' from unnest(%s::uuid[]) with ordinality c(id, n)"
        " join hudhud.job j using (id) order by n",
        claim.job_ids,
    )
    assert wanted == []
    assert payloads == [
        str(one) for one in db.values("select id from hudhud.event order by position")
    ]


def test_a_relay_hints_at_the_queue_of_its_jobs(db: Verbs) -> None:
    subscribe(db, queue="post")
    publish(db, 1)
    with psycopg.connect(db.connection.info.dsn, autocommit=True) as listener:
        listener.execute("listen hudhud")
        listener.execute("select * from hudhud.relay(%s)", [NAME])
        assert [one.payload for one in listener.notifies(timeout=10, stop_after=1)] == ["post"]
