"""hudhud.domain.schema: a handler's signature is its payload's contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence  # noqa: TC003 - annotations are resolved when run
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, cast
from uuid import UUID

import pytest

from hudhud.domain.schema import PayloadSchema, schema_of
from hudhud.errors import ConfigError, InvalidJobError

if TYPE_CHECKING:
    from hudhud.errors import HudhudError as CheckersOnly


class Place(TypedDict):
    city: str


class Colour(StrEnum):
    RED = "red"


# Handlers: only their signatures matter.
async def plain(ctx: CheckersOnly, name: str, amount: int, *, rate: float = 1.0) -> None: ...


async def many(  # noqa: PLR0913 - one per kind
    ctx: object,
    *,
    tags: list[str],
    place: Place,
    extra: Mapping[str, int] | None = None,
    kind: Literal["a", "b", 3] = "a",
    anything: object = None,
    note: Annotated[str | None, "doc"] = None,
    is_urgent: bool,
    rows: Sequence[int] = (),
) -> None: ...


async def open_ended(ctx: object, name: str, **rest: object) -> None: ...


bare = cast("Callable[..., object]", eval("lambda ctx, thing: None"))  # noqa: S307 - no annotations


def schema(handler: Callable[..., object]) -> PayloadSchema:
    return schema_of(handler, "demo:1")


def test_parameters_without_a_default_are_required() -> None:
    assert schema(plain).announced() == {
        "required": {"name": ["string"], "amount": ["integer"]},
        "optional": {"rate": ["number"]},
        "open": False,
    }


def test_annotations_become_json_types() -> None:
    announced = schema(many).announced()
    assert announced["required"] == {
        "tags": ["array"],
        "place": ["object"],
        "is_urgent": ["boolean"],
    }
    assert announced["optional"] == {
        "extra": ["object", "null"],
        "kind": ["string", "integer"],
        "anything": ["any"],
        "note": ["string", "null"],
        "rows": ["array"],
    }


def test_rest_opens_the_payload_and_no_annotation_takes_anything() -> None:
    assert schema(open_ended).announced()["open"]
    assert schema(bare).announced()["required"] == {"thing": ["any"]}


@pytest.mark.parametrize("kind", [UUID, datetime, bytes, Colour, set[str], UUID | None])
def test_an_annotation_that_json_cannot_carry_is_refused_when_defined(kind: object) -> None:
    async def handler(ctx: object, field: object) -> None: ...

    handler.__annotations__["field"] = kind
    with pytest.raises(ConfigError, match="field"):
        schema(handler)


def no_context() -> None: ...
def by_position(ctx: object, name: str, /) -> None: ...
def any_number(ctx: object, *names: str) -> None: ...


@pytest.mark.parametrize("handler", [no_context, by_position, any_number])
def test_a_signature_that_a_payload_cannot_fill_is_refused(handler: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match="demo:1"):
        schema(handler)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"name": "a", "amount": 1}, None),
        ({"name": "a", "amount": 1, "rate": 2}, None),
        ({"name": "a", "amount": 5.0, "rate": 2.5}, None),  # as the database: no fraction
        ({"name": "a", "amount": 2**70}, None),
        ({"name": Colour.RED, "amount": 1}, None),  # before it is dumped
        ({"name": "a"}, "$.amount is missing"),
        ({"name": "a", "amount": None}, "$.amount must be integer, not null"),
        ({"name": "a", "amount": 1.5}, "$.amount must be integer, not number"),
        ({"name": "a", "amount": True}, "$.amount must be integer, not boolean"),
        ({"name": "a", "amount": "1"}, "$.amount must be integer, not string"),
        ({"name": ["a"], "amount": 1}, "$.name must be string, not array"),
        ({"name": "a", "amount": 1, "rate": True}, "$.rate must be number, not boolean"),
        ({"name": "a", "amount": 1, "more": 1}, "$.more is not a field"),
    ],
)
def test_a_payload_is_checked_against_the_contract(
    document: dict[str, object], problem: str | None
) -> None:
    if problem is None:
        schema(plain).check(document)
        return
    with pytest.raises(InvalidJobError) as caught:
        schema(plain).check(document)
    assert str(caught.value).startswith(problem)


def test_missing_is_not_null() -> None:
    """A15: nothing stands for a key that is not there."""
    nullable = PayloadSchema({"a": ("string", "null")}, {}, is_open=False)
    nullable.check({"a": None})
    with pytest.raises(InvalidJobError, match=r"\$\.a is missing"):
        nullable.check({})
