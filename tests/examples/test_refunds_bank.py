"""The bank of the refunds example, over HTTP, and what its client makes of its answers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from typing import TYPE_CHECKING

import httpx
import pytest

from examples.refunds import books
from examples.refunds.bank import Bank, Refund
from examples.refunds.bank_server import Manner, Mood
from examples.refunds.books import Books, No, RefusalError, Step
from examples.refunds.judge import Recorded, judge
from hudhud import NotSent, Refused, TryLater
from tests.support.refunds import OF_A, SHOP, accepted, call, confirm, request, served

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Books]:
    opened = Books(tmp_path / "books.jsonl")
    opened.pay([("A", 100_000), ("B", 500)])
    yield opened
    opened.close()


def test_a_refund_takes_two_steps_and_both_are_found_by_their_keys(ledger: Books) -> None:
    with served(ledger) as server:
        requested = call(server.url, request())
        confirmed = call(server.url, confirm(requested["number"]))
        assert confirmed["request"] == requested["number"]
        assert (confirmed["reference"], confirmed["amount"]) == ("our own name", 20_000)
        assert call(server.url, lambda client: client.find_request("k1")) == requested
        assert call(server.url, lambda client: client.find_confirmation("k2")) == confirmed
        # Each step has keys of its own, and what was never asked is not there.
        assert call(server.url, lambda client: client.find_confirmation("k1")) is None


def test_a_second_pending_request_is_refused_with_a_stable_code_and_in_persian(
    ledger: Books,
) -> None:
    with served(ledger) as server:
        number = call(server.url, request())["number"]
        with pytest.raises(TryLater) as later:
            call(server.url, request(key="another"))
        assert later.value.code == "pending_request_exists"
        assert "در انتظار تأیید" in str(later.value)
        call(server.url, confirm(number), request(key="another"))


@pytest.mark.parametrize(
    ("refund", "code"),
    [
        (Refund(SHOP, "r", "nobody's", 5), "unknown_transaction"),
        (Refund(SHOP, "r", "A", 100_001), "sum_exceeded"),
        (Refund(SHOP, "r", "A", 0), "wrong_amount"),
        (Refund(SHOP, "r", "A", -5), "wrong_amount"),
        (Refund(SHOP, "", "A", 5), "malformed"),
        (Refund("another shop", "r", "A", 5), "other_shop"),
    ],
)
def test_the_bank_checks_number_and_sum_and_a_definite_no_is_for_good(
    ledger: Books, refund: Refund, code: str
) -> None:
    with served(ledger) as server, pytest.raises(Refused) as refused:
        call(server.url, request(refund))
    assert refused.value.code == code
    if code != "malformed":
        assert str(refused.value) == No(code).text


def test_confirming_what_was_never_requested_is_refused(ledger: Books) -> None:
    with served(ledger) as server, pytest.raises(Refused) as refused:
        call(server.url, confirm(99))
    assert refused.value.code == "unknown_request"


def test_the_bank_knows_no_key_again_and_whoever_just_sends_again_pays_twice(
    ledger: Books, tmp_path: Path
) -> None:
    with served(ledger, Manner.WELL, Manner.DROPS_REPLY) as server:
        number = call(server.url, request())["number"]
        with pytest.raises(httpx.RemoteProtocolError):
            call(server.url, confirm(number))
        call(server.url, confirm(number))
    made = accepted(tmp_path / "books.jsonl")
    assert [one.key for one in made] == ["k1", "k2", "k2"]
    verdict = judge([Recorded("our own name", 2, "A", 20_000, "confirmed", 4)], made)
    assert (verdict.confirmed, verdict.doubled, verdict.toman) == (1, 1, 40_000)


def test_nothing_makes_the_bank_pay_more_than_was_paid(ledger: Books) -> None:
    asked = ledger.request("A", 60_000, key="k1", reference="r")
    ledger.confirm(asked.number, key="k2")
    with pytest.raises(RefusalError, match="sum_exceeded"):
        ledger.confirm(asked.number, key="k2")


@pytest.mark.parametrize(
    ("manner", "has_acted"),
    [
        (Manner.DROPS_REPLY, True),
        (Manner.FAILS_AFTER, True),
        (Manner.FAILS_BEFORE, False),
    ],
)
def test_of_what_is_unclear_the_client_says_nothing_and_the_bank_can_be_asked(
    ledger: Books, manner: Manner, has_acted: object
) -> None:
    with served(ledger, manner) as server:
        with pytest.raises(httpx.HTTPError):
            call(server.url, request())
        found = call(server.url, lambda client: client.find_request("k1"))
    assert (found is not None) is has_acted


@pytest.mark.parametrize("manner", [Manner.TOO_MANY, Manner.UNAVAILABLE])
def test_a_bank_that_asks_for_patience_has_done_nothing(ledger: Books, manner: Manner) -> None:
    with served(ledger, manner) as server:
        with pytest.raises(TryLater) as later:
            call(server.url, request())
        assert later.value.after_seconds == 1
        assert call(server.url, lambda client: client.find_request("k1")) is None


def test_a_bank_that_cannot_be_reached_was_sent_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(NotSent):
            call(f"http://127.0.0.1:{port}", request())


def test_the_last_check_comes_when_the_connection_stands_and_keeps_everything_back(
    ledger: Books,
) -> None:
    def too_late() -> None:
        message = "too late"
        raise NotSent(message)

    async def late(client: Bank) -> None:
        with pytest.raises(NotSent, match="too late"):
            await client.request(OF_A, key="k1", check=too_late)

    with served(ledger) as server:
        # And the connection can be used afterwards.
        assert call(server.url, late, request(key="k3"))["key"] == "k3"
        assert call(server.url, lambda client: client.find_request("k1")) is None


def test_an_answer_that_cannot_be_read_says_nothing() -> None:
    for status, body in ((200, b"<html>"), (502, b""), (503, b"no time given"), (302, b"{}")):
        with pytest.raises((httpx.HTTPError, ValueError)):
            _told(status, body)
    for status in (400, 401, 418):
        with pytest.raises(Refused) as refused:
            _told(status, b"<html>")
        assert refused.value.code == f"http_{status}"
    with pytest.raises(TryLater) as later:
        _told(429, b"", {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
    assert later.value.after_seconds is None


def _told(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, content=body, headers=headers)

    async def run() -> None:
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(base_url="http://bank", transport=transport) as http:
            await request()(Bank(http))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        ("/refunds", b"{", 400),
        ("/refunds", b"[]", 400),
        ("/refunds", b'{"key": "k", "transaction_id": "A", "amount": "5", "reference": "r"}', 422),
        ("/refunds", b'{"key": "k", "transaction_id": "A", "amount": true, "reference": "r"}', 422),
        ("/refunds", b'{"key": "k", "transaction_id": ["A"], "amount": 5, "reference": "r"}', 400),
        ("/refunds/x/confirm", b'{"key": "k"}', 400),
        ("/payments", b'[["A", 5]]', 409),
        ("/payments", b'[["C", 0]]', 422),
        ("/nowhere", b"{}", 404),
    ],
)
def test_the_bank_refuses_what_it_cannot_read_and_goes_on(
    *, ledger: Books, path: str, content: bytes, status: int
) -> None:
    with (
        served(ledger) as server,
        httpx.Client(base_url=server.url, trust_env=False) as http,
    ):
        answer = http.post(path, content=content, headers={"X-Shop": SHOP})
        assert answer.status_code == status
        assert http.get("/counts").status_code == 200


def test_the_books_are_the_same_after_a_restart(ledger: Books, tmp_path: Path) -> None:
    one = ledger.request("A", 20_000, key="k1", reference="r1")
    ledger.confirm(one.number, key="k2")
    two = ledger.request("A", 50_000, key="k3", reference="r2")
    again = Books(tmp_path / "books.jsonl")
    assert again.find(Step.CONFIRM, "k2") == ledger.find(Step.CONFIRM, "k2")
    with pytest.raises(RefusalError, match="pending_request_exists"):
        again.request("A", 1, key="k4", reference="r3")
    assert again.confirm(two.number, key="k5").number == two.number + 1
    with pytest.raises(RefusalError, match="sum_exceeded"):
        again.request("A", 30_001, key="k6", reference="r4")
    again.close()


def test_calls_at_once_are_all_written_and_one_of_a_transaction_waits(
    ledger: Books, tmp_path: Path
) -> None:
    ledger.pay([(f"t{n}", 10) for n in range(50)])
    refused: list[RefusalError] = []

    def ask(number: int) -> None:
        for part in range(2):
            try:
                key = f"{number} {part}"
                ledger.request(f"t{number % 50}", 1, key=key, reference="r")
            except RefusalError as error:
                refused.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = list(books.read(tmp_path / "books.jsonl"))
    assert [one.number for one in entries] == list(range(1, len(entries) + 1))
    assert len(refused) == 150
    assert len({one.transaction_id for one in entries if one.step is Step.REQUEST}) == 50


def test_the_seed_decides_how_calls_are_taken_whatever_their_order() -> None:
    calls = [("request", f"{n % 400}") for n in range(2_000)]
    manners = []
    for order in (calls, sorted(calls)):
        mood = Mood(7)
        manners.append(Counter((call, mood.manner(*call)) for call in order))
    assert manners[0] == manners[1]
    kinds = Counter(manner for (_, manner), times in manners[0].items() for _ in range(times))
    assert set(kinds) == set(Manner)
    assert kinds[Manner.WELL] > 1_500
    other = Mood(8)
    assert Counter((call, other.manner(*call)) for call in calls) != manners[0]
