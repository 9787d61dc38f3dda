"""create_key, revoke_key, check_key: whose key a secret is, by its hash alone."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.verbs import Value, Verbs

HASH = hashlib.sha256(b"secret").digest()
SCOPES = ["enqueue", "publish", "read", "operate", "approve"]


def create(db: Verbs, **options: Value) -> UUID:
    given = {
        "name": "shop",
        "tenant_id": "acme",
        "scopes": ["read", "enqueue"],
        "secret_hash": HASH,
        "actor": "ann",
    }
    return db.answer("create_key", **(given | options))  # type: ignore[no-any-return]


def test_a_key_is_found_by_the_hash_of_its_secret(db: Verbs) -> None:
    key_id = create(db)
    assert db.answer("check_key", secret_hash=HASH) == (key_id, "acme", ["read", "enqueue"])


def test_another_secret_is_nobodys(db: Verbs) -> None:
    create(db)
    other = hashlib.sha256(b"other").digest()
    assert db.answer("check_key", secret_hash=other) == (None, None, None)


def test_a_revoked_key_is_nobodys_at_once(clocked: Verbs) -> None:
    key_id = create(clocked)
    clocked.call("revoke_key", key_id=key_id, actor="bob")
    assert clocked.answer("check_key", secret_hash=HASH) == (None, None, None)
    row = clocked.row("select revoked_at, revoked_by from hudhud.api_key")
    assert row == (clocked.value("select hudhud.clock()"), "bob")


@pytest.mark.parametrize("actor", [None, ""])
def test_nobody_revokes_anonymously(db: Verbs, actor: str | None) -> None:
    key_id = create(db)
    with db.refused("HH001", "actor"):
        db.call("revoke_key", key_id=key_id, actor=actor)


def test_a_key_is_revoked_once(db: Verbs) -> None:
    key_id = create(db)
    db.call("revoke_key", key_id=key_id, actor="bob")
    with db.refused("HH007", str(key_id)):
        db.call("revoke_key", key_id=key_id, actor="bob")


def test_an_unknown_key_is_not_found(db: Verbs) -> None:
    with db.refused("HH006"):
        db.call("revoke_key", key_id=uuid.uuid4(), actor="bob")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": None},
        {"tenant_id": ""},
        {"tenant_id": None},
        {"scopes": []},
        {"scopes": None},
        {"scopes": ["read", "everything"]},
        {"scopes": ["read", None]},
        {"secret_hash": b"short"},
        {"secret_hash": None},
        {"actor": ""},
        {"actor": None},
    ],
    ids=str,
)
def test_a_key_needs_a_name_a_tenant_scopes_a_hash_and_an_actor(
    db: Verbs, wrong: dict[str, Value]
) -> None:
    with db.refused("HH001"):
        create(db, **wrong)
    assert db.value("select count(*) from hudhud.api_key") == 0


def test_all_scopes_that_exist_are_taken(db: Verbs) -> None:
    create(db, scopes=SCOPES)
    assert db.answer("check_key", secret_hash=HASH).scopes == SCOPES


def test_two_keys_never_share_a_secret(db: Verbs) -> None:
    create(db)
    with db.refused("23505"):
        create(db, name="other")


def test_the_secret_is_stored_nowhere_and_both_acts_are_audited(db: Verbs) -> None:
    key_id = create(db)
    db.call("revoke_key", key_id=key_id, actor="bob")
    lines = db.rows(
        "select actor, action, tenant_id, subject, detail from hudhud.audit order by id"
    )
    assert lines == [
        ("ann", "key.create", "acme", str(key_id), {"scopes": ["read", "enqueue"]}),
        ("bob", "key.revoke", "acme", str(key_id), {}),
    ]
    assert db.value("select secret_hash from hudhud.api_key") == HASH
