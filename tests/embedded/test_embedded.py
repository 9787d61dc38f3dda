"""The embedded server: durable, alone in its directory, and back after every kind of death."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from hudhud.embedded import Embedded, default_directory, find_server, launch
from hudhud.errors import ConfigError
from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import Iterator

OWNER = """
import sys
from hudhud.embedded import Embedded
with Embedded.start(sys.argv[1]) as server:
    print(server.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "server"


@pytest.fixture
def owner(directory: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that serves the directory, and its postmaster's pid."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def value(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def keep(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("create table if not exists kept (n int)")
        connection.execute("insert into kept values (1)")


def kept(dsn: str) -> object:
    return value(dsn, "select count(*) from kept")


@pytest.mark.parametrize("version", [18, 16])
def test_starts_the_version_that_was_asked_for(directory: Path, version: int) -> None:
    with Embedded.start(directory, version=version) as server:
        found = value(server.dsn, "select current_setting('server_version_num')::int / 10000")
    assert found == version


@pytest.mark.parametrize("name", ["fsync", "synchronous_commit", "full_page_writes"])
def test_is_durable_unless_asked_otherwise(directory: Path, name: str) -> None:
    with Embedded.start(directory) as server:
        assert value(server.dsn, f"show {name}") == "on"
    with Embedded.start(directory, durable=False) as server:
        assert value(server.dsn, f"show {name}") == "off"


def test_settings_reach_the_server(directory: Path) -> None:
    with Embedded.start(directory, settings={"work_mem": "5MB"}) as server:
        assert value(server.dsn, "show work_mem") == "5MB"


def test_its_user_owns_the_database_and_is_no_superuser(directory: Path) -> None:
    with Embedded.start(directory) as server:
        assert value(server.dsn, "show is_superuser") == "off"
        assert value(server.dsn, "select has_database_privilege(current_database(), 'create')")
        assert value(server.admin_dsn, "show is_superuser") == "on"


def test_only_its_owner_reaches_it(directory: Path) -> None:
    with Embedded.start(directory) as server:
        assert directory.stat().st_mode & 0o777 == 0o700
        assert value(server.dsn, "show listen_addresses") == ""


def test_data_outlives_a_stop(directory: Path) -> None:
    with Embedded.start(directory) as server:
        keep(server.dsn)
    with Embedded.start(directory) as server:
        assert kept(server.dsn) == 1


def test_stop_ends_open_connections_and_may_come_twice(directory: Path) -> None:
    server = Embedded.start(directory)
    connection = psycopg.connect(server.dsn)
    server.stop()
    server.stop()
    assert not server.is_running
    assert find_server(directory) is None
    with pytest.raises(psycopg.OperationalError):
        connection.execute("select 1")
    connection.close()


def test_committed_data_outlives_a_killed_postmaster(directory: Path) -> None:
    server = Embedded.start(directory)
    keep(server.dsn)
    server.kill()
    with Embedded.start(directory) as server:
        assert kept(server.dsn) == 1


def test_a_start_waits_for_backends_of_a_killed_postmaster(directory: Path) -> None:
    server = Embedded.start(directory)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        keep(server.dsn)
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)  # it cannot notice that its postmaster is gone
        server.kill()
        waiting = threading.Thread(target=resume_when_refused, args=(directory, backend))
        waiting.start()
        with Embedded.start(directory) as server:
            assert kept(server.dsn) == 1
        waiting.join()


def test_a_start_bears_that_its_status_file_comes_and_goes(tmp_path: Path) -> None:
    status = tmp_path / "data" / "postmaster.pid"
    status.parent.mkdir()
    flicker = (
        "import pathlib, signal, sys\nstatus = pathlib.Path(sys.argv[1])\n"
        # As a postmaster does; what a shell starts in the background ignores it.
        "signal.signal(signal.SIGQUIT, signal.SIG_DFL)\n"
        "while True: status.write_text('1'); status.unlink()\n"
    )
    with subprocess.Popen([sys.executable, "-c", flicker, str(status)]) as process:
        until(status.exists)
        assert not launch.becomes_ready(tmp_path, process, time.monotonic() + 1)


def resume_when_refused(directory: Path, backend: int) -> None:
    log = directory / "postgresql.log"
    until(lambda: "is still in use" in log.read_text("utf-8"))
    os.kill(backend, signal.SIGCONT)


def test_a_second_start_in_the_same_process_is_refused(directory: Path) -> None:
    with (
        Embedded.start(directory) as server,
        pytest.raises(ConfigError, match=f"Another hudhud .pid {os.getpid()}. serves"),
    ):
        Embedded.start(directory)
    assert not server.is_running


def test_a_second_start_beside_another_process_is_refused_and_can_join(
    directory: Path, owner: tuple[subprocess.Popen[str], int]
) -> None:
    process, _ = owner
    with pytest.raises(ConfigError, match=f"pid {process.pid}.*HUDHUD_DATABASE_URL=") as refusal:
        Embedded.start(directory)
    dsn = find_server(directory)
    assert dsn is not None
    assert dsn in str(refusal.value)
    keep(dsn)
    assert kept(dsn) == 1


def test_the_server_stops_when_its_process_is_killed(
    directory: Path, owner: tuple[subprocess.Popen[str], int]
) -> None:
    process, postmaster = owner
    process.kill()
    until(lambda: not is_alive(postmaster))
    assert find_server(directory) is None


def test_the_server_stops_when_its_process_ends_without_a_stop(directory: Path) -> None:
    code = (
        "import sys; from hudhud.embedded import Embedded; print(Embedded.start(sys.argv[1]).pid)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(directory)], check=True, capture_output=True, text=True
    ).stdout
    until(lambda: not is_alive(int(said)))


def test_a_start_right_after_a_kill_of_the_owner_finds_all_committed_data(
    directory: Path, owner: tuple[subprocess.Popen[str], int]
) -> None:
    dsn = find_server(directory)
    assert dsn is not None
    keep(dsn)
    owner[0].kill()
    owner[0].wait()
    with Embedded.start(directory) as server:
        assert kept(server.dsn) == 1


def test_a_server_that_lost_its_watcher_too_is_stopped_and_replaced(directory: Path) -> None:
    with Embedded.start(directory) as server:
        keep(server.dsn)
    orphan = leave_behind(directory)
    with Embedded.start(directory) as server:
        until(lambda: not is_alive(orphan))
        assert kept(server.dsn) == 1


def leave_behind(directory: Path) -> int:
    """Start a server that nobody holds: as when its owner and its watcher were killed."""
    code = """
import sys, hudhud.embedded.launch as launch
from hudhud.embedded import Embedded
launch._TIE = 'exec "$@"'
print(Embedded.start(sys.argv[1]).pid, flush=True)
"""
    said = subprocess.run(
        [sys.executable, "-c", code, str(directory)], check=True, capture_output=True, text=True
    ).stdout
    assert find_server(directory) is not None
    return int(said)


def test_a_stale_pid_file_that_names_a_living_process_is_no_obstacle(directory: Path) -> None:
    server = Embedded.start(directory)
    keep(server.dsn)
    status = directory / "data" / "postmaster.pid"
    text = status.read_text()
    server.kill()
    stale = text.replace(str(server.pid), str(stranger(directory)), 1)
    status.write_text(stale)
    (directory / ".s.PGSQL.5432.lock").write_text(stale)
    with Embedded.start(directory) as server:
        assert kept(server.dsn) == 1


def stranger(directory: Path) -> int:
    """Pid of a living process of the data's owner: what PostgreSQL takes for a postmaster."""
    process = subprocess.Popen(["/bin/sleep", "60"], user=(directory / "data").stat().st_uid)
    STRANGERS.append(process)
    return process.pid


STRANGERS: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def end_strangers() -> Iterator[None]:
    yield
    while STRANGERS:
        process = STRANGERS.pop()
        process.kill()
        process.wait()


def test_an_initdb_that_was_killed_is_done_again(directory: Path) -> None:
    directory.mkdir()
    (directory / "lock").touch()
    (directory / "data.new" / "base").mkdir(parents=True)
    (directory / "data.new" / "PG_VERSION").write_text("18\n")
    with Embedded.start(directory) as server:
        keep(server.dsn)
        assert kept(server.dsn) == 1


def test_data_of_another_version_is_refused_and_left_alone(directory: Path) -> None:
    with Embedded.start(directory, version=16) as server:
        keep(server.dsn)
    with pytest.raises(ConfigError, match="made by PostgreSQL 16, not 18"):
        Embedded.start(directory)
    with Embedded.start(directory, version=16) as server:
        assert kept(server.dsn) == 1


def test_an_unknown_version_is_refused(directory: Path) -> None:
    with pytest.raises(ConfigError, match=r"no embedded PostgreSQL 12\. Choose one of 16 and 18"):
        Embedded.start(directory, version=12)


def test_a_directory_with_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds something else"):
        Embedded.start(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_failed_start_says_why_and_frees_the_directory(directory: Path) -> None:
    with pytest.raises(ConfigError, match='parameter "shared_buffers"'):
        Embedded.start(directory, settings={"shared_buffers": "nonsense"})
    Embedded.start(directory).stop()


def test_a_path_too_long_for_a_socket_works(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 25) / "server"
    with Embedded.start(directory) as server:
        keep(server.dsn)
        assert find_server(directory) == server.dsn
        host = Path(server.dsn.partition("?host=")[2])
        assert host.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(host)


def test_a_path_with_spaces_works(tmp_path: Path) -> None:
    with Embedded.start(tmp_path / "Application Support" / "hudhud") as server:
        keep(server.dsn)
        assert kept(server.dsn) == 1


def test_a_fork_neither_stops_nor_holds_the_server(directory: Path) -> None:
    server = Embedded.start(directory)
    child = os.fork()
    if child == 0:
        server.stop()
        signal.pause()
        os._exit(0)
    try:
        keep(server.dsn)
        server.stop()
        with Embedded.start(directory) as again:
            assert kept(again.dsn) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HUDHUD_EMBEDDED_DIRECTORY": "/srv/jobs"}, "/srv/jobs"),
        ({"XDG_DATA_HOME": "/data"}, "/data/hudhud"),
        ({"HUDHUD_EMBEDDED_DIRECTORY": "", "XDG_DATA_HOME": ""}, "~/.local/share/hudhud"),
        ({}, "~/.local/share/hudhud"),
    ],
)
def test_the_default_directory_is_the_users_own(environment: dict[str, str], expected: str) -> None:
    assert default_directory(environment) == Path(expected).expanduser()
