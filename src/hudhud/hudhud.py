"""The `Hudhud` object: an application's handlers, and the client that enqueues for them."""

from __future__ import annotations

import inspect
import os
import threading
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast

from psycopg_pool import ConnectionPool

from hudhud.client import AsyncClient, Client
from hudhud.config import load
from hudhud.errors import ConfigError
from hudhud.store import migrate
from hudhud.worker.declaration import Declarations
from hudhud.worker.handler import Handler, HandlerOptions, define
from hudhud.worker.outbox import Outbox, PublishOptions, new_event
from hudhud.worker.provider import Provider, ProviderOptions, opener
from hudhud.worker.registry import Registry

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from uuid import UUID

    from psycopg import Connection
    from psycopg.rows import TupleRow
    from typing_extensions import Unpack

    from hudhud.domain.job import Enqueued, NewJob
    from hudhud.embedded import Embedded
    from hudhud.worker.worker import Middleware

    Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound="Callable[[], Any]")

POOL_CONNECTIONS_MAX = 4


class Hudhud(Declarations):
    """What you define your handlers on and enqueue with. Making one opens nothing.

    Attributes:
        registry: The handlers defined so far, those of subscriptions included.
        outbox: The event types, subscriptions and upcasters defined so far.
        middleware: Wrapped around each attempt, the outermost first: coroutine functions that take
            the context and `call_next`, and return what `await call_next(ctx)` returned.
        providers: The services outside that its effects reach.
        client: Enqueues and looks after jobs on synchronous connections.
        aclient: The same on asynchronous ones.
    """

    def __init__(
        self, database_url: str | None = None, *, middleware: Sequence[Middleware] = ()
    ) -> None:
        """Make an application.

        Args:
            database_url: Where the database is; None: as configured (`HUDHUD_DATABASE_URL`).
            middleware: See the attribute.
        """
        self.registry = Registry()
        self.outbox = Outbox(self.registry)
        self.middleware = tuple(middleware)
        self.providers: list[Provider[Any]] = []
        self.client = Client()
        self.aclient = AsyncClient()
        self._database_url = database_url
        self._lifespan: Opened | None = None
        self._pool: ConnectionPool[Connection[TupleRow]] | None = None
        self._pool_lock = threading.Lock()
        self._embedded: Embedded | None = None

    @classmethod
    def embedded(cls, directory: Path | None = None) -> Hudhud:
        """Make an application on an embedded PostgreSQL 18, started and migrated here.

        It stops with this process. Where another process serves the directory already, that one's
        server is used.

        Raises:
            ConfigError: The extra `embedded` is not installed.
        """
        # Not on every platform, and not for those who have a database.
        from hudhud.embedded import (  # noqa: PLC0415
            Embedded,
            default_directory,
            find_server,
        )

        place = directory or default_directory(os.environ)
        app = cls(find_server(place))
        if app._database_url is None:
            app._embedded = Embedded.start(place)
            app._database_url = app._embedded.dsn
        migrate.apply(app._database_url)
        return app

    @property
    def database_url(self) -> str:
        """Where the database is.

        Raises:
            ConfigError: Nobody said.
        """
        url = self._database_url or load().database_url
        if url is None:
            message = "No database is named. Set HUDHUD_DATABASE_URL, or give Hudhud its URL."
            raise ConfigError(message)
        return url

    def handler(
        self,
        type: str,  # noqa: A002 - the word for it, everywhere
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Callable[Concatenate[Any, P], R]], Handler[P, R]]:
        """Define the handler of a type: `@app.handler("receipt.send", timeout_seconds=10)`.

        The function's first parameter is the context, the others are the payload's fields; their
        annotations are the payload's contract. `async def` runs on the event loop, a plain function
        in a thread, `kind="process"` in a process of its own.

        Raises:
            ConfigError: What can only fail later is refused here.
        """

        def wrap(function: Callable[Concatenate[Any, P], R]) -> Handler[P, R]:
            handler = define(type, function, **options)
            self.registry.add(handler)
            return handler

        return wrap

    def provider(
        self,
        name: str,
        open: Callable[[], AbstractAsyncContextManager[T]]  # noqa: A002 - what it does
        | Callable[[], AsyncGenerator[T]],
        **options: Unpack[ProviderOptions[T]],
    ) -> Provider[T]:
        """Define a service outside: `bank = app.provider("bank", open_bank, reconcile=Bank.find)`.

        Its client is reached by `ctx.effect("confirm", bank)` and nowhere else, so that nothing can
        be changed outside without a record of it.

        Args:
            name: As it is shown to operators.
            open: Opens the client and yields it: an async generator function, or whatever returns
                an asynchronous context manager. Each worker enters it once, when it starts.
            options: `reconcile`, `send_seconds`, `settle_seconds`; see `Provider`.

        Raises:
            ConfigError: An option is out of bounds, or there is a provider of this name.
        """
        if any(one.name == name for one in self.providers):
            message = f"There is a provider {name!r} already; give the other a name of its own."
            raise ConfigError(message)
        provider = Provider[T](name, opener(open), **options)
        self.providers.append(provider)
        return provider

    def lifespan(self, function: F) -> F:
        """Open what all handlers share: `@app.lifespan` on an async function that yields it once.

        A worker enters it when it starts and leaves it when it has stopped; what it yields is
        `ctx.state`. A function made with `@asynccontextmanager` will do as well.

        Raises:
            ConfigError: There is one already.
        """
        if self._lifespan is not None:
            message = "This application has a lifespan already; open everything in one function."
            raise ConfigError(message)
        if inspect.isasyncgenfunction(function):
            generate = cast("Callable[[], AsyncGenerator[Any]]", function)
            self._lifespan = asynccontextmanager(generate)
        else:
            self._lifespan = cast("Opened", function)
        return function

    def lifespan_context(self) -> AbstractAsyncContextManager[Any]:
        """Return the context that a worker works in."""
        return nullcontext() if self._lifespan is None else self._lifespan()

    def enqueue(
        self,
        connection: object,
        handler: Handler[P, Any],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> UUID:
        """Enqueue a job in the transaction of a synchronous connection.

        `app.enqueue(connection, send_receipt, order_id=7)`; options go through
        `send_receipt.using(tenant_id="acme", idempotency_key="order-7")`.

        Returns:
            The job's id; that of the job which has the key already, if there is one.

        Raises:
            HudhudError: What the database refuses; the transaction is aborted then.
        """
        return self.client.enqueue(connection, handler.job(*args, **kwargs)).id

    async def aenqueue(
        self,
        connection: object,
        handler: Handler[P, Any],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> UUID:
        """As `enqueue`, on an asynchronous connection."""
        enqueued = await self.aclient.enqueue(connection, handler.job(*args, **kwargs))
        return enqueued.id

    def enqueue_many(self, connection: object, jobs: Iterable[NewJob], /) -> list[Enqueued]:
        """Enqueue many jobs at once: `[send_receipt.job(order_id=n) for n in range(1000)]`.

        Returns:
            One element per job, in order.
        """
        return self.client.enqueue_many(connection, jobs)

    async def aenqueue_many(self, connection: object, jobs: Iterable[NewJob], /) -> list[Enqueued]:
        """As `enqueue_many`, on an asynchronous connection."""
        return await self.aclient.enqueue_many(connection, jobs)

    def publish(
        self,
        connection: object,
        type: str,  # noqa: A002 - the word for it, everywhere
        payload: Mapping[str, object],
        **options: Unpack[PublishOptions],
    ) -> UUID:
        """Publish an event in the transaction of a synchronous connection: one statement.

        `app.publish(connection, "comment.created", {"comment_id": 7}, aggregate=("comment", 7))`

        Args:
            connection: Yours, with the transaction that makes the event true.
            type: Of the event.
            payload: A JSON object of at most 16 KiB: ids and references, not documents.
            options: See `NewEvent`. `version` defaults to the newest that is declared here.

        Returns:
            The event's id.

        Raises:
            InvalidEventError: The payload does not fit its contract, or an option is wrong.
            HudhudError: What the database refuses; the transaction is aborted then.
        """
        event = new_event(self.outbox, type, payload, **options)
        return self.client.publish(connection, event).id

    async def apublish(
        self,
        connection: object,
        type: str,  # noqa: A002 - the word for it, everywhere
        payload: Mapping[str, object],
        **options: Unpack[PublishOptions],
    ) -> UUID:
        """As `publish`, on an asynchronous connection."""
        event = new_event(self.outbox, type, payload, **options)
        return (await self.aclient.publish(connection, event)).id

    @contextmanager
    def transaction(self) -> Generator[Connection[TupleRow]]:
        """Lend a connection of a small pool of our own, inside a transaction.

        For programs that have no connection of their own at hand; safe from any thread. It commits
        when the block ends and rolls back when the block raises.

        Raises:
            ConfigError: No database is named.
            psycopg.OperationalError: No connection could be had.
        """
        with self._opened_pool().connection() as connection:
            yield connection

    def close(self) -> None:
        """Close the pool, and stop the embedded server if this application started one."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        if self._embedded is not None:
            self._embedded.stop()
            self._embedded = None

    def _opened_pool(self) -> ConnectionPool[Connection[TupleRow]]:
        with self._pool_lock:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self.database_url,
                    min_size=0,
                    max_size=POOL_CONNECTIONS_MAX,
                    open=True,
                    kwargs={"prepare_threshold": None, "application_name": "hudhud client"},
                )
            return self._pool
