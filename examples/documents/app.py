"""The application: what is accepted, and the handler that analyses it in the background.

`hudhud worker examples.documents.app:app`
"""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from psycopg_pool import ConnectionPool

from examples.documents import files
from examples.documents.analysis import UnreadableError, analyse_apart
from hudhud import Context, Event, Hudhud, LeaseLostError, Permanent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from psycopg import Connection
    from psycopg.rows import TupleRow

QUEUE = "documents"
SCHEMA = (Path(__file__).parent / "schema.sql").read_text("utf-8")

app = Hudhud()


@app.event("document.analysed")
class DocumentAnalysed:
    """Its result can be fetched. Whose it is, the document's own row says: owners change."""

    document_id: str


@app.lifespan
async def connections() -> AsyncGenerator[ConnectionPool[Connection[TupleRow]]]:
    """Share a few connections for what handlers do beside their transaction."""
    pool: ConnectionPool[Connection[TupleRow]] = ConnectionPool(
        app.database_url, min_size=0, max_size=4, open=False
    )
    with pool:
        yield pool


def set_up(connection: Connection[TupleRow]) -> None:
    """Make the application's tables."""
    connection.execute(SCHEMA.encode())


def add_owner(connection: Connection[TupleRow], name: str) -> str:
    """Make an owner known, and return the token that proves to be them; a new one each time."""
    token = secrets.token_urlsafe(32)
    connection.execute(
        "insert into documents.owner (name, token_hash) values (%s, %s)"
        " on conflict (name) do update set token_hash = excluded.token_hash",
        (name, token_hash(token)),
    )
    return token


def token_hash(token: str) -> bytes:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode()).digest()


def accept(connection: Connection[TupleRow], owner: str, content: bytes, *, file_name: str) -> UUID:
    """Keep a document and ask for its analysis, in the transaction of the connection.

    The job carries ids alone: neither bytes nor names.
    """
    stored = files.put(content)
    document_id = uuid4()
    job = analyse_document.using(idempotency_key=str(document_id))
    job_id = app.enqueue(connection, job, document_id=str(document_id), owner=owner)
    connection.execute(
        "insert into documents.document (id, owner, file_name, file_key, sha256, job_id)"
        " values (%s, %s, %s, %s, %s, %s)",
        (document_id, owner, file_name, stored.key, stored.sha256, job_id),
    )
    return document_id


@app.handler("document.analyse", queue=QUEUE, timeout_seconds=60, max_attempts=5)
def analyse_document(ctx: Context, document_id: str, owner: str) -> None:
    """Analyse a document for the owner who asked; a plain function, so it runs in a thread."""
    try:
        stored = _begin(ctx, document_id, owner)
        ctx.progress(0.1, "reading")
        found = analyse_apart(files.path_of(stored)).as_json()
        _keep(ctx, document_id, owner=owner, found=found)
    except UnreadableError as error:
        _refuse(ctx, document_id, error.reason)
        raise Permanent(str(error), code=error.reason) from error
    except OwnerChangedError:
        _refuse(ctx, document_id, OwnerChangedError.default_code)
        raise


class OwnerChangedError(Permanent):
    """The document has another owner by now. They can ask for an analysis of their own."""

    default_code = "owner_changed"


def _begin(ctx: Context, document_id: str, owner: str) -> files.Stored:
    """Say that the analysis goes on, unless it is over or was asked for by somebody else.

    A run may be late: frozen while another one finished. It must not reopen what is closed.
    """
    with ctx.state.connection() as connection:
        row = connection.execute(
            "update documents.document set state = 'analysing'"
            " where id = %s and owner = %s and state in ('accepted', 'analysing')"
            " returning file_key, sha256",
            (document_id, owner),
        ).fetchone()
        if row is not None:
            return files.Stored(*row)
        state, reason = connection.execute(
            "select state, reason from documents.document where id = %s", (document_id,)
        ).fetchone()
    if state == "refused":  # by a run that died before its refusal was recorded
        raise Permanent(code=reason)
    if state == "analysed":
        raise LeaseLostError
    raise OwnerChangedError


def _keep(ctx: Context, document_id: str, *, owner: str, found: dict[str, object]) -> None:
    """Commit what was found, the document's state, its event and the job's success as one."""
    with ctx.transaction(result=found) as connection:
        # The owner is asked for again: who got the document meanwhile did not ask for this.
        row = connection.execute(
            "update documents.document set state = 'analysed', reason = null"
            " where id = %s and owner = %s returning id",
            (document_id, owner),
        ).fetchone()
        if row is None:
            raise OwnerChangedError
        connection.execute(
            "insert into documents.analysis (document_id, result) values (%s, %s)",
            (document_id, json.dumps(found)),
        )
        app.publish(
            connection,
            "document.analysed",
            {"document_id": document_id},
            aggregate=("document", document_id),
        )


@app.on("document.analysed", name="document.tell_owner", start="beginning", queue=QUEUE)
def tell_owner(ctx: Context, event: Event) -> None:
    """Leave a notice for whoever owns the document by now, once: it and the success are one."""
    with ctx.transaction() as connection:
        connection.execute(
            "insert into documents.notice (owner, document_id)"
            " select owner, id from documents.document where id = %s",
            (event.payload["document_id"],),
        )


def _refuse(ctx: Context, document_id: str, reason: str) -> None:
    with ctx.state.connection() as connection:
        connection.execute(
            "update documents.document set state = 'refused', reason = %s"
            " where id = %s and state in ('accepted', 'analysing')",
            (reason, document_id),
        )
