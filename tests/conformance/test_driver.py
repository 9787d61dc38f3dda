"""One suite for every driver: what a user's connection does with our calls, in their transaction.

The behaviour is held, not the names: commit, rollback, savepoints, errors, values, and nothing
that a driver does behind its user's back.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from hudhud.domain.event import NewEvent, Published
from hudhud.domain.job import Enqueued, Lane, NewJob, Outcome, Status
from hudhud.errors import (
    DuplicateJobError,
    HudhudError,
    InvalidEventError,
    InvalidJobError,
    JobNotFoundError,
    MoveRefusedError,
    PayloadTooLargeError,
    SchemaError,
    UnknownTypeError,
)
from hudhud.store import events, idempotency, jobs, keys, runs, upkeep
from hudhud.store.call import Arg, Call, nothing
from hudhud.store.reads import Read
from hudhud.store.status import JobStatus, status_of, status_read
from tests.support.adapters import ADAPTERS, Adapter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from tests.support.server import Server

LATER = datetime(2035, 1, 15, 8, 30, 0, 123456, tzinfo=UTC)
EVERY_OPTION = NewJob(
    "replaced",
    {"a": 1},
    version=2,
    tenant_id="بانک",
    queue="bank",
    lane=Lane.HIGH,
    on_conflict="return_existing",
    unique_for_seconds=3600.0,
    available_at=LATER,
    expires_at=LATER + timedelta(days=1),
    max_attempts=3,
    correlation_id="cørrelation",
    traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    tags=["یک", 'two "quoted", {braced}', "back\\slash"],
)


class BrokenOnPurposeError(Exception):
    """Ends a transaction in the middle."""


@pytest.fixture(scope="module", params=ADAPTERS)
def adapter(request: pytest.FixtureRequest, server: Server) -> Iterator[Adapter]:
    name = f"conformance_{uuid.uuid4().hex}"
    dsn = server.create(name)
    with psycopg.connect(server.admin(dsn)) as connection:
        connection.execute("create table comment (text text)")
        connection.execute("grant all on comment to hudhud")
        connection.execute("insert into hudhud.queue (name, is_strict) values ('strict', true)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # one suite, also for what is not async
        yield ADAPTERS[request.param](dsn)
    server.drop(name)


@pytest.fixture
def fresh() -> str:
    """Give a job type that nobody else has."""
    return f"type_{uuid.uuid4().hex}"


def look(adapter: Adapter, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Ask from outside, on a connection of its own."""
    with psycopg.connect(adapter.dsn, prepare_threshold=None) as connection:
        return connection.execute(query.encode(), values).fetchall()


def jobs_of(adapter: Adapter, job_type: str) -> list[UUID]:
    return [row[0] for row in look(adapter, "select id from hudhud.job where type = %s", job_type)]


async def status(adapter: Adapter, job_id: UUID) -> JobStatus:
    async with adapter.transaction() as connection:
        found = status_of(await adapter.run(connection, status_read(job_id, None)))
    assert found is not None
    return found


async def enqueue(adapter: Adapter, new_job: NewJob) -> Enqueued:
    async with adapter.transaction() as connection:
        return await adapter.run(connection, jobs.enqueue(new_job))


async def make_dead(adapter: Adapter, job_type: str) -> UUID:
    """Take a job of one's own through claim and finish to its death."""
    queue = f"queue_{uuid.uuid4().hex}"
    job = await enqueue(adapter, NewJob(job_type, {"n": 1}, queue=queue))
    async with adapter.transaction() as connection:
        request = runs.ClaimRequest(uuid.uuid4(), queue, [2], ["default"], [0], [10], 30)
        claimed = await adapter.run(connection, runs.claim(request))
        assert claimed is not None
        settlement = runs.Settlement(
            claimed.lease_id, 1, Outcome.FAIL, code="card_refused", error="نه", fingerprint="f"
        )
        finished = await adapter.run(
            connection, runs.finish([claimed.lease_id], [True], settlements=[settlement])
        )
        assert finished == runs.Finished(1, [], 0)
    return job.id


async def test_a_commit_keeps_the_job_with_the_users_own_rows(adapter: Adapter, fresh: str) -> None:
    async with adapter.transaction() as connection:
        await adapter.execute(connection, f"insert into comment values ('{fresh}')")  # noqa: S608
        enqueued = await adapter.run(connection, jobs.enqueue(NewJob(fresh, {})))
        assert jobs_of(adapter, fresh) == []  # the driver has committed nothing
    assert jobs_of(adapter, fresh) == [enqueued.id]
    assert look(adapter, "select count(*) from comment where text = %s", fresh) == [(1,)]


