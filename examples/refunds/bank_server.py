"""The bank, in a process of its own: two steps over HTTP, and the manners of a real one.

    python -m examples.refunds.bank_server --books FILE --shop NAME [--seed N]

It tells its port on the first line of its output and serves loopback until its input ends. A share
of the calls, chosen by the seed, gets 429 or 503 with `Retry-After`, a 500 before or after it has
acted, or no answer at all after it has acted.

    POST /refunds                     {transaction_id, amount, reference, key}  → 201 {number, …}
    POST /refunds/{number}/confirm    {key}                                     → 201 {number, …}
    GET  /calls?step=request&key=…    what became of a call: the entry, or null
    POST /payments                    [[transaction_id, amount], …]: what customers have paid
    GET  /counts                      how it has behaved so far
    POST /silence                     {step, transaction_id or null}: act on the next such call and
    GET  /silence                     say nothing; then its key, so that the play can go on
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from examples.refunds.books import Books, Entry, No, RefusalError, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
RETRY_AFTER_SECONDS: Final = 1
SILENT_SECONDS: Final = 30.0  # longer than any client waits
SHOP_HEADER: Final = "X-Shop"


class Manner(StrEnum):
    """How the bank takes a call that it has nothing against."""

    WELL = "well"
    TOO_MANY = "too_many_requests"
    UNAVAILABLE = "unavailable"
    FAILS_BEFORE = "fails_before"
    FAILS_AFTER = "fails_after"
    DROPS_REPLY = "drops_reply"


_CALLS: Final = {
    Manner.TOO_MANY: 0.05,
    Manner.UNAVAILABLE: 0.02,
    Manner.FAILS_BEFORE: 0.02,
    Manner.FAILS_AFTER: 0.03,
    Manner.DROPS_REPLY: 0.06,
}
# A question changes nothing, so before and after are the same.
_QUESTIONS: Final = {Manner.TOO_MANY: 0.05, Manner.UNAVAILABLE: 0.02, Manner.FAILS_BEFORE: 0.03}
_TEXTS: Final = {
    Manner.TOO_MANY: (429, "شمار درخواست زیاد است؛ کمی بعد دوباره تلاش کنید."),
    Manner.UNAVAILABLE: (503, "سامانه موقتاً در دسترس نیست."),
    Manner.FAILS_BEFORE: (500, "خطای داخلی رخ داد."),
    Manner.FAILS_AFTER: (500, "خطای داخلی رخ داد."),
}


class Mood:
    """How the bank behaves, by a seed: the same for the n-th call of one kind in each play."""

    def __init__(self, seed: int, *, share: float = 1.0) -> None:
        """Choose.

        Args:
            seed: Of the choice.
            share: 0: it takes every call well; 1: as it usually does.
        """
        self.counts: Counter[str] = Counter()
        self._seed = seed
        self._share = share
        self._calls: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._silence: tuple[Step, str | None] | None = None
        self._silent_key: str | None = None

    def manner(self, step: str, about: str, *, is_question: bool = False) -> Manner:
        """Return how this call is taken.

        Args:
            step: Which of the bank's calls it is.
            about: What it is about; nothing that differs from play to play.
            is_question: Whether it changes nothing.
        """
        call = f"{step} {about}"
        with self._lock:
            self._calls[call] += 1
            chance = random.Random(f"{self._seed} {call} {self._calls[call]}").random()  # noqa: S311 - no secret
        for manner, share in (_QUESTIONS if is_question else _CALLS).items():
            chance -= share * self._share
            if chance < 0:
                return manner
        return Manner.WELL

    def count(self, what: str) -> None:
        """Take note of how a call ended."""
        with self._lock:
            self.counts[what] += 1

    def plan_silence(self, step: Step, transaction_id: str | None) -> None:
        """Be silent after acting on the next call of a step, about a transaction or about any."""
        with self._lock:
            self._silence = (step, transaction_id)
            self._silent_key = None

    def is_silent_about(self, entry: Entry) -> bool:
        """Whether the caller of this entry gets no answer as was planned; once."""
        with self._lock:
            if self._silence is None or self._silence[0] is not entry.step:
                return False
            if self._silence[1] not in (None, entry.transaction_id):
                return False
            self._silence = None
            self._silent_key = entry.key
            return True

    @property
    def silent_key(self) -> str | None:
        """The key of the call that was met with the planned silence; None while there is none."""
        return self._silent_key


class Bank(ThreadingHTTPServer):
    """Serves the books, one thread for each connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, books: Books, mood: Mood, *, shop: str, port: int = 0) -> None:
        """Listen on loopback.

        Args:
            books: What was accepted.
            mood: How it behaves.
            shop: Whose refunds it makes; others are refused.
            port: 0: any that is free.
        """
        self.books = books
        self.mood = mood
        self.shop = shop
        super().__init__(("127.0.0.1", port), _Desk)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a killed client goes without a word
            super().handle_error(request, client_address)


