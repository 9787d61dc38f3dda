"""hudhud.domain.redact: no secret is stored, and no failure goes unrecorded."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import override

from hudhud.domain import redact
from hudhud.errors import Permanent


def fail(error: BaseException) -> None:
    raise error


def raised(error: BaseException) -> redact.Failure:
    try:
        fail(error)
    except BaseException as caught:  # noqa: BLE001 - any, that is the law here
        return redact.describe(caught)
    raise AssertionError


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2",
        "PASSWORD = hunter2 user=x",
        '{"password": "hunter2 hunter2", "a": 1}',
        "{'api_key': 'hunter2'}",
        "db_password: hunter2",
        "client_secret=hunter2&a=1",
        "access_token=hunter2",
        "Authorization: Bearer hunter2hunter2",
        "Authorization: Basic hunter2hunter2==",
        "sent bearer hunter2hunter2 to it",
        "postgresql://shop:hunter2@db/shop",
        "amqp://:hunter2@mq",
        "Key (token)=(hunter2) already exists",
        "otp: hunter2",
        "Cookie: hunter2",
        "token eyJhbGciOi.hunter2.hunter2",
    ],
)
def test_what_is_named_like_a_secret_is_masked(text: str) -> None:
    assert "hunter2" not in redact.redact(text)
    assert "[secret]" in redact.redact(text)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("card 4111 1111 1111 1111 refused", "card [digits] refused"),
        ("card 4111-1111-1111-1111.", "card [digits]."),
        ("order_4111111111111111", "order_[digits]"),
        ("call +98 912 345 6789", "call [digits]"),
        ("۰۹۱۲۳۴۵۶۷۸۹", "[digits]"),
        ("Key (email)=(ali.reza+x@example.co.uk) exists", "Key (email)=([email]) exists"),
    ],
)
def test_personal_data_is_masked(text: str, masked: str) -> None:
    assert redact.redact(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "job 0198c5a2-1111-7111-8111-123456789012 is gone",
        "at 2027-01-15 08:00:00.123456+03:30",
        "took 0.12345678901234 s, 123456789 rows",
        "pinned: the shopping tokenizer failed",
        "مشتری پیدا نشد",
        "keyboard=fa",
    ],
)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    assert redact.redact(text) == text


def test_what_cannot_be_stored_is_replaced() -> None:
    """A44: the failure's own text must not stop its recording."""
    assert raised(ValueError("a\0b\ud800c")).text.startswith("ValueError: a\ufffdb\ufffdc")


def test_honest_text_that_looks_like_an_escape_stays() -> None:
    """A45: on the way out as on the way in."""
    assert redact.clean("\\u0000 C:\\u0000x") == "\\u0000 C:\\u0000x"


def test_a_huge_message_leaves_room_for_where_it_happened() -> None:
    failure = raised(ValueError("x" * 10_000_000))
    assert len(failure.text) <= redact.TEXT_CHARACTERS_MAX
    assert "at test_redact.py:" in failure.text


class UnreadableError(Exception):
    @override
    def __str__(self) -> str:
        raise ZeroDivisionError


class LeavingError(Exception):
    @override
    def __str__(self) -> str:
        raise SystemExit(3)


class NotTextError(Exception):
    @override
    def __str__(self) -> str:
        return cast("str", 5)


class BrokenCodeError(Permanent):
    def __init__(self) -> None:
        """Forget to call the base's, so that there is no code."""


@pytest.mark.parametrize(
    "error", [UnreadableError(), LeavingError(), NotTextError(), BrokenCodeError()]
)
def test_an_exception_that_cannot_be_read_is_recorded_by_its_class(error: Exception) -> None:
    failure = raised(error)
    assert type(error).__name__ in failure.text
    assert failure.code
    assert failure.fingerprint


def test_one_that_cannot_be_read_hides_neither_the_others_nor_the_place() -> None:
    failure = raised(ExceptionGroup("several", [ValueError("readable"), LeavingError()]))
    assert "ValueError: readable" in failure.text
    assert "LeavingError: its text could not be read" in failure.text
    assert "at test_redact.py:" in failure.text


@given(st.text(st.characters(), max_size=200))
@example("\0\ud800password=\0")
def test_any_message_is_recorded_as_text_that_can_be_stored(message: str) -> None:
    failure = raised(ValueError(message))
    failure.text.encode("utf-8")
    assert "\0" not in failure.text
    assert failure.code == "value_error"
    assert len(failure.fingerprint) == redact.FINGERPRINT_DIGITS


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("x"), "value_error"),
        (asyncio.CancelledError(), "cancelled_error"),
        (Permanent("no", code="card_refused"), "card_refused"),
        (type("HTTPStatusError", (Exception,), {})(), "http_status_error"),
        (type("خطا", (Exception,), {})(), "unnamed"),
    ],
)
def test_the_code_groups_by_verdict_or_class(error: BaseException, code: str) -> None:
    assert raised(error).code == code


def refuse(order: int) -> None:
    message = f"order {order} refused"
    raise LookupError(message)


def fingerprint(order: int) -> str:
    try:
        refuse(order)
    except LookupError as error:
        return redact.describe(error).fingerprint
    return ""


def test_failures_that_differ_by_numbers_alone_have_one_fingerprint() -> None:
    assert fingerprint(17) == fingerprint(4711)
    assert fingerprint(17) != raised(LookupError("order 17 refused")).fingerprint
    assert raised(LookupError("a")).fingerprint != raised(LookupError("b")).fingerprint


def test_causes_and_members_of_a_group_are_told_without_end() -> None:
    inner = ValueError("password=hunter2")
    group = ExceptionGroup("both", [inner, KeyError("k")])
    inner.__cause__ = group  # a circle
    text = raised(group).text
    assert text.count("ExceptionGroup: both") == 1
    assert "ValueError: password=[secret]" in text
    assert "KeyError: 'k'" in text


@pytest.mark.parametrize(
    "text", ["a.b-" * 4000, "1-" * 8000, "password='" * 1600, "x@" * 8000, "a://" * 4000]
)
def test_no_text_makes_the_masks_slow(text: str) -> None:
    """Liveness: a pattern that backtracks would take minutes here, and fail the run's time-out."""
    assert len(redact.redact(text * 100)) <= redact.READ_CHARACTERS_MAX * 2
