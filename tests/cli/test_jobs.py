"""`hudhud jobs`, `dead`, `replay`, `types`: what operators see and do, and the trace they leave."""

from __future__ import annotations

import getpass
import io
import itertools
import json
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from tests.cli.conftest import Said
    from tests.support.verbs import Verbs

    Hudhud = Callable[..., Said]

NUMBERS = itertools.count()


def ids(said: Said) -> list[str]:
    assert said.code == 0, said.err
    return [line["id"] for line in said.lines]


def dead(verbs: Verbs, payload: dict[str, object] | None = None, **options: object) -> UUID:
    queue = f"q{next(NUMBERS)}"  # of its own, so that this job is the one that is claimed
    job_id = verbs.enqueue("pay", payload, queue=queue, **options)
    particulars = {
        "code": "no_money",
        "class": "permanent",
        "error": "the account \x1b[2J is empty",
        "fingerprint": "f1",
    }
    assert verbs.end(verbs.claim_one(queue=queue), "fail", **particulars).settled == 1
    return job_id


def test_a_list_is_a_table_for_people_and_lines_for_programs(hudhud: Hudhud, verbs: Verbs) -> None:
    first = verbs.enqueue("mail", tenant_id="acme")
    second = verbs.enqueue("report", tags=["x"])

    table = hudhud("jobs", "list").out.splitlines()
    assert table[0].split()[:3] == ["id", "type", "status"]
    assert [line.split()[0] for line in table[1:]] == [str(second), str(first)]
    assert ids(hudhud("jobs", "list", "--json")) == [str(second), str(first)]


def test_a_list_can_be_narrowed(hudhud: Hudhud, verbs: Verbs) -> None:
    first = verbs.enqueue("mail", tenant_id="acme")
    second = verbs.enqueue("report", tags=["x"], queue="other")
    ended = dead(verbs)

    for narrow, expected in (
        (("--tenant", "acme"), [first]),
        (("--type", "report"), [second]),
        (("--queue", "other"), [second]),
        (("--tag", "x"), [second]),
        (("--status", "dead"), [ended]),
        (("--status", "pending"), [second, first]),
        (("--limit", "1"), [ended]),
        (("--after", str(second)), [first]),
    ):
        assert ids(hudhud("jobs", "list", "--json", *narrow)) == [str(one) for one in expected]


