"""The processes of the demo: the bank, and workers that are there to be killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import httpx

from examples.refunds.app import app
from examples.refunds.bank import URL

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from examples.refunds.books import Step

ROOT: Final = Path(__file__).parents[2]
LEASE_SECONDS: Final = 2
CONCURRENCY: Final = 16  # refunds at once, of each worker
PAYMENTS_MAX: Final = 10_000  # of one call
BANK_STOP_SECONDS: Final = 10.0


class BankControl:
    """How the play looks after the bank; no shop has these calls."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def pay(self, payments: Sequence[tuple[str, int]]) -> None:
        """Let the customers pay."""
        for start in range(0, len(payments), PAYMENTS_MAX):
            some = payments[start : start + PAYMENTS_MAX]
            self._http.post("/payments", json=some).raise_for_status()

    def plan_silence(self, step: Step, transaction_id: str | None) -> None:
        """Let it act on the next such call and say nothing."""
        body = {"step": step, "transaction_id": transaction_id}
        self._http.post("/silence", json=body).raise_for_status()

    def silent_key(self) -> str | None:
        """Return the key of the call that it was silent about, as soon as there is one."""
        key: str | None = self._http.get("/silence").raise_for_status().json()
        return key

    def counts(self) -> dict[str, int]:
        """Return how it has behaved."""
        counts: dict[str, int] = self._http.get("/counts").raise_for_status().json()
        return counts

    def close(self) -> None:
        """Hang up."""
        self._http.close()


@contextmanager
def bank_process(books: Path, shop: str, *, seed: int) -> Generator[BankControl]:
    """Run the bank as a process of its own; afterwards its books are whole, and nobody writes."""
    command = [sys.executable, "-m", "examples.refunds.bank_server"]
    command += ["--books", str(books), "--shop", shop, "--seed", str(seed)]
    with subprocess.Popen(
        command, cwd=ROOT, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                message = "the bank did not open"
                raise RuntimeError(message)
            control = BankControl(f"http://127.0.0.1:{port.decode()}")
            try:
                yield control
            finally:
                control.close()
        finally:
            process.stdin.close()
            _end(process)


class Workers:
    """Workers that carry refunds out, each a process of its own, with their log in one file."""

    def __init__(self, bank_url: str, log: Path) -> None:
        self._bank_url = bank_url
        self._log: IO[Any] = log.open("ab")
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start one more."""
        command = [sys.executable, "-m", "hudhud.cli.main", "worker", "examples.refunds.app:app"]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={
                **_environment(),
                URL: self._bank_url,
                "HUDHUD_WORKER_LEASE_SECONDS": str(LEASE_SECONDS),
                "HUDHUD_WORKER_CONCURRENCY": str(CONCURRENCY),
            },
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        self._processes[process.pid] = process

    def kill(self, pid: int) -> None:
        """Kill one without warning.

        Raises:
            KeyError: It is none of these.
        """
        process = self._processes.pop(pid)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def require_alive(self) -> None:
        """Notice that one has ended by itself.

        Raises:
            RuntimeError: One has.
        """
        for process in self._processes.values():
            if process.poll() is not None:
                message = f"a worker ended with {process.returncode}"
                raise RuntimeError(message)

    def stop(self) -> None:
        """Let all that are left end in order."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            _end(process)
        self._log.close()


@contextmanager
def workers(bank_url: str, log: Path, *, amount: int) -> Generator[Workers]:
    """Run workers for the length of a block."""
    team = Workers(bank_url, log)
    try:
        for _ in range(amount):
            team.start()
        yield team
    finally:
        team.stop()


def remove(directory: Path) -> None:
    """Remove what the play left."""
    shutil.rmtree(directory)


def _environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "HUDHUD_DATABASE_URL": app.database_url,
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(BANK_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