async def test_a_rollback_takes_the_job_with_it(adapter: Adapter, fresh: str) -> None:
    async def break_off() -> None:
        async with adapter.transaction() as connection:
            await adapter.execute(connection, f"insert into comment values ('{fresh}')")  # noqa: S608
            await adapter.run(connection, jobs.enqueue(NewJob(fresh, {})))
            raise BrokenOnPurposeError

    with pytest.raises(BrokenOnPurposeError):
        await break_off()
    assert jobs_of(adapter, fresh) == []
    assert look(adapter, "select count(*) from comment where text = %s", fresh) == [(0,)]


async def test_a_savepoint_takes_only_what_is_inside_it(adapter: Adapter, fresh: str) -> None:
    async def break_off(connection: object) -> None:
        async with adapter.savepoint(connection):
            await adapter.run(connection, jobs.enqueue(NewJob(fresh, {})))
            raise BrokenOnPurposeError

    async with adapter.transaction() as connection:
        before = await adapter.run(connection, jobs.enqueue(NewJob(fresh, {})))
        with pytest.raises(BrokenOnPurposeError):
            await break_off(connection)
        async with adapter.savepoint(connection):
            inside = await adapter.run(connection, jobs.enqueue(NewJob(fresh, {})))
    assert set(jobs_of(adapter, fresh)) == {before.id, inside.id}


async def test_a_refusal_inside_a_savepoint_leaves_the_rest_alone(
    adapter: Adapter, fresh: str
) -> None:
    async with adapter.transaction() as connection:
        first = NewJob(fresh, {}, idempotency_key="k")
        kept = await adapter.run(connection, jobs.enqueue(first))
        again = NewJob(fresh, {}, idempotency_key="k", on_conflict="reject")
        with pytest.raises(DuplicateJobError, match=str(kept.id)):
            async with adapter.savepoint(connection):
                await adapter.run(connection, jobs.enqueue(again))
        last = await adapter.run(connection, jobs.enqueue(NewJob(fresh, {})))
    assert set(jobs_of(adapter, fresh)) == {kept.id, last.id}


async def test_a_refusal_without_a_savepoint_aborts_the_transaction_as_postgresql_does(
    adapter: Adapter, fresh: str
) -> None:
    async def go_on() -> None:
        async with adapter.transaction() as connection:
            await adapter.run(connection, jobs.enqueue(NewJob(fresh, {})))
            with pytest.raises(InvalidJobError):
                await adapter.run(connection, jobs.enqueue(NewJob(fresh, {}, lane="urgent")))
            await adapter.run(connection, jobs.enqueue(NewJob(fresh, {})))

    with pytest.raises(Exception, match="current transaction is aborted") as caught:
        await go_on()
    assert not isinstance(caught.value, HudhudError)
    assert jobs_of(adapter, fresh) == []


REFUSED: list[tuple[Call[object], type[HudhudError], str]] = [
    (jobs.enqueue(NewJob("x", {}, lane="urgent")), InvalidJobError, "lane must be critical"),
    (jobs.enqueue(NewJob("", {})), InvalidJobError, "type must have 1 to 200"),
    (jobs.enqueue(NewJob("x", {"a": "x" * 70_000})), PayloadTooLargeError, "reference"),
    (jobs.enqueue(NewJob("x", {}, queue="strict")), UnknownTypeError, "strict"),
    (jobs.cancel(uuid.UUID(int=7), actor="a"), JobNotFoundError, "There is no job"),
    (Call("no_such_function", (), nothing), SchemaError, "hudhud migrate"),
    (Call("cancel", (Arg("wrong", "text", "x"),), nothing), SchemaError, "hudhud migrate"),
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused[2])
async def test_what_the_server_refuses_is_the_same_error_everywhere(
    adapter: Adapter, refused: tuple[Call[object], type[HudhudError], str]
) -> None:
    statement, error_class, words = refused
    with pytest.raises(error_class, match=words) as caught:
        async with adapter.transaction() as connection:
            await adapter.run(connection, statement)
    assert re.fullmatch(r"[^\n<]+\.", str(caught.value))  # the sentence alone, nothing around it
    assert caught.value.__cause__ is not None


async def test_what_only_the_server_knows_stays_its_drivers_error(adapter: Adapter) -> None:
    with pytest.raises(Exception, match="division by zero") as caught:
        async with adapter.transaction() as connection:
            await adapter.execute(connection, "select 1 / 0")
    assert not isinstance(caught.value, HudhudError)


