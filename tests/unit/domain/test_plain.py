"""What people are shown: every digit, instants in UTC, and never a failure."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudhud.domain import api_key
from hudhud.domain.plain import json_text, shown_json

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_is_shown_exactly(value: object) -> None:
    text = json_text(value)
    assert text.isascii()
    assert shown_json(text) == value
    assert (
        shown_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) == value
    )


def test_instants_are_shown_in_utc_and_ids_as_text() -> None:
    tehran = timezone(timedelta(hours=3, minutes=30))
    row = {
        "at": datetime(2027, 1, 15, 8, tzinfo=tehran),
        "id": UUID(int=1),
        "for": timedelta(days=7),
        "none": None,
    }
    assert json.loads(json_text(row)) == {
        "at": "2027-01-15T04:30:00Z",
        "id": "00000000-0000-0000-0000-000000000001",
        "for": 604800.0,
        "none": None,
    }


def test_microseconds_are_kept() -> None:
    at = datetime(2027, 1, 15, 8, 0, 0, 123456, tzinfo=UTC)
    assert json_text(at) == '"2027-01-15T08:00:00.123456Z"'


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(TypeError):
        json_text(object())


def test_a_key_is_read_back_from_its_text() -> None:
    secret = api_key.new_secret()
    key = api_key.parse(api_key.key_text(UUID(int=5), secret))
    assert key == (UUID(int=5), secret)
    assert len(api_key.secret_hash(secret)) == 32


@given(st.text() | st.from_regex(r"hk_[0-9a-f]{31,33}_[A-Za-z0-9_-]{42,44}"))
def test_only_the_exact_form_is_a_key(text: str) -> None:
    key = api_key.parse(text)
    assert key is None or api_key.key_text(key.id, key.secret) == text
