"""The network of a run as the harness talks to it: the proxy's process, ordered to do harm."""

from __future__ import annotations

import dataclasses
import json
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from typing import Self

    from bench.chaos.proxy import Order

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS_MAX: Final = 20.0
END_SECONDS_MAX: Final = 20.0
_PORT: Final = 5432  # which the name of PostgreSQL's socket has, whatever else it listens on


class Wire:
    """What lies between the server and everybody else; for one thread.

    Attributes:
        dsn: The server's address by this way.

    Raises:
        RuntimeError: From any method, when the proxy has ended by itself.
    """

    def __init__(self, dsn: str, directory: Path) -> None:
        """Start the proxy before the server of a DSN; what it says goes to `proxy.log`."""
        place = conninfo_to_dict(dsn)
        with (directory / "proxy.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "bench.chaos.proxy_process"),
                    f"{place['host']}/.s.PGSQL.{place.get('port', _PORT)}",
                ],
                bufsize=0,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us; we then end it in order
            )
        self._unread = b""
        self._orders = 0
        news = self._next(START_SECONDS_MAX)
        if news is None:
            message = "the proxy does not start"
            raise RuntimeError(message)
        self.dsn = (
            f"postgresql://{place['user']}@127.0.0.1:{news['port']}/{place['dbname']}"
            "?sslmode=disable&gssencmode=disable"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS_MAX)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def harm(self, order: Order, within_seconds: float) -> str | None:
        """Do harm; return whose connection it was, or None if none came by in time."""
        self._orders += 1
        fields = {**dataclasses.asdict(order), "harm": order.harm.value}
        self._say(id=self._orders, **fields)
        deadline = time.monotonic() + within_seconds
        while (seconds := deadline - time.monotonic()) > 0:
            news = self._next(seconds)
            if news is not None and news["id"] == self._orders:
                return str(news["hit"])
        self._say(id=self._orders)
        return None

    def _next(self, within_seconds: float) -> dict[str, Any] | None:
        """Return the next news, if it comes within so many seconds."""
        assert self._process.stdout is not None
        while b"\n" not in self._unread:
            if not select.select([self._process.stdout], [], [], within_seconds)[0]:
                return None
            chunk = self._process.stdout.read(65_536)
            if not chunk:
                self._fail()
            self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    def _say(self, **words: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
        except BrokenPipeError:
            self._fail()

    def _fail(self) -> None:
        message = f"the proxy ended with {self._process.wait()}; see proxy.log"
        raise RuntimeError(message)