class _Desk(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece

    @property
    def _bank(self) -> Bank:
        return cast("Bank", self.server)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing; the counts tell."""

    def do_GET(self) -> None:
        self._answer_by({"calls": self._find, "counts": self._tell, "silence": self._tell_silence})

    def do_POST(self) -> None:
        self._answer_by(
            {"refunds": self._act, "payments": self._pay, "silence": self._plan_silence}
        )

    def _answer_by(self, desks: Mapping[str, Callable[[list[str]], None]]) -> None:
        parts = urlsplit(self.path).path.strip("/").split("/")
        desk = desks.get(parts[0])
        try:
            if desk is None:
                self.send_error(HTTPStatus.NOT_FOUND)
            else:
                desk(parts[1:])
        except RefusalError as refusal:
            self._bank.mood.count(refusal.why)
            self._refuse(refusal.why)
        except (KeyError, TypeError, ValueError, AttributeError):
            self.close_connection = True  # who knows where its next call begins
            self._refuse(No.MALFORMED)

    def _act(self, rest: list[str]) -> None:
        """Take a request or a confirmation, in the manner of the moment."""
        body = cast("dict[str, Any]", self._body())
        if self.headers.get(SHOP_HEADER) != self._bank.shop:
            raise RefusalError(No.OTHER_SHOP)
        books, mood = self._bank.books, self._bank.mood
        key = _text(body["key"])
        if rest:
            number = int(rest[0])
            asked = books.find_request(number)
            manner = mood.manner(Step.CONFIRM, f"{asked and (asked.transaction_id, asked.amount)}")
        else:
            number, about = 0, (_text(body["transaction_id"]), _whole(body["amount"]))
            manner = mood.manner(Step.REQUEST, f"{about}")
        if manner in (Manner.TOO_MANY, Manner.UNAVAILABLE, Manner.FAILS_BEFORE):
            self._fail(manner)
            return
        if rest:
            entry = books.confirm(number, key=key)
        else:
            reference = _text(body["reference"])
            entry = books.request(
                body["transaction_id"], body["amount"], key=key, reference=reference
            )
        self._end(entry, manner)

    def _end(self, entry: Entry, manner: Manner) -> None:
        """Answer, or do not, when all is done."""
        if self._bank.mood.is_silent_about(entry):
            self._bank.mood.count("silent")
            self.connection.settimeout(SILENT_SECONDS)
            self.rfile.read(1)  # until the client has had enough, or is dead
            self.close_connection = True
        elif manner is Manner.DROPS_REPLY:
            self._bank.mood.count(manner)
            self.close_connection = True
        elif manner is Manner.FAILS_AFTER:
            self._fail(manner)
        else:
            self._bank.mood.count(entry.step)
            self._answer(HTTPStatus.CREATED, asdict(entry))

    def _find(self, _: list[str]) -> None:
        query = parse_qs(urlsplit(self.path).query)
        step, key = Step(query["step"][0]), query["key"][0]
        entry = self._bank.books.find(step, key)
        about = f"{step} {entry and (entry.transaction_id, entry.amount)}"
        manner = self._bank.mood.manner("find", about, is_question=True)
        if manner is not Manner.WELL:
            self._fail(manner)
            return
        self._bank.mood.count("not_found" if entry is None else "found")
        self._answer(HTTPStatus.OK, entry and asdict(entry))

    def _pay(self, _: list[str]) -> None:
        payments = cast("list[list[Any]]", self._body())
        accepted = self._bank.books.pay((_text(one), _whole(amount)) for one, amount in payments)
        self._answer(HTTPStatus.CREATED, {"accepted": accepted})

    def _tell(self, _: list[str]) -> None:
        self._answer(HTTPStatus.OK, dict(self._bank.mood.counts))

    def _plan_silence(self, _: list[str]) -> None:
        body = cast("dict[str, Any]", self._body())
        self._bank.mood.plan_silence(Step(body["step"]), body["transaction_id"])
        self._answer(HTTPStatus.OK, None)

    def _tell_silence(self, _: list[str]) -> None:
        self._answer(HTTPStatus.OK, self._bank.mood.silent_key)

    def _fail(self, manner: Manner) -> None:
        self._bank.mood.count(manner)
        status, text = _TEXTS[manner]
        retry_after = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status in (429, 503) else {}
        self._answer(status, {"code": _code(manner), "message": text}, retry_after)

    def _refuse(self, why: No) -> None:
        self._answer(why.status, {"code": why, "message": why.text})

    def _body(self) -> object:
        length = int(self.headers["Content-Length"])
        if not 0 <= length <= BODY_BYTES_MAX:
            self.close_connection = True
            raise RefusalError(No.MALFORMED)
        return json.loads(self.rfile.read(length))

    def _answer(
        self, status: int, document: object, headers: Mapping[str, str] | None = None
    ) -> None:
        content = json.dumps(document, ensure_ascii=False).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _code(manner: Manner) -> str:
    """Return what the client may know: not whether it has acted."""
    is_failure = manner in (Manner.FAILS_BEFORE, Manner.FAILS_AFTER)
    return "internal_error" if is_failure else manner.value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise RefusalError(No.MALFORMED)
    return value


def _whole(value: object) -> int:
    if type(value) is not int:
        raise RefusalError(No.WRONG_AMOUNT)
    return value


def main() -> int:
    """Serve until the input ends."""
    parser = argparse.ArgumentParser(prog="bank")
    parser.add_argument("--books", type=Path, required=True, help="the file; made when missing")
    parser.add_argument("--shop", required=True, help="whose refunds it makes")
    parser.add_argument("--seed", type=int, default=1, help="of its moods")
    parser.add_argument("--share", type=float, default=1.0, help="0: never moody; 1: as usual")
    asked = parser.parse_args()
    books = Books(asked.books)
    bank = Bank(books, Mood(asked.seed, share=asked.share), shop=asked.shop)
    threading.Thread(target=bank.serve_forever, daemon=True).start()
    print(bank.server_port, flush=True)
    with suppress(KeyboardInterrupt):  # meant for whoever plays with us; our input ends with them
        sys.stdin.read()
    bank.shutdown()
    bank.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
