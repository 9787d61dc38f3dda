"""The application: a refund that is recorded is carried out by the bank, in two steps.

`REFUNDS_BANK_URL=http://… hudhud worker examples.refunds.app:app`
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from psycopg_pool import AsyncConnectionPool

from examples.refunds.bank import Bank, Refund, open_bank
from hudhud import Context, Event, Hudhud, Refused, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from psycopg import AsyncConnection, Connection
    from psycopg.rows import TupleRow

QUEUE = "bank"
SCHEMA = (Path(__file__).parent / "schema.sql").read_text("utf-8")
# The client gives up after 5 s, and the bank acts on what has reached it within moments. A real
# bank's own time-outs may be minutes.
SEND_SECONDS, SETTLE_SECONDS = 3.0, 2.0
# The bank takes one request of a transaction at a time: the others come back, within seconds and
# for a day at most. Then the job is dead, and a person looks.
PATIENCE = RetryPolicy(base_seconds=0.25, delay_seconds_max=4.0, age_seconds_max=86_400.0)
ATTEMPTS_MAX = 30_000

app = Hudhud()
bank = app.provider("bank", open_bank, send_seconds=SEND_SECONDS, settle_seconds=SETTLE_SECONDS)


@app.event("refund.recorded")
class RefundRecorded:
    """Money is to go back to whoever paid a transaction. Amounts are whole toman."""

    refund_id: str
    transaction_id: str
    amount: int


@app.event("refund.confirmed")
class RefundConfirmed:
    """The bank has sent the money back, under this number."""

    refund_id: str
    confirmation: int


@app.lifespan
async def connections() -> AsyncGenerator[AsyncConnectionPool[AsyncConnection[TupleRow]]]:
    """Share a few connections for what handlers do beside their transaction."""
    pool: AsyncConnectionPool[AsyncConnection[TupleRow]] = AsyncConnectionPool(
        app.database_url, min_size=0, max_size=2, open=False
    )
    async with pool:
        yield pool


def set_up(connection: Connection[TupleRow]) -> None:
    """Make the application's tables."""
    connection.execute(SCHEMA.encode())


@app.on(
    "refund.recorded",
    name="refund.carry_out",
    start="beginning",
    queue=QUEUE,
    timeout_seconds=30,
    max_attempts=ATTEMPTS_MAX,
    retry=PATIENCE,
)
async def carry_out(ctx: Context, event: Event) -> None:
    """Request a refund from the bank, confirm it, and write down that it is done."""
    refund = Refund(
        ctx.tenant_id,
        event.payload["refund_id"],
        event.payload["transaction_id"],
        event.payload["amount"],
    )
    try:
        confirmation = await _refund(ctx, refund)
    except Refused as refused:
        await _refuse(ctx, refund, refused.code)
        raise
    await _confirm(ctx, refund, confirmation)


async def _refund(ctx: Context, refund: Refund) -> int:
    """Take the bank's two steps, each at most once; return the number of the confirmation."""
    async with ctx.effect("request", bank, reconcile=Bank.find_request) as effect:
        effect.result = await effect.provider.request(refund, key=effect.key, check=effect.check)
    number = effect.result["number"]
    async with ctx.effect("confirm", bank, reconcile=Bank.find_confirmation) as effect:
        effect.result = await effect.provider.confirm(
            refund, number, key=effect.key, check=effect.check
        )
    return int(effect.result["number"])


async def _confirm(ctx: Context, refund: Refund, confirmation: int) -> None:
    """Commit the refund's state, its event and the job's success as one."""
    async with ctx.transaction() as connection:
        await connection.execute(
            "update refunds.refund set state = 'confirmed', confirmation = %s where id = %s",
            (confirmation, refund.reference),
        )
        await app.apublish(
            connection,
            "refund.confirmed",
            {"refund_id": refund.reference, "confirmation": confirmation},
            tenant_id=refund.shop,
            aggregate=("transaction", refund.transaction_id),
        )


async def _refuse(ctx: Context, refund: Refund, reason: str) -> None:
    """Say so in our own record; the job is dead besides, for somebody must look."""
    async with ctx.state.connection() as connection:
        await connection.execute(
            "update refunds.refund set state = 'refused', reason = %s"
            " where id = %s and state = 'recorded'",
            (reason, refund.reference),
        )
