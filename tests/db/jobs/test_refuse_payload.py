"""What a payload may be: an object, within its type's contract and limits, kept to the digit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

import pytest
from psycopg.types.json import Jsonb

from hudhud.domain import payload as payloads
from tests.support.verbs import Verbs

Enqueue: TypeAlias = Callable[[Verbs, object], None]

SCHEMA = {
    "required": {
        "id": "integer",
        "note": ["string", "null"],
    },
    "optional": {
        "price": "number",
        "is_paid": "boolean",
        "lines": "array",
        "address": "object",
        "gone": "null",
        "free": "any",
    },
    "open": False,
}
GOOD = {"id": 1, "note": "x"}
BYTES_MAX = 65_536


def announce(db: Verbs, schema: object) -> None:
    db.call("announce", types=[{"type": "mail", "version": 1, "schema": schema}])


def enqueue_one(db: Verbs, payload: object) -> None:
    db.call("enqueue", type="mail", payload=Jsonb(payload))


def enqueue_second_of_many(db: Verbs, payload: object) -> None:
    db.call("enqueue_many", types=["mail"], payloads=[Jsonb(GOOD), Jsonb(payload)])


INTAKES = pytest.mark.parametrize("enqueue", [enqueue_one, enqueue_second_of_many])


@INTAKES
@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"note": None},
        {"id": 9_007_199_254_740_993},
        {"id": 1e3},
        {"id": -0.0},
        {"price": 1},
        {"price": 1.5},
        {"is_paid": False},
        {"lines": [], "address": {}},
        {"gone": None},
        {"free": None},
        {"free": [1]},
    ],
    ids=str,
)
def test_a_payload_within_the_contract_is_taken(
    db: Verbs, enqueue: Enqueue, extra: dict[str, object]
) -> None:
    announce(db, SCHEMA)
    enqueue(db, GOOD | extra)


@INTAKES
@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"note": "x"}, ("$.id", "missing")),
        ({"id": None, "note": "x"}, ("$.id", "integer", "null")),
        ({"id": 1.5, "note": "x"}, ("$.id", "integer", "number")),
        ({"id": "1", "note": "x"}, ("$.id", "integer", "string")),
        ({"id": 1, "note": 1}, ("$.note", "string or null", "number")),
        (GOOD | {"price": None}, ("$.price", "number", "null")),
        (GOOD | {"is_paid": 0}, ("$.is_paid", "boolean")),
        (GOOD | {"lines": {}}, ("$.lines", "array")),
        (GOOD | {"address": []}, ("$.address", "object")),
        (GOOD | {"gone": 0}, ("$.gone", "null")),
        (GOOD | {"other": 1}, ("$.other", "not a field")),
        ([], ("object",)),
        ("text", ("object",)),
        (None, ("object",)),
    ],
    ids=str,
)
def test_a_payload_beyond_the_contract_is_refused_by_its_path(
    db: Verbs, enqueue: Enqueue, *, payload: object, words: tuple[str, ...]
) -> None:
    announce(db, SCHEMA)
    place = ("position 2",) if enqueue is enqueue_second_of_many else ()
    with db.refused("HH001", "mail version 1", *words, *place):
        enqueue(db, payload)


@INTAKES
def test_a_missing_payload_is_refused(db: Verbs, enqueue: Enqueue) -> None:
    with db.refused("HH001", "object"):
        if enqueue is enqueue_one:
            db.call("enqueue", type="mail", payload=None)
        else:
            db.call("enqueue_many", types=["mail"], payloads=[Jsonb({}), None])


@INTAKES
def test_an_open_contract_takes_more_fields(db: Verbs, enqueue: Enqueue) -> None:
    announce(db, {"required": {"id": "integer"}, "open": True})
    enqueue(db, GOOD)
    with db.refused("HH001", "$.id"):
        enqueue(db, {"note": "x"})


def test_a_contract_holds_for_its_version_alone(db: Verbs) -> None:
    announce(db, SCHEMA)
    db.enqueue("mail", {"anything": 1}, version=2)


def test_a_new_announcement_replaces_the_contract(db: Verbs) -> None:
    announce(db, SCHEMA)
    announce(db, {"required": {"name": "string"}, "open": False})
    enqueue_one(db, {"name": "x"})
    with db.refused("HH001", "$.name"):
        enqueue_one(db, GOOD)


def of_bytes(amount: int) -> dict[str, str]:
    """Return a payload whose JSON text, as jsonb writes it, has so many bytes."""
    return {"a": "ب" * ((amount - 9) // 2) + "x" * ((amount - 9) % 2)}


@INTAKES
def test_the_largest_payload_is_taken_and_one_byte_more_is_not(db: Verbs, enqueue: Enqueue) -> None:
    enqueue(db, of_bytes(BYTES_MAX))
    with db.refused("HH002", f"{BYTES_MAX + 1} bytes", f"{BYTES_MAX}", "reference"):
        enqueue(db, of_bytes(BYTES_MAX + 1))


@INTAKES
@pytest.mark.parametrize("bytes_max", [1_024, 1_048_576])
def test_the_limit_is_a_setting(db: Verbs, enqueue: Enqueue, bytes_max: int) -> None:
    """A37: also a payload far beyond what a NOTIFY could carry is enqueued."""
    db.connection.execute("update hudhud.setting set payload_bytes_max = %s", [bytes_max])
    enqueue(db, of_bytes(bytes_max))
    with db.refused("HH002", str(bytes_max)):
        enqueue(db, of_bytes(bytes_max + 1))


@INTAKES
@pytest.mark.parametrize(
    "number",
    ["1" * 1_001, "-" + "1" * 1_001, "1e1001", "0." + "1" * 1_001],
    ids=["digits", "negative", "exponent", "fraction"],
)
def test_a_number_of_more_than_1000_digits_is_refused_wherever_it_stands(
    db: Verbs, enqueue: Enqueue, number: str
) -> None:
    raw = f'{{"a": [{{"b": {number}}}]}}'
    with db.refused("HH001", "1,000 digits"):
        enqueue_raw(db, enqueue, raw)


@INTAKES
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("[" * 100 + "]" * 100, "100 levels"),
        ('{"b":' * 100 + "1" + "}" * 100, "100 levels"),
        ("2" * 309 + ".5", "1.7e308"),
        ("-" + "2" * 309 + ".5", "1.7e308"),
    ],
    ids=["arrays", "objects", "fraction", "negative"],
)
def test_a_small_document_that_no_worker_could_read_is_refused(
    db: Verbs, enqueue: Enqueue, *, value: str, problem: str
) -> None:
    """As the client refuses it; a worker would call the job malformed, long after its enqueue."""
    with db.refused("HH001", problem):
        enqueue_raw(db, enqueue, f'{{"a": {value}}}')


@INTAKES
def test_what_is_just_readable_is_taken(db: Verbs, enqueue: Enqueue) -> None:
    raw = (
        f'{{"a": {"[" * 99 + "1" + "]" * 99}, "n": {"2" * 308}.5, "i": {"2" * 400},'
        ' "c": "[[[[", "tiny": 1e-400}'
    )
    enqueue_raw(db, enqueue, raw)
    kept = db.value("select payload::text from hudhud.job where payload ? 'tiny'")
    assert payloads.load(kept)["i"] == int("2" * 400)


@INTAKES
def test_a_number_of_1000_digits_is_kept_and_so_is_a_text_of_more(
    db: Verbs, enqueue: Enqueue
) -> None:
    raw = f'{{"a": {"7" * 1_000}, "b": -{"7" * 1_000}, "c": "{"7" * 5_000}"}}'
    enqueue_raw(db, enqueue, raw)
    assert db.value("select payload::text from hudhud.job where payload ? 'c'") == raw


def enqueue_raw(db: Verbs, enqueue: Enqueue, raw: str) -> None:
    if enqueue is enqueue_one:
        db.call("enqueue", type="mail", payload=raw)
    else:
        db.call("enqueue_many", types=["mail"], payloads=["{}", raw])


@INTAKES
def test_large_integers_are_kept_to_the_digit(db: Verbs, enqueue: Enqueue) -> None:
    """A47."""
    raw = '{"n": 18446744073709551615, "id": 9007199254740993, "deep": [1e-7, 1.10]}'
    enqueue_raw(db, enqueue, raw)
    kept = db.value("select payload::text from hudhud.job where payload ? 'n'")
    assert json.loads(kept) == json.loads(raw)
    assert "18446744073709551615" in kept
    assert "9007199254740993" in kept


@INTAKES
def test_text_that_looks_like_an_escape_is_kept_byte_for_byte(db: Verbs, enqueue: Enqueue) -> None:
    """A45."""
    honest = {"a": "\\u0000", "path": "C:\\u0000x"}
    enqueue(db, honest)
    assert db.value("select payload from hudhud.job where payload ? 'path'") == honest


@INTAKES
@pytest.mark.parametrize(
    "raw",
    [
        r'{"a": {"b": {"\u0000": 1}}}',
        r'{"a": ["x", "\u0000"]}',
        r'{"a": "\ud800"}',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1',
    ],
)
def test_what_jsonb_cannot_hold_never_becomes_a_job(db: Verbs, enqueue: Enqueue, raw: str) -> None:
    """A46."""
    with db.refused("22P05" if "0000" in raw else "22P02"):
        enqueue_raw(db, enqueue, raw)
    assert db.value("select count(*) from hudhud.job") == 0


@INTAKES
@pytest.mark.parametrize(
    "name",
    ["a b", "\x7f", "c.d", 'e"f', "g[0]", "h\\i", "j\nk", "", "\u00a0", "é-1", "سلام", "l$'"],
)
def test_a_name_that_would_be_misread_in_a_path_is_quoted(
    db: Verbs, enqueue: Enqueue, name: str
) -> None:
    """As the clients quote it, so that a program can take the path out of the sentence."""
    announce(db, SCHEMA)
    with db.refused("HH001", f"$.{payloads.step(name)} is not a field"):
        enqueue(db, GOOD | {name: 1})
    announce(db, {"required": {name: "integer"}, "optional": {}, "open": True})
    with db.refused("HH001", f"$.{payloads.step(name)} is missing"):
        enqueue(db, GOOD)
    announce(db, {"required": {}, "optional": {name: "integer"}, "open": True})
    with db.refused("HH001", f"$.{payloads.step(name)} must be integer, not string"):
        enqueue(db, {name: "x"})
