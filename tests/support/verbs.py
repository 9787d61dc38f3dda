"""The verbs of the database as SQL names them, on one connection, for tests of the database.

They go past the package's own values (store/): what holds here holds for callers in any language.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg
import pytest
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from hudhud.store import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

Row: TypeAlias = Any  # a row with its columns as attributes, or its one value
Value: TypeAlias = Any  # an argument

WORKER: Final = uuid.UUID(int=7)

_EMPTY: Final = b"""
do $$
declare
    of_name text;
begin
    foreach of_name in array array[
        'api_key', 'audit', 'cancel_request', 'database_epoch', 'effect', 'event',
        'event_aggregate', 'event_type', 'idempotency', 'job', 'job_kept', 'job_type', 'lease',
        'log', 'log_kept', 'outcome', 'outcome_kept', 'queue', 'range', 'range_new', 'ready',
        'relay_state', 'scheduled', 'setting', 'subscription', 'subscription_cursor', 'waiting',
        'worker']
    loop
        execute format('delete from hudhud.%I', of_name);
    end loop;
    insert into hudhud.setting default values;
    insert into hudhud.database_epoch default values;
    insert into hudhud.relay_state default values;
end $$
"""


class Verbs:
    """Calls functions of the schema hudhud with named arguments.

    Impatient ones fail where they would have to wait for a lock (`is_impatient`).

    JSON is given as dicts (`payload`, `payloads`) or lists of them (`types`, `settlements`,
    `lines`). Rows come as named tuples.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.is_impatient = False

    def rows(self, query: str, *params: object) -> list[Row]:
        """Return the rows of a query with %s placeholders."""
        with self.connection.cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute(query.encode(), params or None)
            return cursor.fetchall() if cursor.description else []

    def row(self, query: str, *params: object) -> Row:
        """Return the one row of a query."""
        (row,) = self.rows(query, *params)
        return row

    def value(self, query: str, *params: object) -> Row:
        """Return the one value of a query's one row."""
        (value,) = self.row(query, *params)
        return value

    def values(self, query: str, *params: object) -> list[Row]:
        """Return the first column of a query."""
        return [row[0] for row in self.rows(query, *params)]

    def call(self, function: str, /, **args: object) -> list[Row]:
        """Return the rows of a function's answer."""
        named = ", ".join(f"{name} => %({name})s" for name in args)
        values = {name: _sent(name, value) for name, value in args.items()}
        statement = f"select * from hudhud.{function}({named})"  # noqa: S608
        with self._patience(), self.connection.cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute(statement.encode(), values)
            return cursor.fetchall()

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Let a function that has to wait for a lock fail at once, when that is asked for.

        Set for a transaction, not for the session, which a pooler may hand to another test.
        """
        if not self.is_impatient:
            yield
            return
        with self.connection.transaction():
            self.connection.execute("set local lock_timeout = '1ms'")
            yield

    def answer(self, function: str, /, **args: object) -> Row:
        """Return a function's one value, or its one row of several."""
        (row,) = self.call(function, **args)
        return row[0] if len(row) == 1 else row

    @property
    def pid(self) -> int:
        """The server's process behind this connection, in this transaction."""
        return int(self.value("select pg_backend_pid()"))

    def enqueue(self, type: str = "mail", payload: object = None, **options: object) -> UUID:  # noqa: A002
        """Enqueue a job; return its id."""
        sent = {} if payload is None else payload
        row = self.answer("enqueue", type=type, payload=sent, **options)
        return row.id  # type: ignore[no-any-return]

    def ranges(self, queue: str = "default") -> Row:
        """Return all scan ranges of a queue."""
        return self.answer("ranges", queue=queue)

    def claim(self, quantum: int = 100, *, queue: str = "default", **options: object) -> Row:
        """Claim up to quantum jobs of each scan range; None when nothing was found."""
        if "lanes" not in options:
            known = self.ranges(queue)
            options |= {"lanes": known.lanes, "tenants": known.tenants}
        amount = len(options["lanes"])  # type: ignore[arg-type]
        asked = {
            "worker_id": WORKER,
            "marks": [0] * amount,
            "quanta": [quantum] * amount,
            "lease_seconds": 30,
        }
        rows = self.call("claim", queue=queue, **(asked | options))
        return rows[0] if rows else None

    def claim_one(self, **options: object) -> Row:
        """Claim one job, which must be there, in a lease of its own."""
        claim = self.claim(1, **options)  # type: ignore[arg-type]
        assert claim is not None
        assert len(claim.job_ids) == 1
        return claim

    def finish(
        self,
        *claims: Row,
        closes: bool = True,
        parts: Sequence[tuple[Row, int]] = (),
        ends: Sequence[dict[str, object]] = (),
    ) -> Row:
        """Finish the leases of some claims, in one call."""
        return self.answer(
            "finish",
            leases=[claim.lease_id for claim in claims],
            closes=[closes] * len(claims),
            part_leases=[claim.lease_id for claim, _ in parts],
            part_positions=[position for _, position in parts],
            settlements=list(ends) or None,
        )

    def end(self, claim: Row, outcome: str, **particulars: Value) -> Row:
        """Finish a claim's lease, its first job by an outcome, the others by success."""
        return self.finish(claim, ends=[end(claim, outcome, **particulars)])

    def run(self, outcome: str, **particulars: Value) -> UUID:
        """Claim one job and end its run; return the job's id."""
        claim = self.claim_one()
        assert self.end(claim, outcome, **particulars).settled == 1
        return claim.job_ids[0]  # type: ignore[no-any-return]

    def status(self, job_id: UUID) -> Row:
        """Return a job as users see it."""
        return self.row("select * from hudhud.job_status where id = %s", job_id)

    def outcomes(self, job_id: UUID) -> list[Row]:
        """Return a job's ended runs, oldest first."""
        return self.rows(
            "select job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome, code,"
            " class as error_class, error, fingerprint, result"
            " from hudhud.outcome_all where job_id = %s order by run",
            job_id,
        )

    def place(self, job_id: UUID) -> str | None:
        """Return where a job waits: ready, scheduled or waiting; None when in no such place."""
        places = self.values(
            "select place from ("
            " select 'ready', job_id from hudhud.ready"
            " union all select 'scheduled', job_id from hudhud.scheduled"
            " union all select 'waiting', job_id from hudhud.waiting) p(place, job_id)"
            " where job_id = %s",
            job_id,
        )
        assert len(places) <= 1, places
        return places[0] if places else None

    @contextmanager
    def refused(self, state: str, *words: str) -> Iterator[None]:
        """Expect an error of a SQLSTATE whose message has all these words; undo to before it."""
        with pytest.raises(psycopg.Error) as caught, self.connection.transaction():
            yield
        assert caught.value.sqlstate == state, caught.value
        for word in words:
            assert word in str(caught.value)

    def take_clock(self) -> None:
        """Let `advance` move the database's clock; for owners of the schema, as tests are."""
        self.connection.execute(
            """
            create table hudhud.test_clock (at timestamptz not null);
            insert into hudhud.test_clock values (clock_timestamp());
            create or replace function hudhud.clock() returns timestamptz
            language sql volatile parallel safe return (select at from hudhud.test_clock);
            """
        )

    def give_clock_back(self) -> None:
        """Let the database's clock be the real one again."""
        if self.value("select to_regclass('hudhud.test_clock') is not null"):
            clock = (migrate.SQL / "functions" / "base" / "clock.sql").read_text("utf-8")
            self.connection.execute(clock.encode())
            self.connection.execute("drop table hudhud.test_clock")

    def empty(self) -> None:
        """Delete everything that tests write."""
        self.give_clock_back()
        self.connection.execute(_EMPTY)

    def advance(self, seconds: float) -> None:
        """Move a taken clock forward (or back)."""
        self.connection.execute(
            "update hudhud.test_clock set at = at + make_interval(secs => %s)", [seconds]
        )


def end(claim: Row, outcome: str, position: int = 1, **particulars: object) -> dict[str, object]:
    """Return one settlement, as `finish` takes it."""
    return {
        "lease": str(claim.lease_id),
        "position": position,
        "outcome": outcome,
        **particulars,
    }


def _sent(name: str, value: object) -> object:
    match value:
        case dict():
            return Jsonb(value)
        case list() if name in {"types", "settlements", "lines"} and _has_dict(value):
            return Jsonb(value)
        case list() if _has_dict(value):
            return [Jsonb(one) if isinstance(one, dict) else one for one in value]
        case _:
            return value


def _has_dict(values: list[object]) -> bool:
    return any(isinstance(value, dict) for value in values)
