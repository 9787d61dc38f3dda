"""`hudhud keys`, `migrate`, `doctor`: what whoever runs a database needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hudhud.domain import api_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Said
    from tests.support.verbs import Verbs

    Hudhud = Callable[..., Said]


def test_a_key_is_shown_once_and_known_by_its_hash(hudhud: Hudhud, verbs: Verbs) -> None:
    words = ("--tenant", "acme", "--scope", "enqueue", "--scope", "operate", "--json")
    made = hudhud("keys", "create", "shop", *words).document
    key = api_key.parse(made["key"])

    assert key is not None
    assert str(key.id) == made["id"]
    owner = verbs.answer("check_key", secret_hash=api_key.secret_hash(key.secret))
    assert (owner.tenant_id, owner.scopes) == ("acme", ["enqueue", "operate"])
    listed = hudhud("keys", "list", "--json")
    assert key.secret not in listed.out
    assert [(line["name"], line["revoked_at"]) for line in listed.lines] == [("shop", None)]


def test_a_revoked_key_is_no_key(hudhud: Hudhud, verbs: Verbs) -> None:
    made = hudhud("keys", "create", "shop", "--json").document
    assert hudhud("keys", "revoke", made["id"], "--actor", "ada").code == 0

    key = api_key.parse(made["key"])
    assert key is not None
    found = verbs.answer("check_key", secret_hash=api_key.secret_hash(key.secret))
    assert found.key_id is None
    (line,) = hudhud("keys", "list", "--json").lines
    assert line["revoked_by"] == "ada"
    assert hudhud("keys", "revoke", made["id"]).code == 1


@pytest.mark.usefixtures("verbs")
def test_a_key_with_an_unknown_scope_is_refused(hudhud: Hudhud) -> None:
    assert hudhud("keys", "create", "shop", "--scope", "everything").code == 1
    assert hudhud("keys", "list", "--json").lines == []


@pytest.mark.usefixtures("verbs")
def test_keys_are_listed_by_tenant_over_many_pages(
    hudhud: Hudhud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudhud.cli.keys.PAGE_KEYS", 2)
    for number in range(5):
        hudhud("keys", "create", f"k{number}", "--tenant", f"t{number % 2}")
    names = [line["name"] for line in hudhud("keys", "list", "--json").lines]
    assert names == ["k0", "k1", "k2", "k3", "k4"]
    assert len(hudhud("keys", "list", "--json", "--tenant", "t1").lines) == 2


def test_migrate_checks_applies_and_then_has_nothing_to_do(hudhud: Hudhud, verbs: Verbs) -> None:
    assert hudhud("migrate", "--check").code == 0
    verbs.connection.execute("drop schema hudhud cascade")

    check = hudhud("migrate", "--check")
    assert check.code == 4
    assert "0001_schema.sql" in check.err
    pending = hudhud("migrate", "--check", "--json").document["pending"]
    assert hudhud("migrate", "--json").document["applied"] == pending
    assert hudhud("migrate", "--json").document["applied"] == []
    assert hudhud("migrate", "--check").code == 0


def test_migrate_refuses_a_newer_schema(hudhud: Hudhud, verbs: Verbs) -> None:
    verbs.connection.execute("insert into hudhud.schema_version (number, name) values (9999, 'x')")
    for words in (("migrate",), ("migrate", "--check"), ("doctor",)):
        said = hudhud(*words)
        assert said.code == 4
        assert "9999" in said.out + said.err


def test_functions_of_another_release_are_named_with_what_to_do(
    hudhud: Hudhud, verbs: Verbs
) -> None:
    verbs.connection.execute("update hudhud.function_version set checksum = 'other'")
    for words in (("migrate", "--check"), ("doctor",)):
        said = hudhud(*words)
        assert said.code == 4
        assert "of the functions differ from this release's" in said.out + said.err
    assert hudhud("migrate").code == 0
    assert hudhud("migrate", "--check").code == 0


def test_migrate_prints_the_schema_without_a_database(hudhud: Hudhud) -> None:
    printed = hudhud("migrate", "--print")
    assert printed.code == 0
    assert printed.out.startswith("begin;")
    assert "create or replace function hudhud.enqueue(" in printed.out


def test_doctor_finds_nothing_wrong_on_a_fresh_database(hudhud: Hudhud, verbs: Verbs) -> None:
    verbs.connection.execute("select 1")
    found = hudhud("doctor", "--json").document["findings"]
    wrong = {one["subject"] for one in found if one["verdict"] == "WRONG"}
    assert wrong <= {"durability"}  # the tests' server is not durable
    subjects = {one["subject"] for one in found}
    assert {"schema", "partitions", "clock", "workers", "listener", "not visible"} <= subjects


def verdict(hudhud: Hudhud, subject: str) -> str:
    said = hudhud("doctor", "--json")
    (found,) = (one for one in said.document["findings"] if one["subject"] == subject)
    assert said.code == (
        1 if any(one["verdict"] == "WRONG" for one in said.document["findings"]) else 0
    )
    return str(found["verdict"])


def test_doctor_sees_a_worker(hudhud: Hudhud, verbs: Verbs) -> None:
    assert verdict(hudhud, "workers") == "note"
    verbs.call(
        "register_worker",
        worker_id="0199c0de-0000-7000-8000-000000000000",
        name="w",
        host="h",
        pid=1,
        queues=["default"],
        contracts=[],
        release="0",
    )
    assert verdict(hudhud, "workers") == "fine"


def test_doctor_alarms_when_fewer_than_seven_days_are_ahead(hudhud: Hudhud, verbs: Verbs) -> None:
    assert verdict(hudhud, "partitions") == "fine"
    for (name,) in verbs.rows(
        "select inhrelid::regclass::text from pg_inherits"
        " where inhparent = 'hudhud.job'::regclass order by 1 desc limit 9"
    ):
        verbs.connection.execute(f"drop table {name}".encode())
    assert verdict(hudhud, "partitions") == "WRONG"


def test_doctor_alarms_when_nobody_rescues(hudhud: Hudhud, verbs: Verbs) -> None:
    def told() -> str:
        found = hudhud("doctor", "--json").document["findings"]
        return next(str(one["detail"]) for one in found if one["subject"] == "leases")

    for _ in range(3):
        verbs.enqueue()
        verbs.claim_one()
    assert verdict(hudhud, "leases") == "fine"
    overdue = "update hudhud.lease set locked_until = hudhud.clock() - make_interval(secs => %s)"
    verbs.connection.execute(overdue, [10])
    assert verdict(hudhud, "leases") == "fine"  # any worker takes them back within seconds

    one = "where id = (select min(id::text)::uuid from hudhud.lease)"
    verbs.connection.execute(overdue, [3600])
    verbs.connection.execute(f"{overdue} {one}".encode(), [10])
    assert verdict(hudhud, "leases") == "WRONG"
    assert told().startswith("2 ended more than 30 s ago, the oldest 3600 s")
    assert "Start a worker" in told()

    verbs.call("rescue")
    assert verdict(hudhud, "leases") == "fine"


def test_doctor_counts_overdue_leases_up_to_a_bound(
    hudhud: Hudhud, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudhud.cli.doctor.LEASES_MAX", 2)
    for _ in range(3):
        verbs.enqueue()
        verbs.claim_one()
    verbs.connection.execute("update hudhud.lease set locked_until = '2020-01-01'")
    assert "2 or more ended more than 30 s ago" in hudhud("doctor").out


def test_doctor_alarms_when_a_test_has_set_the_clock(hudhud: Hudhud, verbs: Verbs) -> None:
    verbs.take_clock()
    verbs.advance(3600)
    assert verdict(hudhud, "clock") == "WRONG"


def test_doctor_shows_settings_with_their_origin_and_no_password(
    hudhud: Hudhud, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs.connection.execute("select 1")
    monkeypatch.setenv("HUDHUD_DIRECT_URL", "host=127.0.0.1 port=1 password=secret")
    said = hudhud("doctor")
    assert said.code == 3
    monkeypatch.delenv("HUDHUD_DIRECT_URL")
    monkeypatch.setenv("HUDHUD_HTTP_PORT", "8123")
    lines = hudhud("doctor").out.splitlines()
    assert ["http.port", "8123", "HUDHUD_HTTP_PORT"] in [line.split() for line in lines]
