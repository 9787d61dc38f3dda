"""The documents example: what is read, what is refused for good, and who may see what."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from pypdf import PdfReader, PdfWriter

from examples.documents import app as documents
from examples.documents import files
from examples.documents.analysis import Analysis, UnreadableError, analyse, analyse_apart
from examples.documents.demo import served
from examples.documents.pdf import make_pdf
from hudhud import LeaseLostError
from hudhud.testing import crash_points, drain

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
        (b"\xff\xfe\x00binary\x80\x81", "not_text"),
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
    assert refused.value.reason == code


def test_a_locked_pdf_is_refused_with_a_code(tmp_path: Path) -> None:
    path = tmp_path / "locked.pdf"
    for content in (locked("secret"), zlib.decompress(base64.b64decode(LOCKED_WITH_AES))):
        path.write_bytes(content)
        with pytest.raises(UnreadableError) as refused:
            analyse(path)
        assert refused.value.reason == "encrypted_pdf"


def test_a_pdf_that_is_locked_against_changes_alone_is_read(tmp_path: Path) -> None:
    path = tmp_path / "locked.pdf"
    path.write_bytes(locked(""))
    assert analyse(path) == analyse(SAMPLES / "letter.pdf")


def locked(password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(SAMPLES / "letter.pdf"))
    writer.encrypt(password, "the owner's", algorithm="RC4-128")
    content = io.BytesIO()
    writer.write(content)
    return content.getvalue()


# A page locked with AES-256, for which pypdf would need another library.
LOCKED_WITH_AES = (
    "eNqNU81uFDEMvs9T5NIjTGLnV1pVgnZXQoC6aqEX1EMSO2VR2ammUwS8JAfeAF4Ez7aUFeXAaCbyOPbn+Mvng/Xx6o"
    "l5it3Bj5/fvndGaTWUD91i0fXrcaDbyqNalBBtThTA1Gydp+DybANoCBysjVlb3YznlAsVw404VO8QStXGpXTYHR52"
    "vKUZGfYqvPlyzapf50u+6fqj4XY7KdP1Lzd0o94pK4Gn6mIvFR+lHuUpXw2X3R2GmrFP9xLsP2t1/SnfDLdjlQzZkf"
    "D+NdMmPx8+S1n9VO8+s3svZuiR5WB/Y7s97HPlBFT5rn/F28vpvQIn9lpZSDb5AAm6frW5moTL/mzKW8ojdf2JWjRs"
    "JcfGhDHoUjPokNgVIqgU2YOYiVwqBlqy1ceqAQ2lQAWjcbVysQ0dtpyr10bbFkNrvqbKUGW10tpbtcgxUQHfPJmQqe"
    "iUKWPzBa2PVEutziAWXTA4Qww2okkhg7W+AVueAzFFDCBrqhG4+GidCAHQBReKVDlazVRKc3RvPbud3i8/zcT1x0M9"
    "uebtHPRa9c+WZ+f4QBTCTOl8BWfTx5W6A5h/xj8/J0u1CLpJwUzJoK2RxMoiyBQApC/nMJRSYmAbGiT2BqUFEWQUTg"
    "EDxjwTITC26iCXIimajSVhLlYyoG0UrolbxSwkN8ylaQsUbSUfWmpIlLBqLTBrHj+KbnLAWgNpH5MOs/adZXCQ5Q6t"
    "lId9yX8euXVa5KEfHuXl0E419eAzIqjdzvbBZww+9gV45AMwj3y4nzuNeXPF406rZ5uvPCv1dBgmhTtR9y+2bVDm3j"
    "6WIVjU3OaJbj5501AzOc5sPFWdS00tHf5PiAzPclvHL9eTcr+n52bK47QjJPrYHRwsT1bdL8xAL4k="
)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_a_torn_pdf_holds_it_is_read_or_refused(tmp_path: Path, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - the same tears in every run
    whole = (SAMPLES / "letter.pdf").read_bytes()
    path = tmp_path / "torn.pdf"
    for _ in range(100):
        torn = bytearray(whole)
        start = random.randrange(20, len(torn))
        torn[start : start + random.randrange(60)] = random.randbytes(random.randrange(8))
        for _ in range(random.randrange(20)):
            torn[random.randrange(8, len(torn))] = random.randrange(256)
        path.write_bytes(torn)
        with suppress(UnreadableError):
            assert analyse(path).pages >= 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_is_read_in_the_encoding_that_it_declares(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text"
    path.write_text("می\u200cرود و می\u200cرسد", encoding)
    assert analyse(path) == Analysis(1, 3, 15, "fa")


def test_a_file_is_read_in_a_process_of_its_own_with_the_same_end(tmp_path: Path) -> None:
    letter = SAMPLES / "letter.pdf"
    assert analyse_apart(letter) == analyse(letter)
    path = tmp_path / "junk"
    path.write_bytes(b"\xfe junk")
    with pytest.raises(UnreadableError, match="not_text: invalid start byte at byte 0"):
        analyse_apart(path)


def test_a_file_that_takes_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("word " * 100_000, "utf-8")
    with pytest.raises(UnreadableError) as refused:
        analyse_apart(path, seconds_max=0.001)
    assert refused.value.reason == "too_complex"


def test_a_pdf_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pdf"
    path.write_bytes(_with_packed_page(b"0" * 200_000_000))
    assert path.stat().st_size < 500_000
    with pytest.raises(UnreadableError) as refused:
        analyse_apart(path)
    assert refused.value.reason == "too_complex"


def _with_packed_page(content: bytes) -> bytes:
    packed = zlib.compress(content, 9)
    length = f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode()
    plain = make_pdf([["here"]])
    start = plain.index(b"<< /Length")
    end = plain.index(b"\nendstream", start)
    return plain[:start] + length + packed + plain[end:]


def test_a_reader_that_dies_of_something_else_may_be_tried_again(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with 1: FileNotFoundError"):
        analyse_apart(tmp_path / "nothing")


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


def test_an_owner_who_changes_while_it_is_read_stops_the_analysis(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _accepted(url, b"something to read for somebody")

    def give_away(path: Path) -> Analysis:
        with psycopg.connect(url) as connection:
            documents.add_owner(connection, "oksana")
            connection.execute("update documents.document set owner = 'oksana'")
        return analyse(path)

    monkeypatch.setattr(documents, "analyse_apart", give_away)
    [run] = drain(documents.app, url)
    assert (run.outcome, run.code) == ("fail", "owner_changed")
    with psycopg.connect(url) as connection:
        state = connection.execute("select state, reason from documents.document").fetchone()
        analyses = connection.execute("select count(*) from documents.analysis").fetchone()
    assert state == ("refused", "owner_changed")
    assert analyses == (0,)


def test_a_run_that_comes_too_late_reopens_nothing(url: str) -> None:
    """A worker was frozen before its first line; another one finished; then the first goes on."""
    document_id = _accepted(url, b"something to read for somebody")
    payload = {"document_id": str(document_id), "owner": "parvin"}
    drain(documents.app, url).succeeded()
    with psycopg.connect(url) as connection:
        late = documents.analyse_document.function
        with pytest.raises(LeaseLostError):
            late(_Late(url), **payload)
        documents.add_owner(connection, "oksana")
        connection.execute("update documents.document set owner = 'oksana'")
        connection.commit()
        with pytest.raises(LeaseLostError):
            late(_Late(url), **payload)
        state = connection.execute("select state, reason from documents.document").fetchone()
    assert state == ("analysed", None)


class _Late:
    """As much of a context as a run needs that has come too late."""

    def __init__(self, url: str) -> None:
        self.state = self
        self._url = url

    def connection(self) -> psycopg.Connection:
        return psycopg.connect(self._url)

    def progress(self, *_: object) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("content", "ends"),
    [
        (b"something to read for somebody", ("analysed", None, 1, 1, "succeeded")),
        (b"%PDF-", ("refused", "broken_pdf", 0, 0, "dead")),
    ],
)
def test_a_crash_anywhere_leaves_one_analysis_and_one_notice_or_one_refusal(
    url: str, content: bytes, ends: tuple[object, ...]
) -> None:
    for point in crash_points(documents.app, url):
        document_id = _accepted(url, content)
        point.run()
        with psycopg.connect(url) as connection:
            document = connection.execute(
                "select d.state, d.reason,"
                " (select count(*) from documents.analysis a where a.document_id = d.id),"
                " (select count(*) from documents.notice n where n.document_id = d.id),"
                " (select status from hudhud.job_status job where job.id = d.job_id)"
                " from documents.document d where d.id = %s",
                (document_id,),
            ).fetchone()
        assert document == ends, point


def test_a_document_whose_job_is_dead_is_not_waited_for(url: str) -> None:
    with _web(url) as (client, owner, _):
        place = client.post("/documents", content=b"what was accepted", headers=owner).headers[
            "Location"
        ]
        next(files.directory().iterdir()).write_bytes(b"other")
        assert {run.outcome for run in drain(documents.app, url, scheduled=True)} == {
            "retry",
            "fail",
        }
        shown = client.get(place, headers=owner).json()
        assert (shown["state"], shown["reason"]) == ("refused", "value_error")


def test_who_owns_a_document_by_now_is_told_of_its_analysis_and_nobody_else(url: str) -> None:
    with _web(url) as (client, owner, other):
        answer = client.post("/documents", content=b"to be read by somebody", headers=owner)
        assert client.get("/notices", headers=owner).json() == []
        drain(documents.app, url).succeeded()
        [notice] = client.get("/notices", headers=owner).json()
        assert notice["document_id"] == answer.json()["id"]
        assert client.get("/notices", headers=other).json() == []
        with psycopg.connect(url) as connection:
            connection.execute("update documents.document set owner = 'oksana'")
        assert client.get("/notices", headers=owner).json() == []


def test_what_is_analysed_is_published_by_its_id_alone_and_what_is_refused_is_not(
    url: str,
) -> None:
    document_id = _accepted(url, b"something to read for somebody")
    _accepted(url, b"%PDF-1.7 broken")
    drain(documents.app, url)
    with psycopg.connect(url) as connection:
        events = connection.execute(
            "select type, aggregate_id, sequence, payload from hudhud.event"
        ).fetchall()
    named = str(document_id)
    assert events == [("document.analysed", named, 1, {"document_id": named})]


def test_an_empty_document_is_refused_at_the_door(url: str) -> None:
    with _web(url) as (client, owner, _):
        assert client.post("/documents", content=b"", headers=owner).status_code == 422
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from hudhud.job").fetchone() == (0,)


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


def test_the_demo_takes_any_files_whatever_is_in_them(url: str, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    contents = {
        "empty.txt": b"",
        "junk.bin": bytes(range(256)),
        "huge.txt": "سلام دنیا ".encode() * 200_000,
        "broken.pdf": b"%PDF-1.4 torn",
        "locked.pdf": locked("secret"),
        "letter.pdf": (SAMPLES / "letter.pdf").read_bytes(),
        "again/letter.pdf": (SAMPLES / "letter.pdf").read_bytes(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    report = _played(url, *(str(tmp_path / name) for name in contents))
    assert report["ok"]
    # Beside those that it brings itself: one analysed, and two refused.
    assert (report["documents"], report["analysed"], report["refused"]) == (10, 4, 6)
    assert (report["notices"], report["notices_doubled"]) == (4, 0)


def test_the_demo_kills_a_worker_and_every_result_is_served_once(url: str) -> None:
    report = _played(url)
    assert (report["kills"], report["doubled"], report["retries_of_broken"]) == (1, 0, 0)
    assert report["rescued"] >= 1
    assert report["foreign_reads"] == report["foreign_reads_refused"] > 0
    assert report["analysed"] + report["refused"] == report["documents"]


def _played(url: str, *paths: str) -> dict[str, int]:
    played = subprocess.run(
        [sys.executable, "-m", "examples.documents", "--json", *paths],
        cwd=ROOT,
        env={**os.environ, "HUDHUD_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    report: dict[str, int] = json.loads(played.stdout.splitlines()[-1])
    return report


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
