"""The demo: the bank goes silent, workers are killed when it has acted, and each refund is one."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import psycopg

from examples.refunds import books
from examples.refunds.app import app, set_up
from examples.refunds.books import No, Step
from examples.refunds.intake import take_in
from examples.refunds.judge import Recorded, beside, judge, table
from examples.refunds.play import bank_process, remove, workers
from hudhud.store import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.rows import TupleRow

    from examples.refunds.play import BankControl, Workers
    from examples.refunds.sheet import Sheet

WORKERS: Final = 2
KILLS: Final = {"short": 2, "full": 8}
STALL_SECONDS: Final = 60.0  # without a refund more
LOOK_SECONDS: Final = 0.02
TELL_SECONDS: Final = 5.0
REFUSALS_SHOWN_MAX: Final = 20
ERRORS_SHOWN_MAX: Final = 8
A: Final = "A"
# What the bank may refuse although all is well; the others would be a second call of one effect.
# Another shop's are what a play that was broken off has left in the queue.
BENIGN: Final = {No.PENDING_REQUEST_EXISTS, No.OTHER_SHOP}


@dataclass(slots=True)
class Report:
    """What the demo saw; amounts in toman.

    `refunds` were recorded; of these the bank's books have `confirmed`, `doubled` and `missing`.
    `reconciled`: how often it was asked what had become of a call.
    """

    refunds: int = 0
    confirmed: int = 0
    doubled: int = 0
    missing: int = 0
    kills: int = 0
    wrong: int = 0
    refused_lines: int = 0
    refusals: list[dict[str, object]] = field(default_factory=list[Any])
    toman: int = 0
    toman_confirmed: int = 0
    transaction_a: dict[str, int] | None = None
    dropped_replies: int = 0
    server_errors: int = 0
    asked_to_wait: int = 0
    pending_refusals: int = 0
    reconciled: int = 0
    refused_by_bank: int = 0
    seconds: float = 0.0
    seed: int = 0
    ok: bool = False

    def as_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return asdict(self)


def run(sheet: Sheet, say: Callable[[str], None], *, size: str = "short", seed: int = 1) -> Report:
    """Play the demo on the database that hudhud is configured for.

    Args:
        sheet: The refunds.
        say: Gets each line for people.
        size: How many workers are killed: short or full.
        seed: Of the bank's manners.
    """
    started = time.monotonic()
    migrate.apply(app.database_url)
    place = Path(tempfile.mkdtemp(prefix="hudhud-refunds-"))
    with psycopg.connect(app.database_url, autocommit=True) as connection:
        set_up(connection)
        demo = _Demo(connection, say, place)
        demo.report.seed = seed
        demo.take_in(sheet)
        if demo.report.refunds:
            demo.carry_out(KILLS[size], seed=seed)
        demo.judge(KILLS[size])
    demo.report.seconds = round(time.monotonic() - started, 1)
    if demo.report.ok:
        remove(place)
    else:
        say(f"the bank's books and the workers' log are in {place}")
    return demo.report


class _Demo:
    def __init__(
        self, connection: psycopg.Connection[TupleRow], say: Callable[[str], None], place: Path
    ) -> None:
        self._connection = connection
        self._say = say
        self._books = place / "books.jsonl"
        self._log = place / "workers.log"
        # A shop of this play alone: its transactions and its bank have nothing to do with others'.
        self._shop = f"shop-{uuid4().hex[:12]}"
        self._told_at = self._moved_at = time.monotonic()
        self._done = 0
        self._failure: str | None = None
        self.report = Report()

    def take_in(self, sheet: Sheet) -> None:
        """Record what can be recorded, and say of each other line why not."""
        report = self.report
        started = time.monotonic()
        with self._connection.transaction():
            intake = take_in(self._connection, self._shop, sheet)
        took = time.monotonic() - started
        report.refunds, report.refused_lines = intake.recorded, len(intake.refused)
        report.toman = self._number("select coalesce(sum(amount), 0) from refunds.refund")
        transactions = self._number("select count(*) from refunds.transaction")
        for one in intake.refused[:REFUSALS_SHOWN_MAX]:
            report.refusals.append(
                {"line": one.number, "reason": one.reason, "message": one.message}
            )
            self._say(f"refused   line {one.number}: {one.message}")
        if len(intake.refused) > REFUSALS_SHOWN_MAX:
            self._say(f"refused   {len(intake.refused) - REFUSALS_SHOWN_MAX} lines more")
        self._say(
            f"recorded  {intake.recorded} refunds of {transactions} transactions,"
            f" {report.toman:,} toman, {len(intake.refused)} lines refused, in {took:.2f} s"
        )

    def carry_out(self, kills: int, *, seed: int) -> None:
        """Let workers and the bank do it, and kill workers when the bank has just acted."""
        with bank_process(self._books, self._shop, seed=seed) as bank:
            bank.pay(self._payments())
            # Before any worker is there: the first silence must not be missed.
            bank.plan_silence(Step.CONFIRM, self._shown())
            self._say(f"bank      a process of its own at {bank.url}, with moods of seed {seed}")
            try:
                with workers(bank.url, self._log, amount=WORKERS) as team:
                    self._kill_some(bank, team, kills)
                    while self._open():
                        self._look(team)
            except (TimeoutError, RuntimeError) as error:
                self._failure = str(error)
            self._take_counts(bank.counts())

    def judge(self, kills: int) -> None:
        """Read the bank's books from their file, and compare."""
        report = self.report
        ours = self._ours()
        entries = list(books.read(self._books)) if self._books.exists() else []
        verdict = judge(ours, entries)
        report.confirmed, report.doubled = verdict.confirmed, verdict.doubled
        report.missing, report.wrong = verdict.missing, verdict.wrong
        report.toman_confirmed = verdict.toman
        of_a = [e for e in entries if e.step is Step.CONFIRM and e.transaction_id == A]
        if any(one.transaction_id == A for one in ours):
            toman = sum(entry.amount for entry in of_a)
            report.transaction_a = {"confirmations": len(of_a), "toman": toman}
        report.ok = (
            self._failure is None
            and not any((report.doubled, report.missing, report.wrong, report.refused_by_bank))
            and report.confirmed == report.refunds
            and report.toman == report.toman_confirmed
            and report.kills >= min(report.refunds, kills, 1)
        )
        self._tell(ours, entries)

    def _kill_some(self, bank: BankControl, team: Workers, kills: int) -> None:
        """Kill the worker of each call about which the bank stays silent after it has acted."""
        while True:
            key = self._silent_key(bank, team)
            if key is None:
                return
            pid, name = self._holder(key)
            team.kill(pid)
            self.report.kills += 1
            self._say(
                f"killed    worker {pid} (SIGKILL): the bank had acted on its {name}, and had not"
                " answered"
            )
            team.start()
            if self.report.kills == kills:
                return
            # All along the way, and each of the two steps in turn.
            while self._done < self.report.refunds * self.report.kills / (kills + 1):
                self._look(team)
            bank.plan_silence(Step.CONFIRM if self.report.kills % 2 == 0 else Step.REQUEST, None)

    def _silent_key(self, bank: BankControl, team: Workers) -> str | None:
        """Wait for the bank's silence; None when everything is over before that."""
        while True:
            key = bank.silent_key()
            if key is not None:
                return key
            if not self._open():
                return None
            self._look(team)

    def _holder(self, key: str) -> tuple[int, str]:
        """Return the process that waits for the answer to a call, and which call that is."""
        row = self._connection.execute(
            "select worker.pid, effect.name from hudhud.effect"
            " join hudhud.job_status job on job.id = effect.job_id"
            " join hudhud.worker on worker.id = job.locked_by"
            " where effect.tenant_id = %s and effect.key = %s and effect.state = 'intended'",
            (self._shop, key),
        ).fetchone()
        if row is None:
            message = f"nobody waits for the answer to {key}"
            raise RuntimeError(message)
        return row[0], row[1]

    def _look(self, team: Workers) -> None:
        """Wait a moment; tell now and then how far it is.

        Raises:
            RuntimeError: A worker has ended by itself.
            TimeoutError: Nothing has gone on for a long time.
        """
        team.require_alive()
        time.sleep(LOOK_SECONDS)
        now = time.monotonic()
        done = self.report.refunds - self._open()
        if done > self._done:
            self._done, self._moved_at = done, now
        if now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            self._say(f"so far    {done} of {self.report.refunds} have come to their end")
        if now - self._moved_at > STALL_SECONDS:
            message = f"no refund has come to its end within {STALL_SECONDS:g} s"
            raise TimeoutError(message)

    def _open(self) -> int:
        return self._number("select count(*) from refunds.refund", "and state = 'recorded'")

    def _payments(self) -> list[tuple[str, int]]:
        rows = self._connection.execute(
            "select transaction_id, amount from refunds.transaction where shop = %s", (self._shop,)
        )
        return [(name, amount) for name, amount in rows]

    def _shown(self) -> str:
        """Return the transaction to be shown in both ledgers: A, else one with most refunds."""
        row = self._connection.execute(
            "select transaction_id from refunds.refund where shop = %s group by 1"
            " order by transaction_id = %s desc, count(*) desc, 1 limit 1",
            (self._shop, A),
        ).fetchone()
        assert row is not None, "there are refunds"
        return str(row[0])

    def _ours(self) -> list[Recorded]:
        rows = self._connection.execute(
            "select id::text, line, transaction_id, amount, state, confirmation"
            " from refunds.refund where shop = %s order by line",
            (self._shop,),
        )
        return [Recorded(*row) for row in rows]

    def _errors(self) -> list[tuple[int, str]]:
        """Return what runs failed with, the most frequent first."""
        rows = self._connection.execute(
            "select count(*), code || ': ' || split_part(error, E'\\n', 1)"
            " from hudhud.outcome_all join hudhud.job_all job on job.id = job_id"
            " where tenant_id = %s and error is not null group by 2 order by 1 desc limit %s",
            (self._shop, ERRORS_SHOWN_MAX),
        )
        return [(amount, error) for amount, error in rows]

    def _number(self, query: str, condition: str = "") -> int:
        row = self._connection.execute(
            f"{query} where shop = %s {condition}".encode(), (self._shop,)
        ).fetchone()
        assert row is not None
        return int(row[0])

    def _take_counts(self, counts: dict[str, int]) -> None:
        report = self.report
        report.dropped_replies = counts.get("drops_reply", 0) + counts.get("silent", 0)
        report.server_errors = counts.get("fails_before", 0) + counts.get("fails_after", 0)
        report.asked_to_wait = counts.get("too_many_requests", 0) + counts.get("unavailable", 0)
        report.pending_refusals = counts.get(No.PENDING_REQUEST_EXISTS, 0)
        report.reconciled = counts.get("found", 0) + counts.get("not_found", 0)
        report.refused_by_bank = sum(counts.get(why, 0) for why in No if why not in BENIGN)

    def _tell(self, ours: Sequence[Recorded], entries: Sequence[books.Entry]) -> None:
        report = self.report
        if ours:
            self._say("")
            for line in table("", ["our record"], ["the bank's books"]):
                self._say(line)
            for line in beside(self._shown(), ours, entries):
                self._say(line)
            left = f"{report.refunds} refunds, {report.toman:,} toman"
            number = report.confirmed + report.doubled
            right = f"{number} confirmations, {report.toman_confirmed:,} toman"
            for line in table("all transactions", [left], [right]):
                self._say(line)
            self._say("")
        if self._failure:
            self._say(f"FAILED    {self._failure}")
        if not report.ok:
            for amount, error in self._errors():
                self._say(f"          {amount} times {error}")
        self._say(
            f"{'ok' if report.ok else 'FAILED'}: {report.confirmed} of {report.refunds} confirmed,"
            f" {report.doubled} doubled, {report.missing} missing; {report.kills} workers killed,"
            f" {report.dropped_replies} answers lost, {report.server_errors} server errors,"
            f" {report.asked_to_wait} times asked to wait, {report.pending_refusals} met a pending"
            f" request, {report.reconciled} questions what became of a call"
        )
