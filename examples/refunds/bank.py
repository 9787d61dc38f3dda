"""The client of the bank: what its answers mean for whoever must not refund twice.

| the bank | means |
|---|---|
| cannot be reached | `NotSent`: nothing left, for sure |
| 429, 503 with `Retry-After`, 409 `pending_request_exists` | `TryLater`: it has done nothing yet |
| any other 4xx | `Refused`: a definite no |
| 500, a broken connection, no answer in time, an answer that cannot be read | nobody knows |
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import httpx

from hudhud import NotSent, Refused, TryLater

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    Trace = Callable[[str, Mapping[str, object]], Awaitable[None]]

URL: Final = "REFUNDS_BANK_URL"
"""The environment variable that says where the bank is."""
TIMEOUT: Final = httpx.Timeout(5.0, connect=2.0, pool=2.0)
CLIENT_ERRORS, SERVER_ERRORS = 400, 500
TOO_MANY, UNAVAILABLE = 429, 503
PENDING: Final = "pending_request_exists"


@dataclass(frozen=True, slots=True)
class Refund:
    """What the bank is asked for. `reference` is the shop's own name for it; toman."""

    shop: str
    reference: str
    transaction_id: str
    amount: int


class Bank:
    """The bank's two steps, and a question for each."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def request(
        self, refund: Refund, *, key: str, check: Callable[[], None]
    ) -> dict[str, Any]:
        """Ask for a refund; return the bank's entry, with the number by which to confirm it.

        Args:
            refund: What.
            key: By which it can be found.
            check: Called when the connection stands, right before the first byte leaves; what it
                raises keeps everything from being sent.

        Raises:
            NotSent: Nothing left.
            Refused: A definite no.
            TryLater: It did nothing, for now.
            httpx.HTTPError: Nobody knows.
        """
        body = {
            "transaction_id": refund.transaction_id,
            "amount": refund.amount,
            "reference": refund.reference,
            "key": key,
        }
        return await self._act("/refunds", body, shop=refund.shop, check=check)

    async def confirm(
        self, refund: Refund, number: int, *, key: str, check: Callable[[], None]
    ) -> dict[str, Any]:
        """Confirm a request by its number: now the money goes back. As `request` otherwise."""
        path = f"/refunds/{number}/confirm"
        return await self._act(path, {"key": key}, shop=refund.shop, check=check)

    async def find_request(self, key: str) -> dict[str, Any] | None:
        """Ask what became of a request."""
        return await self._find("request", key)

    async def find_confirmation(self, key: str) -> dict[str, Any] | None:
        """Ask what became of a confirmation."""
        return await self._find("confirm", key)

    async def _act(
        self, path: str, body: Mapping[str, object], *, shop: str, check: Callable[[], None]
    ) -> dict[str, Any]:
        try:
            answer = await self._http.post(
                path,
                json=body,
                headers={"X-Shop": shop},
                extensions={"trace": _before_the_first_byte(check)},
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            message = f"the bank cannot be reached: {error!r}"
            raise NotSent(message) from error
        return cast("dict[str, Any]", _read(answer))

    async def _find(self, step: str, key: str) -> dict[str, Any] | None:
        answer = await self._http.get("/calls", params={"step": step, "key": key})
        return cast("dict[str, Any] | None", _read(answer))


async def open_bank() -> AsyncGenerator[Bank]:
    """Open the client for a worker's life."""
    async with httpx.AsyncClient(
        base_url=os.environ[URL], timeout=TIMEOUT, trust_env=False
    ) as http:
        yield Bank(http)


def _before_the_first_byte(check: Callable[[], None]) -> Trace:
    """Return what httpx calls at each step of a request."""

    async def trace(step: str, _: Mapping[str, object]) -> None:
        if step == "http11.send_request_headers.started":
            check()

    return trace


def _read(answer: httpx.Response) -> object:
    """Return what the bank answered, or raise what its refusal means."""
    status = answer.status_code
    if status < CLIENT_ERRORS:
        answer.raise_for_status()
        return answer.json()
    code, message = _problem(answer)
    after_seconds = _retry_after(answer)
    if status == TOO_MANY or code == PENDING or (status == UNAVAILABLE and after_seconds):
        raise TryLater(message, after_seconds=after_seconds, code=code)
    if status < SERVER_ERRORS:
        raise Refused(message, code=code)
    raise httpx.HTTPStatusError(message, request=answer.request, response=answer)


def _problem(answer: httpx.Response) -> tuple[str, str]:
    """Return code and text of a refusal, whatever stands between us and the bank said it."""
    try:
        document = answer.json()
        return str(document["code"]), str(document["message"])
    except (ValueError, KeyError, TypeError):
        return f"http_{answer.status_code}", f"HTTP {answer.status_code}"


def _retry_after(answer: httpx.Response) -> float | None:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