async def test_what_is_refused_here_never_reaches_the_transaction(
    adapter: Adapter, fresh: str
) -> None:
    """A46: U+0000 anywhere is refused by its path, single and bulk, and nothing is aborted."""
    bad_payload = NewJob(fresh, {"a": [{"b\0": 1}]})
    bad_key = NewJob(fresh, {}, idempotency_key="k\0")
    async with adapter.transaction() as connection:
        with pytest.raises(InvalidJobError, match=r"^\$\.a\[0\] has the key"):
            await adapter.run(connection, jobs.enqueue(bad_payload))
        with pytest.raises(InvalidJobError, match=r"position 2 was refused: idempotency_key"):
            await adapter.run(connection, jobs.enqueue_many([NewJob(fresh, {}), bad_key]))
        kept = await adapter.run(connection, jobs.enqueue(NewJob(fresh, {})))
    assert jobs_of(adapter, fresh) == [kept.id]


async def test_a_payload_comes_back_exactly(adapter: Adapter, fresh: str) -> None:
    """A45, A47: whatever codecs the connection has."""
    document = {
        "id": 2**53 + 1,
        "n": 18446744073709551615,
        "long": 10**999,
        "متن": "می\u200cپرسم 🦜",
        "looks": "\\u0000 C:\\u0000x",
        "quotes": "a'b\"c{,}\\",
        "null": None,
        "nested": {"empty": {}, "list": [1, 1.5, True, None, "x", [], {"a": -0.25}]},
        "%(mark)s :mark $1": "%s ?",
    }
    single = await enqueue(adapter, NewJob(fresh, document))
    async with adapter.transaction() as connection:
        [bulk] = await adapter.run(connection, jobs.enqueue_many([NewJob(fresh, document)]))
    for enqueued in (single, bulk):
        assert (await status(adapter, enqueued.id)).payload == document


