"""Several sessions on one database, and proof that one of them waits for another."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from tests.support.verbs import Verbs
from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SECONDS = 60  # liveness: what is free at last must get its turn


class Sessions:
    """Opens sessions on a database; each commits at once, but for `with connection.transaction()`.

    Statements that wait run in threads of their own.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._open: list[psycopg.Connection[Any]] = []
        self._threads = ThreadPoolExecutor(max_workers=64)
        self._watch = self.open()

    def open(self) -> Verbs:
        """Open one more session."""
        connection = psycopg.connect(self.dsn, autocommit=True, prepare_threshold=None)
        self._open.append(connection)
        return Verbs(connection)

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Do something in a thread; the answer is awaited with `result(SECONDS)`."""
        return self._threads.submit(work)

    def start_blocked(self, work: Callable[[], T], *, waits: Verbs, for_: Verbs) -> Future[T]:
        """Do something that cannot go on before another session's transaction ends.

        Both must be in a transaction, so that each is one process of the server. Returns as soon
        as the server shows that the one waits for a lock which the other holds.
        """
        waiter, holder = waits.pid, for_.pid
        future = self.start(work)
        until(lambda: future.done() or holder in self.blockers(waiter), SECONDS)
        assert not future.done(), f"did not wait: {future!r}"
        return future

    def blockers(self, pid: int) -> list[int]:
        """Return the processes that a process waits for, by the server's own record."""
        return self._watch.value(  # type: ignore[no-any-return]
            "select case when wait_event_type = 'Lock' then pg_blocking_pids(pid) else '{}' end"
            " from pg_stat_activity where pid = %s",
            pid,
        )

    def close(self) -> None:
        """End every session, also one that a failed test left waiting."""
        for connection in self._open:
            connection.cancel_safe(timeout=5)
            connection.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