def test_a_list_goes_on_over_many_pages(
    hudhud: Hudhud, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudhud.cli.jobs.PAGE_JOBS", 3)
    monkeypatch.setattr("hudhud.cli.jobs.SCAN_MAX", 4)
    made = [verbs.enqueue() for _ in range(10)]
    rare = verbs.enqueue("rare")
    made += [rare, *(verbs.enqueue() for _ in range(10))]

    assert ids(hudhud("jobs", "list", "--json")) == [str(one) for one in reversed(made)]
    assert ids(hudhud("jobs", "list", "--json", "--type", "rare")) == [str(rare)]
    assert len(ids(hudhud("jobs", "list", "--json", "--limit", "7"))) == 7


def test_a47_large_integers_are_shown_exactly(hudhud: Hudhud, verbs: Verbs) -> None:
    job_id = verbs.enqueue(payload={"id": 9007199254740993, "n": 18446744073709551615})
    for options in ((), ("--json",)):
        shown = hudhud("jobs", "show", str(job_id), *options).out
        assert "9007199254740993" in shown
        assert "18446744073709551615" in shown


def test_text_of_a_job_cannot_steer_the_terminal(hudhud: Hudhud, verbs: Verbs) -> None:
    job_id = dead(verbs, {"text": "\x1b]0;title\x07 \u202e \u0085"})
    for words in (
        ("jobs", "show", str(job_id)),
        ("jobs", "show", str(job_id), "--json"),
        ("dead", "list"),
        ("dead", "show", str(job_id)),
    ):
        said = hudhud(*words)
        assert said.code == 0
        assert all(line.isprintable() for line in said.out.splitlines())
        assert "title" in said.out or "empty" in said.out


def test_a_job_of_another_tenant_is_not_shown(hudhud: Hudhud, verbs: Verbs) -> None:
    job_id = str(verbs.enqueue(tenant_id="acme"))
    assert hudhud("jobs", "show", job_id, "--tenant", "acme").code == 0
    assert hudhud("jobs", "show", job_id).code == 0
    absent = hudhud("jobs", "show", "0199c0de-0000-7000-8000-000000000000", "--tenant", "other")
    for act in ("show", "cancel", "run-now"):
        said = hudhud("jobs", act, job_id, "--tenant", "other")
        assert (said.code, said.out) == (1, "")
        assert said.err.replace(job_id, "") == absent.err or act != "show"


def test_an_act_is_done_by_an_actor_with_a_reason(hudhud: Hudhud, verbs: Verbs) -> None:
    job_id = str(verbs.enqueue(delay="1 hour"))
    words = ("--actor", "ada", "--reason", "typo", "--json")

    assert hudhud("jobs", "run-now", job_id, *words).code == 0
    assert hudhud("jobs", "show", job_id, "--json").document["waiting_for"] is None
    at = "2031-01-01T03:30:00+03:30"
    assert hudhud("jobs", "reschedule", job_id, "--at", at, *words).code == 0
    shown = hudhud("jobs", "show", job_id, "--json").document
    assert shown["available_at"] == "2031-01-01T00:00:00Z"
    assert hudhud("jobs", "cancel", job_id, *words).document["cancellation"] == "cancelled"
    assert hudhud("jobs", "cancel", job_id, *words).code == 1

    acts = hudhud("jobs", "show", job_id, "--json").document["acts"]
    assert [(act["action"], act["actor"], act["reason"]) for act in acts] == [
        ("job.reschedule", "ada", "typo"),
        ("job.reschedule", "ada", "typo"),
        ("job.cancel", "ada", "typo"),
    ]


def test_the_actor_is_the_user_of_the_system_unless_named(hudhud: Hudhud, verbs: Verbs) -> None:
    job_id = str(verbs.enqueue())
    assert hudhud("jobs", "cancel", job_id).code == 0
    (act,) = hudhud("jobs", "show", job_id, "--json").document["acts"]
    assert act["actor"] == getpass.getuser()


@pytest.mark.parametrize("at", ["2027-01-15T08:00:00", "2027-01-15", "tomorrow"])
def test_a33_an_instant_without_an_offset_is_wrong_use(
    hudhud: Hudhud, verbs: Verbs, at: str
) -> None:
    job_id = str(verbs.enqueue(delay="1 hour"))
    said = hudhud("jobs", "reschedule", job_id, "--at", at)
    assert said.code == 2
    assert "--at" in said.err


def test_the_dead_are_grouped_by_their_cause(hudhud: Hudhud, verbs: Verbs) -> None:
    newest = [dead(verbs), dead(verbs, tenant_id="acme")][-1]
    verbs.enqueue("mail")
    other = verbs.run("fail", code="bounced", fingerprint="f2")

    groups = hudhud("dead", "--json").lines
    assert [(one["type"], one["last_error_code"], one["count"]) for one in groups] == [
        ("pay", "no_money", 2),
        ("mail", "bounced", 1),
    ]
    assert [one["example_id"] for one in groups] == [str(newest), str(other)]
    assert hudhud("dead", "--json", "--tenant", "acme").lines[0]["count"] == 1
    assert hudhud("dead").out.splitlines()[1].split()[:3] == ["2", "2", "pay"]


def test_the_dead_are_listed_with_their_error(hudhud: Hudhud, verbs: Verbs) -> None:
    job_id = dead(verbs)
    verbs.enqueue("mail")
    verbs.run("fail", code="bounced", fingerprint="f2")

    (line,) = hudhud("dead", "list", "--json", "--fingerprint", "f1").lines
    assert (line["id"], line["last_error_code"]) == (str(job_id), "no_money")
    assert line["error"] == "the account \x1b[2J is empty"
    assert len(hudhud("dead", "list", "--json").lines) == 2
    assert hudhud("dead", "list", "--json", "--code", "nothing").lines == []


def test_only_a_dead_job_is_shown_as_dead(hudhud: Hudhud, verbs: Verbs) -> None:
    assert hudhud("dead", "show", str(dead(verbs))).code == 0
    assert hudhud("dead", "show", str(verbs.enqueue())).code == 1


def test_a_replay_makes_a_linked_job_with_a_reason(hudhud: Hudhud, verbs: Verbs) -> None:
    job_id = str(dead(verbs, {"n": 1}))
    assert hudhud("replay", job_id).code == 2
    said = hudhud("replay", job_id, "--reason", "the bank is back", "--json")
    new = said.document["id"]

    shown = hudhud("jobs", "show", new, "--json").document
    assert (shown["payload"], shown["replay_of"]) == ({"n": 1}, job_id)
    old = hudhud("jobs", "show", job_id, "--json").document
    assert (old["status"], old["run_again_as"]) == ("dead", new)
    (group,) = hudhud("dead", "--json").lines
    assert (group["count"], group["open_count"]) == (1, 0)
    assert hudhud("replay", job_id, "--reason", "again").code == 1


def test_a_resubmission_takes_the_corrected_payload_from_anywhere(
    *, hudhud: Hudhud, verbs: Verbs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrected = {"amount": 18446744073709551615}
    (tmp_path / "fixed.json").write_text(json.dumps(corrected), "utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(corrected)))
    for given in (json.dumps(corrected), "@fixed.json", "-"):
        job_id = str(dead(verbs, {"amount": "wrong"}))
        words = ("--payload", given, "--reason", "typo", "--json")
        new = hudhud("dead", "resubmit", job_id, *words).document["id"]
        shown = hudhud("jobs", "show", new, "--json").document
        assert (shown["payload"], shown["resubmit_of"]) == (corrected, job_id)
        old = hudhud("jobs", "show", job_id, "--json").document
        assert old["payload"] == {"amount": "wrong"}


@pytest.mark.parametrize("given", ["{", "[]", '{"a":NaN}', '{"a":"\\u0000"}', "@nothing.json"])
def test_a_wrong_payload_is_refused(hudhud: Hudhud, verbs: Verbs, given: str) -> None:
    job_id = str(dead(verbs))
    said = hudhud("dead", "resubmit", job_id, "--payload", given, "--reason", "typo")
    assert said.code in {1, 2}
    assert said.err
    assert len(verbs.rows("select id from hudhud.job_all")) == 1


def test_announced_types_are_listed_with_their_contracts(
    hudhud: Hudhud, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudhud.cli.jobs.PAGE_TYPES", 2)
    schema = {"required": {"amount": ["integer", "null"]}, "optional": {}, "open": False}
    contract = {"queue": "bank", "lane": "high", "max_attempts": 5, "max_crashes": 3}
    contracts = [
        {"type": name, "version": version, **contract, "schema": schema}
        for name in ("pay", "refund")
        for version in (1, 2)
    ]
    verbs.call("announce", types=contracts)

    lines = hudhud("types", "--json").lines
    found = [(line["type"], line["version"]) for line in lines]
    assert found == [("pay", 1), ("pay", 2), ("refund", 1), ("refund", 2)]
    assert lines[0]["fields"] == [{"name": "amount", "types": "integer|null", "needed": True}]
    assert hudhud("types").out.splitlines()[1].split()[:4] == ["pay", "1", "bank", "high"]
