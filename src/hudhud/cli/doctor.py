"""`hudhud doctor`: look for what is wrong, say what to do, and say what cannot be seen."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

import psycopg
import typer

from hudhud.cli import doctor_events
from hudhud.cli.database import CONNECT_SECONDS, configured, session, url_of
from hudhud.cli.finding import Finding, Verdict, judge
from hudhud.cli.main import SCHEMA
from hudhud.cli.options import ConfigFile, DatabaseUrl, Json
from hudhud.cli.output import print_one, print_rows
from hudhud.errors import SchemaError
from hudhud.store import events, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hudhud.config import Config

    Row = Mapping[str, object]

SERVER_MIN = 150_000
DAYS_AHEAD_MIN = 7
CLOCK_SECONDS_OFF_MAX = 1.0
TRANSACTION_SECONDS_MAX = 300.0
SEEN_SECONDS = 30
OVERDUE_SECONDS = 30
"""Any worker takes back what ran out every second or so; this is no delay but nobody doing it."""
LEASES_MAX = 1_000
EVENTS_MAX = 1_000
STALL_SECONDS = 60.0
LISTEN_SECONDS = 3.0


def doctor(
    *, as_json: Json = False, config_file: ConfigFile = None, database_url: DatabaseUrl = None
) -> None:
    """Look for what is wrong; exit 1 if something is, 3 without a database, 4 for its schema."""
    config = configured(config_file, arguments={"database_url": database_url})
    url = url_of(config)
    with session(url) as opened:
        schema = _schema(url)
        findings = [schema]
        if schema.verdict is Verdict.FINE:
            (row,) = opened.rows(
                "doctor",
                seen_seconds=SEEN_SECONDS,
                overdue_seconds=OVERDUE_SECONDS,
                count_max=LEASES_MAX,
            )
            workers = opened.rows("workers", seen_seconds=SEEN_SECONDS, rows_max=100)
            findings += [*_server(row), *_state(row, workers)]
            findings += doctor_events.look(
                opened.rows("subscriptions", count_max=EVENTS_MAX),
                opened.call(events.relay_stalls(STALL_SECONDS)),
                is_copy=bool(row["is_copy"]),
            )
            findings += [_listener(config, url), *_sight(row)]
    _print(findings, config, as_json=as_json)
    if schema.verdict is Verdict.WRONG:
        raise typer.Exit(SCHEMA)
    if any(finding.verdict is Verdict.WRONG for finding in findings):
        raise typer.Exit(1)


def _schema(url: str) -> Finding:
    try:
        pending = migrate.pending(url)
    except SchemaError as error:
        return Finding(Verdict.WRONG, "schema", str(error))
    if pending:
        return Finding(Verdict.WRONG, "schema", migrate.told(pending))
    return Finding(Verdict.FINE, "schema", "is this version's")


def _server(row: Row) -> Iterator[Finding]:
    number = cast("int", row["server_version_number"])
    yield judge(
        "PostgreSQL",
        str(row["server_version"]),
        "hudhud needs 15 or newer.",
        is_fine=number >= SERVER_MIN,
    )
    yield judge(
        "primary",
        "writes are taken here" if not row["is_replica"] else "this is a read-only replica",
        "Point database_url at the primary.",
        is_fine=not row["is_replica"],
    )
    durable = row["fsync"] == "on" and row["synchronous_commit"] != "off"
    yield judge(
        "durability",
        f"fsync {row['fsync']}, synchronous_commit {row['synchronous_commit']}",
        "What was acknowledged may be lost in a crash. Switch both on.",
        is_fine=durable,
    )


def _state(row: Row, workers: list[dict[str, object]]) -> Iterator[Finding]:
    days = cast("int", row["partition_days_ahead"])
    yield judge(
        "partitions",
        f"jobs can be enqueued for {days} more days",
        "No maintainer has run for a week. Start a worker, or run `hudhud migrate`.",
        is_fine=days >= DAYS_AHEAD_MIN,
    )
    off = cast("float", row["clock_seconds_off"])
    yield judge(
        "clock",
        f"hudhud.clock() is {off:+.1f} s from the server's",
        "A test has set this database's clock. Tests belong on a database of their own.",
        is_fine=abs(off) <= CLOCK_SECONDS_OFF_MAX,
    )
    names = ", ".join(f"{one['name']} ({', '.join(_texts(one['queues']))})" for one in workers)
    yield Finding(
        Verdict.FINE if workers else Verdict.NOTE,
        "workers",
        f"{row['workers']} seen within {SEEN_SECONDS} s: {names}"
        if workers
        else f"none was seen within {SEEN_SECONDS} s; nothing runs. Start `hudhud worker`.",
    )
    yield _leases(row)
    yield _effects(row)
    oldest = cast("float | None", row["oldest_transaction_seconds"]) or 0.0
    yield judge(
        "transactions",
        f"the oldest open one that can be seen is {oldest:.0f} s old",
        "While it is open nothing can be cleaned up behind it. Find it in pg_stat_activity.",
        is_fine=oldest <= TRANSACTION_SECONDS_MAX,
    )


def _leases(row: Row) -> Finding:
    number = cast("int", row["leases_overdue"])
    many = f"{number} or more" if number >= LEASES_MAX else str(number)
    late = cast("float | None", row["overdue_seconds_max"]) or 0.0
    return judge(
        "leases",
        f"{many} ended more than {OVERDUE_SECONDS} s ago, the oldest {late:.0f} s, and nobody took"
        " their jobs back"
        if number
        else "none is overdue",
        "Start a worker; if one runs, look in its log for maintainer, and in pg_stat_activity for"
        " an open transaction that holds them.",
        is_fine=not number,
    )


def _effects(row: Row) -> Finding:
    number = cast("int", row["effects_asking"])
    many = f"{number} or more" if number >= LEASES_MAX else str(number)
    return judge(
        "effects",
        f"of {many} nobody knows what became" if number else "none waits for an operator",
        "Ask the provider, then: hudhud effects --unknown, hudhud effects decide ID --as done.",
        is_fine=not number,
    )


def _listener(config: Config, url: str) -> Finding:
    """Send ourselves a notification, as the worker's listener does to prove that it hears."""
    direct = config.direct_url or url
    with psycopg.connect(
        direct, autocommit=True, prepare_threshold=None, connect_timeout=CONNECT_SECONDS
    ) as connection:
        connection.execute("listen hudhud_doctor")
        connection.execute("notify hudhud_doctor")
        heard = list(connection.notifies(timeout=LISTEN_SECONDS, stop_after=1))
    return judge(
        "listener",
        "notifications arrive" if heard else "a notification did not arrive",
        "A pooler in between swallows it: give direct_url, past the pooler. Jobs start by polling.",
        is_fine=bool(heard),
    )


def _sight(row: Row) -> Iterator[Finding]:
    if not row["sees_all"]:
        yield Finding(
            Verdict.NOTE,
            "not visible",
            f"what other roles' connections do, and their open transactions: {row['role']} lacks"
            " pg_read_all_stats",
        )
    yield Finding(
        Verdict.NOTE,
        "not visible",
        "the disk that is left, backups and replicas: ask the server's own monitoring",
    )


def _texts(value: object) -> list[str]:
    return cast("list[str]", value)


def _print(findings: list[Finding], config: Config, *, as_json: bool) -> None:
    settings = [asdict(setting) for setting in config.explain()]
    rows = [asdict(finding) for finding in findings]
    if as_json:
        print_one({"findings": rows, "settings": settings}, as_json=True)
        return
    print_rows(settings, ("key", "value", "origin"), as_json=False)
    typer.echo()
    for finding in findings:
        typer.echo(f"{finding.verdict.value.ljust(6)}{finding.subject.ljust(14)}{finding.detail}")