async def test_a_payload_of_the_largest_size_is_taken(adapter: Adapter, fresh: str) -> None:
    """A37: the wake-up carries a queue's name, never the data."""
    document = {"متن": "س" * ((65_536 - 20) // 2)}
    enqueued = await enqueue(adapter, NewJob(fresh, document))
    assert (await status(adapter, enqueued.id)).payload == document


async def test_a_job_has_the_fields_that_were_asked_for(adapter: Adapter, fresh: str) -> None:
    enqueued = await enqueue(adapter, replace(EVERY_OPTION, type=fresh, idempotency_key="kéy"))
    assert type(enqueued.deduplicated) is bool
    found = await status(adapter, enqueued.id)
    assert isinstance(found.id, uuid.UUID)
    assert found == JobStatus(
        id=enqueued.id,
        type=fresh,
        version=2,
        tenant_id="بانک",
        idempotency_key="kéy",
        payload={"a": 1},
        status=Status.PENDING,
        waiting_for="time",
        attempts=0,
        max_attempts=3,
        available_at=LATER,
        locked_by=None,
        locked_until=None,
        last_error_code=None,
        created_at=found.created_at,
        finished_at=None,
        correlation_id="cørrelation",
    )
    assert found.created_at.utcoffset() is not None


COLUMNS = (
    "version, lane, max_attempts, available_at, expires_at, tenant_id, queue, payload,"
    " idempotency_key, correlation_id, traceparent, tags"
)


async def test_bulk_takes_every_option_that_the_single_form_takes(
    adapter: Adapter, fresh: str
) -> None:
    """A17: nothing is dropped silently, whether it holds for all or for some."""
    full = replace(EVERY_OPTION, type=fresh, unique_for_seconds=None)
    plain = NewJob(fresh, {})
    delayed = NewJob(fresh, {"a": 2}, delay_seconds=86_400, unique_by=["a"], unique_for_seconds=60)
    single = [(await enqueue(adapter, job)).id for job in (full, plain, delayed)]
    async with adapter.transaction() as connection:
        await adapter.run(connection, jobs.cancel(single[2], actor="test"))
        await adapter.execute(connection, "delete from hudhud.idempotency")
        alike = await adapter.run(connection, jobs.enqueue_many([full]))
        mixed = await adapter.run(connection, jobs.enqueue_many([full, plain, delayed]))
    query = f"select {COLUMNS} from hudhud.job where id = any(%s) order by id"  # noqa: S608
    wanted = look(adapter, query, single)
    assert look(adapter, query, [one.id for one in alike]) == wanted[:1]
    found = look(adapter, query, sorted(one.id for one in mixed))
    by_payload = sorted(wanted, key=lambda row: str(row[7]))
    for one, other in zip(sorted(found, key=lambda row: str(row[7])), by_payload, strict=True):
        assert one[:3] + one[4:] == other[:3] + other[4:]
        assert (one[3] is None) == (other[3] is None)


async def test_bulk_and_single_answer_to_the_same_keys(adapter: Adapter, fresh: str) -> None:
    """A17: one job per key, and each item is told whether it was new."""
    first = await enqueue(adapter, NewJob(fresh, {}, idempotency_key="key 3"))
    items = [NewJob(fresh, {"n": n}, idempotency_key=f"key {n % 5}") for n in range(20)]
    async with adapter.transaction() as connection:
        answers = await adapter.run(connection, jobs.enqueue_many(items))
    assert len({one.id for one in answers}) == 5
    assert [one.deduplicated for one in answers[:5]] == [False, False, False, True, False]
    assert all(one.deduplicated for one in answers[5:])
    assert answers[3].id == answers[8].id == first.id
    again = await enqueue(adapter, items[0])
    assert again == Enqueued(answers[0].id, deduplicated=True)


async def test_each_job_of_a_batch_has_its_own_kind_of_key_or_none(
    adapter: Adapter, fresh: str
) -> None:
    """A17: a neighbour's unique_by makes no key for a job that asked for none."""
    batch = [
        NewJob(fresh, {}, idempotency_key="k"),
        NewJob(fresh, {"a": 1}, unique_by="payload"),
        NewJob(fresh, {}),
        NewJob(fresh, {}),
        NewJob(fresh, {"a": 1, "b": 2}, unique_by=["a"]),
    ]
    async with adapter.transaction() as connection:
        answers = await adapter.run(connection, jobs.enqueue_many(batch))
        assert [one.deduplicated for one in answers] == [False, False, False, False, True]
        both = NewJob(fresh, {}, idempotency_key="k", unique_by="payload")
        with pytest.raises(InvalidJobError, match="not both"):
            await adapter.run(connection, jobs.enqueue_many([NewJob(fresh, {}), both]))


async def test_an_event_is_written_with_the_users_own_rows_or_not_at_all(
    adapter: Adapter, fresh: str
) -> None:
    async def publish(*, breaks_off: bool) -> Published:
        async with adapter.transaction() as connection:
            await adapter.execute(connection, f"insert into comment values ('{fresh}')")  # noqa: S608
            event = NewEvent(
                fresh,
                {"n": 2**70, "text": "هدهد"},
                version=2,
                tenant_id="acme",
                aggregate=("order", fresh),
                occurred_at=datetime(2027, 1, 15, tzinfo=UTC),
                correlation_id="c",
                causation_id=uuid.UUID(int=7),
                traceparent="t",
            )
            published = await adapter.run(connection, events.publish(event, notify=False))
            if breaks_off:
                raise BrokenOnPurposeError
            return published

    with pytest.raises(BrokenOnPurposeError):
        await publish(breaks_off=True)
    published = await publish(breaks_off=False)
    assert published.sequence == 1
    query = (
        "select id, payload::text, correlation_id, causation_id from hudhud.event where type = %s"
    )
    assert look(adapter, query, fresh) == [
        (published.id, f'{{"n": {2**70}, "text": "هدهد"}}', "c", uuid.UUID(int=7))
    ]
    assert look(adapter, "select count(*) from comment where text = %s", fresh) == [(1,)]
    async with adapter.transaction() as connection:

        async def publish_refused() -> None:
            async with adapter.savepoint(connection):
                refused = NewEvent(fresh, {}, correlation_id="x" * 300)
                await adapter.run(connection, events.publish(refused))

        with pytest.raises(InvalidEventError, match="correlation_id"):
            await publish_refused()
        await adapter.run(connection, events.publish(NewEvent(fresh, {})))


async def test_an_event_is_taken_in_with_what_follows_from_it(adapter: Adapter, fresh: str) -> None:
    take_in = idempotency.take_in(fresh, uuid.uuid4(), tenant_id="بانک")

    async def break_off() -> None:
        async with adapter.transaction() as connection:
            assert await adapter.run(connection, take_in) is True
            raise BrokenOnPurposeError

    with pytest.raises(BrokenOnPurposeError):
        await break_off()
    for expected in (True, False):
        async with adapter.transaction() as connection:
            assert await adapter.run(connection, take_in) is expected


async def test_an_answer_comes_back_as_it_was_kept(adapter: Adapter, fresh: str) -> None:
    request = idempotency.RequestKey("بانک", fresh, bytes(range(256)))
    kept = idempotency.Answer(202, {"location": "/v1/jobs/7"}, '{"متن": "\\u0000", "n": 1.50}')
    async with adapter.transaction() as connection:
        assert await adapter.run(connection, idempotency.take_request(request)) == ("new", None)
        await adapter.run(connection, idempotency.keep_answer(request, kept))
    async with adapter.transaction() as connection:
        taken = await adapter.run(connection, idempotency.take_request(request))
    assert taken == ("answered", kept)


async def test_a_key_made_of_the_payload_knows_missing_from_null_and_no_order(
    adapter: Adapter, fresh: str
) -> None:
    """A15."""
    documents: list[dict[str, object]] = [{"a": 1}, {}, {"a": 1, "b": None}, {"b": None, "a": 1}]
    answers = [
        await enqueue(adapter, NewJob(fresh, document, unique_by="payload"))
        for document in documents
    ]
    assert [one.deduplicated for one in answers] == [False, False, False, True]
    assert answers[3].id == answers[2].id


async def test_no_jobs_are_enqueued_by_an_empty_list(adapter: Adapter) -> None:
    async with adapter.transaction() as connection:
        assert await adapter.run(connection, jobs.enqueue_many([])) == []


async def test_a_waiting_job_is_cancelled_once(adapter: Adapter, fresh: str) -> None:
    enqueued = await enqueue(adapter, NewJob(fresh, {}))
    async with adapter.transaction() as connection:
        cancel = jobs.cancel(enqueued.id, actor="op", reason="دلیل", tenant_id="default")
        assert await adapter.run(connection, cancel) == "cancelled"
    found = await status(adapter, enqueued.id)
    assert found.status is Status.CANCELLED
    assert found.is_final
    with pytest.raises(MoveRefusedError, match="has ended"):
        async with adapter.transaction() as connection:
            await adapter.run(connection, jobs.cancel(enqueued.id, actor="op"))


async def test_another_tenants_job_is_not_there(adapter: Adapter, fresh: str) -> None:
    """A87."""
    enqueued = await enqueue(adapter, NewJob(fresh, {}))
    async with adapter.transaction() as connection:
        assert await adapter.run(connection, status_read(enqueued.id, "other")) == []
    with pytest.raises(JobNotFoundError):
        async with adapter.transaction() as connection:
            await adapter.run(connection, jobs.cancel(enqueued.id, actor="op", tenant_id="other"))
    assert (await status(adapter, enqueued.id)).status is Status.PENDING


async def test_a_job_is_rescheduled_and_back(adapter: Adapter, fresh: str) -> None:
    enqueued = await enqueue(adapter, NewJob(fresh, {}))
    async with adapter.transaction() as connection:
        await adapter.run(connection, jobs.reschedule(enqueued.id, LATER, actor="op"))
    found = await status(adapter, enqueued.id)
    assert (found.waiting_for, found.available_at) == ("time", LATER)
    async with adapter.transaction() as connection:
        await adapter.run(connection, jobs.reschedule(enqueued.id, None, actor="op"))
    assert (await status(adapter, enqueued.id)).waiting_for is None


async def test_a_dead_job_is_replayed_and_resubmitted_as_new_jobs(
    adapter: Adapter, fresh: str
) -> None:
    first, second = await make_dead(adapter, fresh), await make_dead(adapter, fresh)
    dead = await status(adapter, first)
    assert (dead.status, dead.last_error_code) == (Status.DEAD, "card_refused")
    async with adapter.transaction() as connection:
        replayed = await adapter.run(connection, jobs.replay(first, actor="op", reason="again"))
        resubmitted = await adapter.run(
            connection, jobs.resubmit(second, {"n": 2**60}, actor="op", reason="corrected")
        )
    assert (await status(adapter, replayed)).payload == {"n": 1}
    assert (await status(adapter, resubmitted)).payload == {"n": 2**60}
    assert (await status(adapter, second)).payload == {"n": 1}


async def test_a_worker_could_live_on_any_connection(adapter: Adapter, fresh: str) -> None:
    """Arrays of every type go out and come back, nulls inside them too."""
    worker_id = uuid.uuid4()
    worker = runs.NewWorker(worker_id, "w", "host", 1, [fresh], [f"{fresh}:1"], "0")
    schema = {"required": {"n": "integer"}, "optional": {"note": ["string", "null"]}, "open": False}
    async with adapter.transaction() as connection:
        await adapter.run(connection, runs.register_worker(worker))
        await adapter.run(
            connection,
            runs.announce([{"type": fresh, "version": 1, "queue": fresh, "schema": schema}]),
        )
    with pytest.raises(InvalidJobError, match=r"\$\.n must be integer, not string"):
        await enqueue(adapter, NewJob(fresh, {"n": "1"}))
    many = [
        NewJob(fresh, {"n": 2**70}),
        NewJob(fresh, {"n": 1}, tags=["دو"]),
        NewJob(fresh, {"n": 2}),
    ]
    async with adapter.transaction() as connection:
        made = await adapter.run(connection, jobs.enqueue_many(many))
    async with adapter.transaction() as connection:
        request = runs.ClaimRequest(worker_id, fresh, [0, 2], ["x", "default"], [0, 0], [5, 5], 30)
        claimed = await adapter.run(connection, runs.claim(request))
        assert claimed is not None
        place = [claimed.job_ids.index(one.id) for one in made]
        assert claimed.tops is not None
        assert claimed.tops[0] is None
        assert claimed.counts == [0, 3]
        assert '"tags"' not in (claimed.extras[place[0]] or "")
        assert '"دو"' in (claimed.extras[place[1]] or "")
        assert await adapter.run(connection, runs.beat(worker_id)) == []
        lease = claimed.lease_id
        assert await adapter.run(connection, runs.renew(worker_id, [lease, worker_id], 30)) == [
            lease
        ]
        assert await adapter.run(connection, runs.claim(request)) is None
    async with adapter.transaction() as connection:
        line = {"level": "info", "message": "نیمه", "progress": 0.5}
        await adapter.run(connection, runs.write_log(made[0].id, 1, [line]))
        assert await adapter.run(
            connection, runs.settle(lease, place[0] + 1, '{"n": 18446744073709551615}')
        )
        assert not await adapter.run(connection, runs.settle(lease, place[0] + 1))
        retry = runs.Settlement(
            lease, place[1] + 1, Outcome.RETRY, code="later", delay_seconds=60.5
        )
        finished = await adapter.run(
            connection,
            runs.finish(
                [lease],
                [False],
                part_leases=[lease],
                part_positions=[place[2] + 1],
                settlements=[retry],
            ),
        )
        assert (finished.settled, finished.lost_leases) == (2, [])
        finished = await adapter.run(connection, runs.finish([lease, worker_id], [True, True]))
        assert finished.lost_leases == [worker_id]
        await adapter.run(connection, runs.mark_busy(fresh, 0.5))
        await adapter.run(connection, runs.leave(worker_id))
    found = [(await status(adapter, one.id)).status for one in made]
    assert found == [Status.SUCCEEDED, Status.RETRYABLE, Status.SUCCEEDED]


async def test_the_maintainers_verbs_answer(adapter: Adapter) -> None:
    async with adapter.transaction() as connection:
        assert await adapter.run(connection, upkeep.stage()) >= 0
        assert await adapter.run(connection, upkeep.rescue()) == upkeep.Rescued(0, 0)
        assert await adapter.run(connection, upkeep.prune()) == 0
        assert await adapter.run(connection, upkeep.days_ahead()) >= 7
        assert await adapter.run(connection, upkeep.day_to_drop()) is None


async def test_a_key_is_found_by_its_hash_until_it_is_revoked(adapter: Adapter) -> None:
    secret_hash = uuid.uuid4().bytes * 2
    async with adapter.transaction() as connection:
        create = keys.create_key("ci", "بانک", ["read"], secret_hash=secret_hash, actor="op")
        key_id = await adapter.run(connection, create)
        found = await adapter.run(connection, keys.check_key(secret_hash))
        assert found == keys.KeyOwner(key_id, "بانک", ("read",))
        await adapter.run(connection, keys.revoke_key(key_id, actor="op"))
        assert await adapter.run(connection, keys.check_key(secret_hash)) is None


async def test_a_read_for_people_answers_with_dicts(adapter: Adapter, fresh: str) -> None:
    enqueued = await enqueue(adapter, NewJob(fresh, {}))
    params = {"tenant_id": None, "count_max": 1000, "seen_seconds": 60}
    async with adapter.transaction() as connection:
        rows = await adapter.run(connection, Read("queue_overview", params))
        none = await adapter.run(connection, Read("finals", {"ids": [enqueued.id]}))
    assert {"name", "ready", "is_strict"} <= set(rows[0])
    assert none == []
