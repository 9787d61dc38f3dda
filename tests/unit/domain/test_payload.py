"""hudhud.domain.payload: kept exactly, or refused with the path."""

from __future__ import annotations

import math
from collections import OrderedDict
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudhud.domain import payload
from hudhud.errors import InvalidJobError, PayloadTooLargeError

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalar = (
    st.none()
    | st.booleans()
    | st.integers(-(10**1000) + 1, 10**1000 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
value = st.recursive(
    scalar, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=20
)
payloads = st.dictionaries(text, value)


@given(payloads)
def test_what_is_accepted_comes_back_exactly(document: dict[str, Any]) -> None:
    assert payload.load(payload.dump(document)) == document


@given(payloads)
def test_text_of_a_payload_is_storable(document: dict[str, Any]) -> None:
    assert "\0" not in payload.dump(document)
    payload.dump(document).encode("utf-8")


def test_integers_beyond_a_float_keep_every_digit() -> None:
    """A47."""
    document = {"id": 9007199254740993, "n": 18446744073709551615, "long": 10**1000 - 1}
    assert payload.load(payload.dump(document)) == document
    assert "9007199254740993" in payload.dump(document)


@pytest.mark.parametrize(
    "honest", ["\\u0000", "C:\\u0000x", "\\\\u0000", "\\ud800", 'say "\\u0000"', "a\\", "\\x00"]
)
def test_text_that_looks_like_an_escape_is_honest_text(honest: str) -> None:
    """A45: values are walked, never their serialised text."""
    document = {"text": honest, honest: [honest]}
    assert payload.load(payload.dump(document)) == document


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"a": {"b": {"c\0d": 1}}}, "$.a.b has the key 'c\\x00d'"),
        ({"a": ["x", "y\0"]}, "$.a[1] holds U+0000"),
        ({"a": [{"b": "\0"}]}, "$.a[0].b holds U+0000"),
        ({"a": "\ud800"}, "$.a holds a lone surrogate"),
        ({"\udfff": 1}, "$ has the key '\\udfff'"),
        ({"a": [[math.nan]]}, "$.a[0][0] is nan"),
        ({"a": -math.inf}, "$.a is -inf"),
        ({"a": 10**1000}, "$.a is an integer of more than 1000 digits"),
        ({"a": -(10**1000)}, "$.a is an integer of more than 1000 digits"),
        ({"a b": {"c.d": {'e"[0]': ["\0"]}}}, r"""$."a b"."c.d"."e\"[0]"[0] holds U+0000"""),
        ({"": {"é-1": "\0"}}, '$."".é-1 holds U+0000'),
        ({"a": {1: 2}}, "$.a has the key 1"),
        ({"a": {None: 2}}, "$.a has the key None"),
        ({"a": b"x"}, "$.a is of type bytes"),
        ({"a": {1, 2}}, "$.a is of type set"),
        ({"a": UUID(int=1)}, "$.a is of type UUID"),
        ({"a": Decimal(1)}, "$.a is of type Decimal"),
        ({"a": date(2027, 1, 1)}, "$.a is of type date"),
        ([], "$ must be a JSON object, not list"),
        (None, "$ must be a JSON object, not NoneType"),
        ("{}", "$ must be a JSON object, not str"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_path(document: object, path: str) -> None:
    """A46: at any depth, in keys and in values."""
    with pytest.raises(InvalidJobError) as caught:
        payload.dump(document)
    assert str(caught.value).startswith(path)
    str(caught.value).encode("utf-8")


def test_a_circle_is_refused_not_followed() -> None:
    circle: dict[str, object] = {}
    circle["again"] = [circle]
    with pytest.raises(InvalidJobError, match="nested more than 100 levels"):
        payload.dump(circle)


@pytest.mark.parametrize(
    "document", [MappingProxyType({"a": 1}), OrderedDict([("a", 1)])], ids=["proxy", "ordered"]
)
def test_any_mapping_is_a_payload(document: object) -> None:
    assert payload.dump(document) == '{"a":1}'


def test_tuples_are_arrays() -> None:
    assert payload.load(payload.dump({"a": (1, ("b",))})) == {"a": [1, ["b"]]}


def test_size_is_counted_in_bytes() -> None:
    document = {"a": "سلام"}
    size = len(payload.dump(document).encode())
    payload.dump(document, bytes_max=size)
    with pytest.raises(PayloadTooLargeError, match=f"{size} bytes; at most {size - 1}"):
        payload.dump(document, bytes_max=size - 1)


def test_nothing_above_the_ceiling_of_all_databases_is_dumped() -> None:
    with pytest.raises(PayloadTooLargeError, match="reference"):
        payload.dump({"a": "x" * payload.BYTES_CEILING})


@pytest.mark.parametrize(
    "stored",
    [
        "[]",
        "1",
        "{",
        '{"a": NaN}',
        '{"a": 1e999}',
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
    ],
    ids=["array", "number", "cut", "nan", "large", "deep", "long"],
)
def test_what_cannot_be_read_is_an_error_of_ours(stored: str) -> None:
    with pytest.raises(InvalidJobError):
        payload.load(stored)
