"""docs/events.md is run as it stands: what a new user copies works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg

from hudhud.testing import assert_published, check_upcasters, drain

TEXT = (Path(__file__).parents[2] / "docs" / "events.md").read_text("utf-8")
TABLES = "create table comment (id integer, text text); create table notice (comment_id integer)"


def test_the_examples_do_what_the_page_says(database: str) -> None:
    first, *others = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(others) == 2
    shop: dict[str, Any] = {}
    with psycopg.connect(database, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(TABLES.encode())
    exec(first.replace("postgresql:///shop", database), shop)  # noqa: S102 - the page's own code
    shop["add_comment"](7, 1, "hello")
    app = shop["app"]
    drain(app).succeeded()
    with psycopg.connect(database, prepare_threshold=None) as connection:
        assert connection.execute("select comment_id from notice").fetchall() == [(7,)]
        assert_published(connection, "comment.created", {"post_id": 1}, aggregate=("comment", 7))
        for one in others:
            exec(one, shop)  # noqa: S102 - as above
        (upcast,) = check_upcasters(app)
        assert upcast.upcast == {"comment_id": 7, "post": "post:1"}
        app.publish(connection, "receipt.sent", {"order_id": 7, "email": "a@example.org"})


def test_the_sql_example_runs(connection: psycopg.Connection[Any]) -> None:
    (example,) = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    (row,) = connection.execute(example.encode()).fetchall()
    assert row[1] == 1


def test_every_setting_of_events_is_named(connection: psycopg.Connection[Any]) -> None:
    columns = connection.execute(
        "select column_name from information_schema.columns"
        " where table_schema = 'hudhud' and table_name = 'setting'"
        " and column_name in ('event_bytes_max', 'keep_events', 'keep_silent')"
    ).fetchall()
    assert len(columns) == 3
    for (name,) in columns:
        assert f"`setting.{name}`" in TEXT


def test_it_is_said_that_no_replication_slot_is_used(connection: psycopg.Connection[Any]) -> None:
    """A51."""
    assert "No replication slot is used" in TEXT
    slots = "select count(*) from pg_replication_slots where database = current_database()"
    row = connection.execute(slots.encode()).fetchone()
    assert row == (0,)
