"""The documents example: what is read, what is refused for good, and who may see what."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from pypdf import PdfReader, PdfWriter

from examples.documents import app as documents
from examples.documents import files
from examples.documents.analysis import Analysis, UnreadableError, analyse
from examples.documents.demo import served
from examples.documents.pdf import make_pdf
from hudhud.testing import drain

if TYPE_CHECKING:
    from collections.abc import Generator
    from uuid import UUID

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "examples" / "documents" / "samples"


@pytest.fixture
def url(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return a database with the example's tables, and a store of its own."""
    monkeypatch.setenv("HUDHUD_DATABASE_URL", database)
    monkeypatch.setenv("DOCUMENTS_DIRECTORY", str(tmp_path / "store"))
    with psycopg.connect(database) as connection:
        documents.set_up(connection)
    return database


def test_the_samples_are_read_as_what_they_are() -> None:
    assert analyse(SAMPLES / "letter.pdf") == Analysis(2, 52, 281, "en")
    found = analyse(SAMPLES / "hoopoe.txt")
    assert (found.pages, found.language) == (1, "fa")


def test_a_long_text_is_counted_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("слово " * 500_000, "utf-8")
    assert analyse(path).words == 500_000


def test_a_few_words_are_counted_and_no_language_is_guessed(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("مرحبا hello", "utf-8")
    assert analyse(path) == Analysis(1, 2, 11, None)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty"),
        (b" \n\t ", "empty"),
        (b"\xff\xfe\x00binary\x80", "not_text"),
        (b"text with \x00 in it", "not_text"),
        (make_pdf([["torn"]])[:120], "broken_pdf"),
        (b"%PDF-1.7 and nothing more", "broken_pdf"),
        (make_pdf([[]]), "empty"),
    ],
)
def test_what_can_never_be_read_is_refused_with_a_code(
    tmp_path: Path, content: bytes, code: str
) -> None:
    path = tmp_path / "document"
    path.write_bytes(content)
    with pytest.raises(UnreadableError) as refused:
        analyse(path)
    assert refused.value.code == code


def test_a_locked_pdf_is_refused_with_a_code(tmp_path: Path) -> None:
    writer = PdfWriter(clone_from=PdfReader(SAMPLES / "letter.pdf"))
    writer.encrypt("secret", algorithm="RC4-128")
    path = tmp_path / "locked.pdf"
    writer.write(path)
    with pytest.raises(UnreadableError) as refused:
        analyse(path)
    assert refused.value.code == "encrypted_pdf"


def test_a_document_and_its_job_are_accepted_together_and_the_job_holds_ids_alone(url: str) -> None:
    with psycopg.connect(url) as connection:
        documents.add_owner(connection, "parvin")
        documents.accept(connection, "parvin", b"a secret text", file_name="secret.txt")
        connection.rollback()
    with psycopg.connect(url) as connection:
        documents.add_owner(connection, "parvin")
        document_id = documents.accept(
            connection, "parvin", b"a secret text", file_name="secret.txt"
        )
        payloads = connection.execute("select payload from hudhud.job").fetchall()
    assert payloads == [({"document_id": str(document_id), "owner": "parvin"},)]


def test_a_broken_pdf_is_refused_for_good_at_its_first_attempt(url: str) -> None:
    document_id = _accepted(url, b"%PDF-1.7 broken")
    drain(documents.app, url)
    with psycopg.connect(url) as connection:
        document = connection.execute(
            "select state, reason from documents.document where id = %s", (document_id,)
        ).fetchone()
        job = connection.execute(
            "select status, attempts, last_error_code from hudhud.job_status"
        ).fetchone()
    assert document == ("refused", "broken_pdf")
    assert job == ("dead", 1, "broken_pdf")


def test_a_changed_owner_stops_the_analysis(url: str) -> None:
    document_id = _accepted(url, b"something to read for somebody")
    with psycopg.connect(url) as connection:
        documents.add_owner(connection, "oksana")
        connection.execute("update documents.document set owner = 'oksana'")
    drain(documents.app, url)
    with psycopg.connect(url) as connection:
        state = connection.execute(
            "select state, reason from documents.document where id = %s", (document_id,)
        ).fetchone()
        analyses = connection.execute("select count(*) from documents.analysis").fetchone()
    assert state == ("refused", "owner_changed")
    assert analyses == (0,)


def test_another_owner_gets_404_while_it_is_processed_and_at_the_result(url: str) -> None:
    with _web(url) as (client, owner, other):
        answer = client.post("/documents", content=b"to be read by its owner alone", headers=owner)
        assert answer.status_code == 202
        place = answer.headers["Location"]
        assert client.get(place, headers=owner).json()["state"] == "accepted"
        assert client.get(f"{place}/result", headers=owner).status_code == 409
        assert client.get(place, headers=other).status_code == 404
        drain(documents.app, url)
        assert client.get(f"{place}/result", headers=owner).json()["words"] == 7
        for path in (place, f"{place}/result"):
            foreign = client.get(path, headers=other)
            unknown = client.get(path.replace(place[-12:], "0" * 12), headers=other)
            assert (foreign.status_code, foreign.content) == (404, unknown.content)


def test_nobody_is_let_in_without_a_token(url: str) -> None:
    with _web(url) as (client, _, _):
        assert client.post("/documents", content=b"x").status_code == 401
        wrong = {"Authorization": "Bearer wrong"}
        assert client.post("/documents", content=b"x", headers=wrong).status_code == 401


def test_a_file_that_was_changed_in_the_store_is_not_analysed(url: str) -> None:
    _accepted(url, b"what was accepted")
    (files.directory() / hashlib.sha256(b"what was accepted").hexdigest()).write_bytes(b"other")
    ran = drain(documents.app, url)
    assert ran
    with psycopg.connect(url) as connection:
        analyses = connection.execute("select count(*) from documents.analysis").fetchone()
    assert analyses == (0,)


def test_the_demo_kills_a_worker_and_every_result_is_served_once(url: str) -> None:
    played = subprocess.run(
        [sys.executable, "-m", "examples.documents", "--json"],
        cwd=ROOT,
        env={**os.environ, "HUDHUD_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    report = json.loads(played.stdout.splitlines()[-1])
    assert (report["kills"], report["doubled"], report["retries_of_broken"]) == (1, 0, 0)
    assert report["rescued"] >= 1
    assert report["foreign_reads"] == report["foreign_reads_refused"] > 0
    assert report["analysed"] + report["refused"] == report["documents"]


def _accepted(url: str, content: bytes) -> UUID:
    with psycopg.connect(url) as connection:
        documents.add_owner(connection, "parvin")
        return documents.accept(connection, "parvin", content, file_name="document")


@contextmanager
def _web(url: str) -> Generator[tuple[httpx.Client, dict[str, str], dict[str, str]]]:
    with psycopg.connect(url) as connection:
        tokens = [documents.add_owner(connection, name) for name in ("parvin", "oksana")]
    headers = [{"Authorization": f"Bearer {token}"} for token in tokens]
    with served() as face, httpx.Client(base_url=face, trust_env=False) as client:
        yield client, headers[0], headers[1]
