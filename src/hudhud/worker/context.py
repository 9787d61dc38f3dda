"""What a handler is given: which job this is, and what it may do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from hudhud.worker.effect import Effect, EffectOptions
from hudhud.worker.run import Run
from hudhud.worker.transaction import Transaction

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hudhud.worker.batch import Batch
    from hudhud.worker.desk import Desk
    from hudhud.worker.handler import AnyHandler
    from hudhud.worker.provider import Provider

T = TypeVar("T")

LEVELS: Final = ("debug", "info", "warning", "error")


class Context(Run):
    """One run of one job, as its handler sees it.

    Attributes:
        handler: What runs it.
    """

    __slots__ = ("_desk", "handler")

    def __init__(self, batch: Batch, index: int, desk: Desk, *, handler: AnyHandler) -> None:
        super().__init__(batch, index)
        self.handler = handler
        self._desk = desk

    @property
    def state(self) -> Any:  # noqa: ANN401 - whatever the application's lifespan yielded
        """What the application's lifespan yielded: its clients and pools."""
        return self._desk.state

    def transaction(self, *, result: object = None) -> Transaction:
        """Commit the handler's own rows and this run's success as one.

        `async with ctx.transaction() as connection:` (plain functions: `with`) yields a psycopg
        connection inside a transaction whose first row is this run's outcome. It commits when the
        block ends and rolls back when the block raises. Afterwards the job has succeeded, whatever
        the rest of the handler does. Jobs enqueued on the connection belong to it too.

        Args:
            result: What to keep as the job's result, as a handler's return value is kept otherwise.

        Raises:
            LeaseLostError: On entering, when another worker may have the job by now.
            RuntimeError: On entering: it is open already, and the second would wait for the first
                without end. Or it is not known what became of an effect of this run.
        """
        self.check()
        return Transaction(self, self._desk, result)

    def effect(
        self, name: str, provider: Provider[T], **options: Unpack[EffectOptions[T]]
    ) -> Effect[T]:
        """Change something outside, once, though this process may die at any moment.

        `async with ctx.effect("confirm", bank) as effect:` (plain functions: `with`), and inside
        `effect.result = await effect.provider.confirm(…, key=effect.key)`. If an earlier run has
        done it, asking for `effect.provider` ends the block, and `effect.result` is what was kept.

        Raised inside the block, `NotSent`, `Refused` and `TryLater` say that nothing was done. With
        anything else nobody knows: the job runs again when the provider has settled, and asks.

        Args:
            name: 1 to 100 characters; of an effect within its job. In a loop, give each its own.
            provider: Whom to call, as `app.provider` returned it.
            options: `key`, instead of the job's line of replays and the name, unique in the tenant;
                with it give `request`, the fields that tell one request from another (else the
                job's payload does). `reconcile`, `send_seconds` and `settle_seconds` instead of the
                provider's. `repeats=True`: where the provider offers nothing, send again rather
                than ask an operator, though it may then happen twice.

        Raises:
            EffectMismatchError: On entering: the key was used for another request.
            LeaseLostError: On entering, when another worker may have the job by now.
            RuntimeError: On entering: `ctx.transaction()` was entered before, this effect is open
                or done by this run, or it is inside the block of another.
            ConfigError: An option is out of bounds, or the provider is another application's.
        """
        self.check()
        return Effect(self, self._desk, provider, name=name, options=options)

    def log(self, message: str, *, level: str = "info") -> None:
        """Keep a line about this run; operators see it with the job within a second or so.

        Args:
            message: At most 2,000 characters are kept. No secrets and no personal data.
            level: debug, info, warning or error.

        Raises:
            LeaseLostError: This run has ended, as far as the database is concerned.
            ValueError: There is no such level.
        """
        if level not in LEVELS:
            message = f"there is no level {level!r}; choose one of {', '.join(LEVELS)}"
            raise ValueError(message)
        self.check()
        self._desk.write_log(self, {"level": level, "message": message, "progress": None})

    def progress(self, share: float, message: str = "") -> None:
        """Say how far this run has come.

        Args:
            share: From 0 to 1.
            message: What it is at.

        Raises:
            LeaseLostError: This run has ended, as far as the database is concerned.
        """
        self.check()
        share = min(float(share), 1.0) if share >= 0 else 0.0  # not a number is no progress
        self._desk.write_log(self, {"level": "info", "message": message, "progress": share})
