"""Laws of handlers: what is refused where it is defined, and what a handler makes."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import pytest

from hudhud.domain.job import NewJob
from hudhud.domain.retry import RetryPolicy
from hudhud.errors import ConfigError, InvalidJobError
from hudhud.worker.handler import define

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator


async def refund(_: object, transaction_id: str, amount: int = 0) -> str:
    return f"{transaction_id} {amount}"


def count(_: object, words: list[str]) -> int:
    return len(words)


async def open_ended(_: object, /, name: str, **others: object) -> dict[str, object]:
    return {"name": name, **others}


async def as_generator(_: object) -> AsyncGenerator[int]:
    yield 1


def as_plain_generator(_: object) -> Iterator[int]:
    yield 1


async def without_context() -> None: ...


async def of_places(_: object, *places: str) -> None:
    assert places


async def of_bytes(_: object, blob: bytes) -> None:
    assert blob


class Caller:
    async def __call__(self, _: object, name: str) -> str:
        return name


def test_a_handler_is_called_like_its_function() -> None:
    handler = define("refund", refund)
    assert asyncio.run(handler(None, "A", amount=3)) == "A 3"
    assert define("count", count)(None, ["a", "b"]) == 2


def test_the_kind_follows_from_the_function() -> None:
    assert define("t", refund).kind == "async"
    assert define("t", count).kind == "thread"
    assert define("t", Caller()).kind == "async"
    assert define("t", count, kind="process").kind == "process"


def test_defaults_are_those_of_the_documentation() -> None:
    handler = define("refund", refund)
    assert (handler.version, handler.queue, handler.lane) == (1, "default", "normal")
    assert (handler.timeout_seconds, handler.max_attempts, handler.max_crashes) == (60, 20, 3)
    assert handler.retry == RetryPolicy()
    assert handler.contract == "refund:1"


def test_a_job_has_the_types_contract_and_the_named_payload() -> None:
    handler = define("refund", refund, version=2)
    assert handler.job(transaction_id="A") == NewJob("refund", {"transaction_id": "A"}, version=2)
    assert handler.job("A", amount=5).payload == {"transaction_id": "A", "amount": 5}
    assert handler.job("A", 5).payload == {"transaction_id": "A", "amount": 5}


def test_further_fields_go_where_the_function_takes_them() -> None:
    assert define("t", open_ended).job("n", extra=1).payload == {"name": "n", "extra": 1}


def test_a_job_goes_where_its_handler_says_even_if_no_worker_announced_it_yet() -> None:
    handler = define("t", refund, queue="bank", lane="high", max_attempts=3)
    made = handler.job(transaction_id="A")
    assert (made.queue, made.lane, made.max_attempts) == ("bank", "high", 3)
    made = handler.using(queue="slow", max_attempts=1).job(transaction_id="A")
    assert (made.queue, made.lane, made.max_attempts) == ("slow", "high", 1)


def test_options_add_up_and_leave_the_handler_as_it_was() -> None:
    handler = define("refund", refund)
    for_acme = handler.using(tenant_id="acme", delay_seconds=5)
    made = for_acme.using(delay_seconds=9, tags=["a"]).job(transaction_id="A")
    assert (made.tenant_id, made.delay_seconds, made.tags) == ("acme", 9, ["a"])
    assert for_acme.job(transaction_id="A").delay_seconds == 5
    assert handler.job(transaction_id="A") == NewJob("refund", {"transaction_id": "A"})


@pytest.mark.parametrize(
    "payload", [{}, {"transaction_id": 1}, {"transaction_id": "A", "amuont": 1}]
)
def test_a_payload_that_the_handler_cannot_take_is_refused_before_it_is_sent(
    payload: dict[str, Any],
) -> None:
    with pytest.raises(InvalidJobError):
        define("refund", refund).job(**payload)


def test_an_error_has_the_class_of_its_nearest_base() -> None:
    handler = define("t", refund, errors={OSError: "retryable", ConnectionError: "unknown"})
    assert handler.class_of(TimeoutError()) == "retryable"
    assert handler.class_of(ConnectionResetError()) == "unknown"
    assert handler.class_of(ValueError()) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"version": 0}, "version must be from 1 to 32767"),
        ({"version": True}, "version must be from 1 to 32767"),
        ({"version": 1.0}, "version must be from 1 to 32767"),
        ({"max_attempts": 0}, "max_attempts must be from 1"),
        ({"max_crashes": 32_768}, "max_crashes must be from 1"),
        ({"lane": "urgent"}, "one of critical, high, normal, bulk"),
        ({"queue": "a queue"}, "queue 'a queue' must be 1 to 63 of"),
        ({"queue": "q" * 64}, "must be 1 to 63 of"),
        ({"queue": "!beat"}, "must be 1 to 63 of"),
        ({"timeout_seconds": 0}, "timeout_seconds must be above 0"),
        ({"timeout_seconds": 86_401}, "at most 86400"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds must be above 0"),
        ({"kind": "fiber"}, "kind 'fiber' must be one of async, thread, process"),
        ({"kind": "thread"}, "kind 'thread' needs a plain def"),
        ({"errors": {"ValueError": "permanent"}}, "no exception class"),
        ({"errors": {KeyboardInterrupt: "permanent"}}, "no exception class"),
        ({"errors": {ValueError: "fatal"}}, "not one of permanent, retryable, unknown"),
    ],
)
def test_an_option_out_of_bounds_is_refused_with_the_place(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        define("refund", refund, **options)
    assert f"{__name__}.refund" in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 201, "a\n"])
def test_a_type_that_could_not_be_shown_or_sent_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="type"):
        define(name, refund)


@pytest.mark.parametrize(
    "function", [without_context, of_places, of_bytes, as_generator, as_plain_generator]
)
def test_a_function_that_cannot_be_a_handler_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError):
        define("t", function)


def inside() -> Callable[[object], None]:
    def function(_: object) -> None: ...

    return function


@pytest.mark.parametrize("function", [inside(), lambda _: None, functools.partial(count, words=[])])
def test_a_process_handler_must_be_importable(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="module level"):
        define("t", function, kind="process")


def test_an_errors_map_that_is_changed_later_changes_no_handler() -> None:
    errors: dict[type[Exception], Any] = {ValueError: "permanent"}
    handler = define("t", refund, errors=errors)
    errors[ValueError] = "retryable"
    assert handler.class_of(ValueError()) == "permanent"
