"""The keeper of a test run's server: shared while the run lives, gone however it ends."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.server import KIND, join
from tests.support.wait import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def plain_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KIND, "embedded18")


def test_all_workers_of_a_run_join_one_server_that_ends_with_the_run(tmp_path: Path) -> None:
    session = tmp_path / "run"
    session.mkdir()
    with (session / "alive").open("w") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        server = join(session)
        assert join(session) == server
        with psycopg.connect(server.create("one")) as connection:
            found = connection.execute("select to_regclass('hudhud.job') is not null").fetchone()
        assert found == (True,)
    # The run's lock is free now, as the kernel frees it when a run is killed.
    until(lambda: not session.exists())


def test_a_server_that_cannot_start_is_reported_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KIND, "oracle")
    with (tmp_path / "alive").open("w") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        with pytest.raises(AssertionError, match="'oracle' is none of embedded18"):
            join(tmp_path)
