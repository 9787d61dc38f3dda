"""The producers of a run, together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.chaos.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self, TypeVar

    from bench.chaos.answers import Answers

    T = TypeVar("T")

PRODUCERS: Final = 3
JOBS_PER_SECOND: Final = 120.0
END_SECONDS_MAX: Final = 60.0


class Load:
    """A steady load while the block lasts; what is in doubt then is cleared up at its end."""

    def __init__(self, dsn: str, answers: Answers, *, seed: int) -> None:
        """Make it."""
        rate = JOBS_PER_SECOND / PRODUCERS
        self._producers = [
            Producer(number, dsn, answers, seed=seed, jobs_per_second=rate)
            for number in range(PRODUCERS)
        ]

    def __enter__(self) -> Self:
        for one in self._producers:
            one.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for one in self._producers:
            one.quit()
        if kind is not None:
            return  # the server may be away for good; they end with this process
        for one in self._producers:
            one.join(END_SECONDS_MAX)
            if one.is_alive():
                message = f"{one.name} does not end"
                raise RuntimeError(message)
        self._check()

    def watched(self, things: Iterable[T]) -> Iterator[T]:
        """Yield things, each after a look at the producers.

        Raises:
            BaseException: What ended one of them.
        """
        for thing in things:
            self._check()
            yield thing

    def _check(self) -> None:
        for one in self._producers:
            if one.failure is not None:
                raise one.failure
