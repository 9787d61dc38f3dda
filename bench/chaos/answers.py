"""What the producers were told: the harness's own record, not the database's."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from uuid import UUID


class Answers:
    """What became of each intent, by its number. From any thread.

    Attributes:
        acknowledged: Its commit returned; with the job's id.
        unknown: Its commit broke: it may have happened or not.
        undone: It was rolled back, or failed before the commit: it must not have happened.
        committing: How many commits are at the server now.
        requesting: How many requests are at the API now.
        broken_requests: Requests that nobody answered, or with an error of the server's.
        broken_commits: Commits that broke.
        second: A repeat with the same key that came to another job than the first.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[int, UUID] = {}
        self.unknown: set[int] = set()
        self.undone: set[int] = set()
        self.committing = 0
        self.requesting = 0
        self.broken_requests = 0
        self.second: list[int] = []
        self.broken_commits = 0
        self._lock = threading.Lock()

    def copy(self) -> Answers:
        """Return what is known now, which nobody changes any more."""
        found = Answers()
        with self._lock:
            found.acknowledged = self.acknowledged.copy()
            found.unknown, found.undone = self.unknown.copy(), self.undone.copy()
            found.second = self.second.copy()
        return found

    @contextmanager
    def at_commit(self) -> Generator[None]:
        """Show that a commit is at the server while the block lasts."""
        with self._lock:
            self.committing += 1
        try:
            yield
        finally:
            with self._lock:
                self.committing -= 1

    @contextmanager
    def at_request(self) -> Generator[None]:
        """Show that a request is at the API while the block lasts."""
        with self._lock:
            self.requesting += 1
        try:
            yield
        finally:
            with self._lock:
                self.requesting -= 1

    def break_request(self, number: int) -> None:
        """Take note of a request without an answer: it may have been accepted or not."""
        with self._lock:
            self.broken_requests += 1
            if number not in self.acknowledged:
                self.unknown.add(number)

    def acknowledge(self, ids: Mapping[int, UUID]) -> None:
        """Take note of a commit that returned."""
        with self._lock:
            for number, job_id in ids.items():
                self.unknown.discard(number)
                if self.acknowledged.setdefault(number, job_id) != job_id:
                    self.second.append(number)

    def doubt(self, numbers: Iterable[int]) -> None:
        """Take note of a commit that broke."""
        with self._lock:
            self.broken_commits += 1
            self.unknown.update(number for number in numbers if number not in self.acknowledged)

    def undo(self, numbers: Iterable[int]) -> None:
        """Take note of what surely was not committed; a repeat leaves the first as it was."""
        with self._lock:
            for number in numbers:
                if number not in self.acknowledged and number not in self.unknown:
                    self.undone.add(number)
