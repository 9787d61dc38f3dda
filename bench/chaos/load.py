"""Whoever brings work in a run, together: producers on the database, callers of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from bench.chaos.caller import Caller, Door
from bench.chaos.intents import TENANTS, Intents
from bench.chaos.producer import Producer
from bench.chaos.rival import Rival, rivals
from hudhud.domain import api_key
from hudhud.drivers.base import run as run_call
from hudhud.store import keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self, TypeVar

    from bench.chaos.answers import Answers
    from bench.chaos.intents import Taste
    from bench.chaos.place import Place

    T = TypeVar("T")

PRODUCERS: Final = 3
CALLERS: Final = 4
RIVALS_PLACE: Final = 90  # whose numbers no other has
JOBS_PER_SECOND: Final = 80.0
POSTS_PER_SECOND: Final = 20.0
END_SECONDS_MAX: Final = 60.0


class Load:
    """A steady load while the block lasts; what is in doubt then is cleared up at its end."""

    def __init__(
        self,
        place: Place,
        answers: Answers,
        facts: Answers,
        *,
        seed: int,
        taste: Taste,
        jobs_per_second: float = JOBS_PER_SECOND,
    ) -> None:
        """Make it.

        Args:
            place: Where the database and the API are.
            answers: Take note of what everybody is told about jobs,
            facts: and about events.
            seed: Of all choices.
            taste: What it is made of.
            jobs_per_second: Of all producers together.
        """
        self._members: list[Producer | Caller | Rival] = [
            Producer(
                Intents(number, seed=seed, taste=taste),
                place.dsn,
                answers,
                facts=facts,
                jobs_per_second=jobs_per_second / PRODUCERS,
            )
            for number in range(PRODUCERS)
        ]
        self._members += rivals(Intents(RIVALS_PLACE, seed=seed, taste=taste), place.dsn, answers)
        ports = [port for _, port in place.api_ports]
        for number in range(PRODUCERS, PRODUCERS + (CALLERS if ports else 0)):
            self._members.append(
                Caller(
                    Intents(number, seed=seed, taste=taste),
                    answers,
                    facts=facts,
                    door=Door(ports, _make_key(place.dsn, TENANTS[number % len(TENANTS)])),
                    rate=POSTS_PER_SECOND / CALLERS,
                )
            )

    def __enter__(self) -> Self:
        for one in self._members:
            one.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for one in self._members:
            one.quit()
        if kind is not None:
            return  # the server may be away for good; they end with this process
        for one in self._members:
            one.join(END_SECONDS_MAX)
            if one.is_alive():
                message = f"{one.name} does not end"
                raise RuntimeError(message)
        self._check()

    def watched(self, things: Iterable[T]) -> Iterator[T]:
        """Yield things, each after a look at whoever brings work.

        Raises:
            BaseException: What ended one of them.
        """
        for thing in things:
            self._check()
            yield thing

    def _check(self) -> None:
        for one in self._members:
            if one.failure is not None:
                raise one.failure


def _make_key(dsn: str, tenant: str) -> str:
    secret = api_key.new_secret()
    call = keys.create_key(
        "chaos",
        tenant,
        api_key.SCOPES,
        secret_hash=api_key.secret_hash(secret),
        actor="chaos",
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        return api_key.key_text(run_call(connection, call), secret)
