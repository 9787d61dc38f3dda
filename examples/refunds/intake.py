"""The intake: what a file asks for is refused or recorded while its sender waits, whole or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from examples.refunds.app import app
from examples.refunds.sheet import LineError, Reason, RefusedLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from psycopg import Connection
    from psycopg.rows import TupleRow

    from examples.refunds.sheet import Line, Sheet


class TakenAlreadyError(ValueError):
    """The same file was taken in before. Its refunds are recorded, and are not recorded again."""


@dataclass(frozen=True, slots=True)
class Intake:
    """What a file came to: how many refunds were recorded, and the lines that were refused."""

    recorded: int
    refused: Sequence[RefusedLine]


@dataclass(slots=True)
class _Transaction:
    """What is known of a bank transaction while a file is taken in."""

    amount: int
    refunded: int

    def take(self, line: Line) -> None:
        """Count a line's refund in.

        Raises:
            LineError: It names another amount, or more than is left.
        """
        if line.transaction_amount != self.amount:
            message = (
                f"transaction {line.transaction_id} has {line.transaction_amount:,} toman here,"
                f" and {self.amount:,} before"
            )
            raise LineError(Reason.AMOUNTS_DIFFER, message)
        if self.refunded + line.refund_amount > self.amount:
            message = (
                f"{line.refund_amount:,} toman, after {self.refunded:,} before, are more than the"
                f" {self.amount:,} of transaction {line.transaction_id}"
            )
            raise LineError(Reason.ABOVE_TRANSACTION, message)
        self.refunded += line.refund_amount


def take_in(connection: Connection[TupleRow], shop: str, sheet: Sheet) -> Intake:
    """Record a file's refunds, each with its event, in the transaction of the connection.

    Lines are taken in their order: the one with which a transaction's sum would exceed what was
    paid is refused, earlier files counted in. Of a refused line nothing is kept.

    Raises:
        TakenAlreadyError: The shop has sent the same file before.
    """
    known = _lock(connection, shop, sheet.lines)
    taken: list[Line] = []
    refused = list(sheet.refused)
    for line in sheet.lines:
        try:
            known[line.transaction_id].take(line)
            taken.append(line)
        except LineError as error:
            refused.append(RefusedLine(line.number, error.reason, str(error)))
    _keep_sums(connection, shop, known)
    if taken:
        batch_id = _record_batch(connection, shop, sheet)
        _record(connection, shop, batch_id=batch_id, lines=taken)
    return Intake(len(taken), sorted(refused, key=lambda one: one.number))


def _lock(
    connection: Connection[TupleRow], shop: str, lines: Iterable[Line]
) -> dict[str, _Transaction]:
    """Lock every transaction of a file, in one order for all, and return what is known of it.

    Of one that no file named before, the first line that names it says its amount.
    """
    named: dict[str, int] = {}
    for line in lines:
        named.setdefault(line.transaction_id, line.transaction_amount)
    ids = sorted(named)
    connection.execute(
        "insert into refunds.transaction (shop, transaction_id, amount)"
        " select %s, * from unnest(%s::text[], %s::bigint[]) on conflict do nothing",
        (shop, ids, [named[one] for one in ids]),
    )
    rows = connection.execute(
        "select transaction_id, amount, refunded from refunds.transaction"
        ' where shop = %s and transaction_id = any (%s) order by transaction_id collate "C"'
        " for update",
        (shop, ids),
    )
    return {name: _Transaction(amount, refunded) for name, amount, refunded in rows}


def _keep_sums(connection: Connection[TupleRow], shop: str, known: dict[str, _Transaction]) -> None:
    """Write what each transaction has come to; one of which every line was refused goes again."""
    connection.execute(
        "update refunds.transaction t set refunded = sums.refunded"
        " from unnest(%s::text[], %s::bigint[]) as sums (transaction_id, refunded)"
        " where t.shop = %s and t.transaction_id = sums.transaction_id"
        " and t.refunded <> sums.refunded",
        (list(known), [one.refunded for one in known.values()], shop),
    )
    connection.execute(
        "delete from refunds.transaction"
        " where shop = %s and transaction_id = any (%s) and refunded = 0",
        (shop, list(known)),
    )


def _record_batch(connection: Connection[TupleRow], shop: str, sheet: Sheet) -> UUID:
    row = connection.execute(
        "insert into refunds.batch (id, shop, sha256, file_name) values (%s, %s, %s, %s)"
        " on conflict (shop, sha256) do nothing returning id",
        (uuid4(), shop, sheet.sha256, sheet.file_name),
    ).fetchone()
    if row is None:
        message = f"{sheet.file_name} was taken in before; nothing of it is recorded again."
        raise TakenAlreadyError(message)
    batch_id: UUID = row[0]
    return batch_id


def _record(
    connection: Connection[TupleRow], shop: str, *, batch_id: UUID, lines: Sequence[Line]
) -> None:
    """Write the refunds, and for each the event by which it is carried out."""
    refunds = [(uuid4(), line) for line in lines]
    with (
        connection.cursor() as cursor,
        cursor.copy(
            "copy refunds.refund (id, batch_id, line, shop, transaction_id, amount) from stdin"
        ) as copy,
    ):
        for refund_id, line in refunds:
            copy.write_row(
                (refund_id, batch_id, line.number, shop, line.transaction_id, line.refund_amount)
            )
    for refund_id, line in refunds:
        app.publish(
            connection,
            "refund.recorded",
            {
                "refund_id": str(refund_id),
                "transaction_id": line.transaction_id,
                "amount": line.refund_amount,
            },
            tenant_id=shop,
            aggregate=("transaction", line.transaction_id),
        )
