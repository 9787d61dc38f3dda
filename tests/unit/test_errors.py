"""hudhud.errors: what each error says, and which SQLSTATE it stands for."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudhud import errors
from hudhud.errors import (
    DuplicateJobError,
    HudhudError,
    InvalidJobError,
    Permanent,
    PermissionDeniedError,
    Retryable,
    SchemaError,
    Snooze,
    Unknown,
)

EVERY = [
    one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, HudhudError)
]


@pytest.mark.parametrize("error_class", EVERY)
def test_every_error_says_what_happened_and_what_to_do(error_class: type[HudhudError]) -> None:
    message = errors.default_message(error_class)
    assert message.count(". ") >= 1
    assert message.endswith(".")
    assert "\n" not in message


def test_an_error_without_a_message_says_its_docstring() -> None:
    assert str(DuplicateJobError()).startswith("The idempotency key is taken.")


def test_an_error_with_a_message_says_that() -> None:
    assert str(DuplicateJobError("key A is taken")) == "key A is taken"


@pytest.mark.parametrize(("sqlstate", "error_class"), errors.BY_SQLSTATE.items())
def test_a_state_of_ours_becomes_its_class_with_the_servers_words(
    sqlstate: str, error_class: type[HudhudError]
) -> None:
    error = errors.from_sqlstate(sqlstate, "said the server")
    assert type(error) is error_class
    assert str(error) == "said the server"


@pytest.mark.parametrize("sqlstate", ["23505", "40001", "HH999", "", None])
def test_a_foreign_state_stays_the_drivers_own(sqlstate: str | None) -> None:
    assert errors.from_sqlstate(sqlstate, "x") is None


@pytest.mark.parametrize("sqlstate", ["3F000", "42883"])
def test_a_missing_schema_or_function_says_what_to_run(sqlstate: str) -> None:
    error = errors.from_sqlstate(sqlstate, 'schema "hudhud" does not exist')
    assert type(error) is SchemaError
    assert "hudhud migrate" in str(error)


def test_a_role_without_execute_is_a_denied_permission() -> None:
    error = errors.from_sqlstate("42501", "permission denied for function enqueue")
    assert type(error) is PermissionDeniedError


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Permanent(), "permanent"),
        (Permanent("no", code="card_refused"), "card_refused"),
        (Permanent("no", code="Card refused!"), "card_refused"),
        (Retryable(after_seconds=30), "retryable"),
        (Unknown("silence"), "unknown"),
        (Snooze(60), "snooze"),
    ],
)
def test_a_verdict_carries_a_code_that_groups(verdict: errors.Verdict, code: str) -> None:
    assert verdict.code == code


@given(st.text())
def test_any_text_becomes_a_code_without_an_error(text: str) -> None:
    code = errors.snake_code(text)
    assert 1 <= len(code) <= errors.CODE_CHARACTERS_MAX
    assert set(code) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")
    assert errors.snake_code(code) == code


@pytest.mark.parametrize(
    "error",
    [
        Retryable("later", after_seconds=2.5, code="rate_limited"),
        Snooze(60, code="not_yet"),
        Permanent("no"),
        InvalidJobError("$.a is missing."),
    ],
)
def test_an_error_survives_the_way_between_processes(error: HudhudError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
