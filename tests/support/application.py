"""An application for tests of the worker, and a worker that runs it in this process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hudhud.config import WorkerConfig
from hudhud.worker.handler import define
from hudhud.worker.outbox import Outbox
from hudhud.worker.registry import Registry
from hudhud.worker.worker import Addresses, Worker
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from typing_extensions import Unpack

    from hudhud.worker.handler import AnyHandler, HandlerOptions
    from hudhud.worker.provider import AnyProvider
    from hudhud.worker.worker import Application as AnyApplication
    from hudhud.worker.worker import Middleware

# Deadlines of tests are 30 s and more; a stop of theirs need not wait that long for a handler.
STOP_SECONDS = 5.0


class Application:
    """Handlers, middleware, providers and a lifespan that says when it was opened and closed."""

    def __init__(self, *handlers: AnyHandler) -> None:
        self.registry = Registry()
        self.outbox = Outbox(self.registry)
        self.providers: list[AnyProvider] = []
        self.middleware: list[Middleware] = []
        self.lifespan: list[str] = []
        self.state: object = None
        for handler in handlers:
            self.registry.add(handler)

    def handler(
        self,
        type: str,  # noqa: A002 - the word for it, everywhere
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Callable[..., Any]], AnyHandler]:
        """Define a function as a handler of this application."""

        def add(function: Callable[..., Any]) -> AnyHandler:
            handler = define(type, function, **options)
            self.registry.add(handler)
            return handler

        return add

    @asynccontextmanager
    async def lifespan_context(self) -> AsyncGenerator[object]:
        self.lifespan.append("opened")
        yield self.state
        self.lifespan.append("closed")


@asynccontextmanager
async def working(
    application: AnyApplication,
    url: str,
    *,
    direct_url: str | None = None,
    **config: Any,  # noqa: ANN401 - fields of WorkerConfig
) -> AsyncGenerator[Worker]:
    """Run a worker of an application in this loop, ready to claim; it is stopped afterwards."""
    settings = WorkerConfig(**{"stop_seconds": STOP_SECONDS, "concurrency": 10, **config})
    worker = Worker(application, Addresses(url, direct_url or url), settings)
    await worker.start()
    try:
        await auntil(lambda: worker.is_ready)
        yield worker
    finally:
        await worker.stop()
