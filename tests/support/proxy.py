"""The chaos run's proxy before the test server: it cuts a connection at the worst moment."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal

from bench.chaos.proxy import Harm, Order
from bench.chaos.proxy import Proxy as Plain
from tests.support.server import database_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.support.server import Server

Cut = Literal["request", "reply"]
_HARMS: Final[dict[Cut, Harm]] = {"request": Harm.LOSE_REQUEST, "reply": Harm.LOSE_REPLY}


class Proxy:
    """Passes everything on, until it is armed.

    Attributes:
        url: Where clients connect to.
        plain: The proxy itself, for other harm.
        hits: Names of the applications whose connections were harmed.
    """

    def __init__(self, plain: Plain, database: str) -> None:
        self.url = (
            f"postgresql://hudhud@127.0.0.1:{plain.port}/{database}"
            "?sslmode=disable&gssencmode=disable"
        )
        self.plain = plain
        self.hits: list[str] = []

    @property
    def cuts(self) -> int:
        """How many connections were harmed."""
        return len(self.hits)

    def arm(self, words: str, *, cut: Cut) -> None:
        """Cut the next connection that sends these words.

        Args:
            words: Part of a statement.
            cut: "request": the server never gets it. "reply": the server has done it, and nobody
                hears of that.
        """
        self.harm(Order(_HARMS[cut], words))

    def harm(self, order: Order) -> None:
        """Do harm, now or as soon as its words come by."""
        self.plain.harm(order, self.hits.append)


@asynccontextmanager
async def proxy(server: Server, dsn: str) -> AsyncGenerator[Proxy]:
    """Run a proxy before the server of a DSN."""
    plain = Plain(f"{server.host}/.s.PGSQL.{server.port}")
    async with plain.listening():
        yield Proxy(plain, database_of(dsn))
