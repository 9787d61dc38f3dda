"""`hudhud effects`: what an operator sees of effects, and decides."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Said
    from tests.support.verbs import Row, Verbs

    Hudhud = Callable[..., Said]


def intend(verbs: Verbs, key: str, **changes: Any) -> Row:  # noqa: ANN401 - arguments
    """Let a job of its own intend an effect; it is done, or the job waits for an operator."""
    job = verbs.enqueue(tenant_id=changes.get("tenant_id", "default"))
    claim = verbs.claim_one()
    asked = {
        "lease_id": claim.lease_id,
        "place": 1,
        "tenant_id": "default",
        "key": key,
        "name": "pay",
        "provider": "bank",
        "reconcile": "none",
        "fingerprint": "f",
        "root_id": job,
        "send_seconds": 0.0,
        "settle_seconds": 0.0,
        "token": uuid.uuid4(),
    }
    found = verbs.answer("intend", **(asked | changes))
    if key == "done":
        words = {"effect_id": found.effect_id, "sends": 1, "state": "done"}
        verbs.answer("close_effect", result={"number": 1}, reference="P-1", **words)
        verbs.finish(claim)
    else:
        end = {"code": "effect_unknown", "effect": str(found.effect_id)}
        verbs.end(claim, "snooze", **end)
    return found


@pytest.fixture
def done(verbs: Verbs) -> Row:
    return intend(verbs, "done")


def test_effects_are_listed_newest_first_and_shown_in_full(
    hudhud: Hudhud, verbs: Verbs, done: Row
) -> None:
    open_one = intend(verbs, "open", provider="post")
    rows = hudhud("effects", "--json").lines
    assert [row["id"] for row in rows] == [str(open_one.effect_id), str(done.effect_id)]
    assert [row["asks_operator"] for row in rows] == [True, False]
    assert [row["job_status"] for row in rows] == ["pending", "succeeded"]
    shown = hudhud("effects", "show", str(done.effect_id), "--json").document
    assert (shown["state"], shown["result"], shown["reference"]) == ("done", {"number": 1}, "P-1")
    assert "asks_operator" in hudhud("effects").out


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["--unknown"], ["open"]),
        (["--state", "done"], ["done"]),
        (["--provider", "post"], ["open"]),
        (["--tenant", "other"], []),
        (["--limit", "1"], ["open"]),
    ],
    ids=str,
)
@pytest.mark.usefixtures("done")
def test_a_listing_is_narrowed(
    hudhud: Hudhud, verbs: Verbs, words: list[str], *, keys: list[str]
) -> None:
    intend(verbs, "open", provider="post")
    assert [row["key"] for row in hudhud("effects", *words, "--json").lines] == keys


def test_a_listing_goes_on_after_an_id_and_follows_a_job(
    hudhud: Hudhud, verbs: Verbs, done: Row
) -> None:
    open_one = intend(verbs, "open")
    after = hudhud("effects", "--after", str(open_one.effect_id), "--json").lines
    assert [row["key"] for row in after] == ["done"]
    job = after[0]["job_id"]
    assert [row["id"] for row in hudhud("effects", "--job", job, "--json").lines] == [
        str(done.effect_id)
    ]


def test_a_decision_frees_the_job_and_is_audited(hudhud: Hudhud, verbs: Verbs) -> None:
    found = intend(verbs, "open")
    words = ("--as", "done", "--reason", "rang the bank", "--actor", "ann")
    said = hudhud(
        "effects", "decide", str(found.effect_id), *words, "--result", '{"n": 7}', "--json"
    )
    assert said.document == {"effect": str(found.effect_id), "decision": "done", "jobs_freed": 1}
    assert hudhud("effects", "--unknown", "--json").lines == []
    row = verbs.row("select actor, reason from hudhud.audit where action = 'effect.decide'")
    assert (row.actor, row.reason) == ("ann", "rang the bank")
    again = hudhud("effects", "decide", str(found.effect_id), *words)
    assert again.code == 1
    assert "nothing to decide" in again.err


def test_what_cannot_be_meant_is_refused_in_a_line(hudhud: Hudhud, verbs: Verbs) -> None:
    found = str(intend(verbs, "open").effect_id)
    assert hudhud("effects", "decide", found, "--as", "maybe", "--reason", "x").code == 2
    assert hudhud("effects", "decide", found, "--as", "done").code == 2
    words = ("--as", "done", "--reason", "x", "--result", "{")
    assert "no JSON" in hudhud("effects", "decide", found, *words).err
    assert hudhud("effects", "--unknown", "--state", "done").code == 2
    nobody = str(uuid.uuid4())
    assert hudhud("effects", "show", nobody).code == 1
    assert hudhud("effects", "decide", nobody, "--as", "done", "--reason", "x").code == 1


def test_the_doctor_points_at_effects_that_wait_for_an_operator(
    hudhud: Hudhud, verbs: Verbs
) -> None:
    intend(verbs, "open")
    said = hudhud("doctor")
    assert said.code == 1
    assert "hudhud effects --unknown" in said.out
