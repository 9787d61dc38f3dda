"""The application's HTTP face: upload, look, fetch the result. Not yours answers 404."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from examples.documents.app import accept, app, token_hash
from examples.documents.files import BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from psycopg import Connection
    from psycopg.rows import TupleRow

NOTICES_MAX = 1_000

router = APIRouter()


def create_app() -> FastAPI:
    """Make the ASGI app on the database that is configured for hudhud."""
    web = FastAPI(title="documents", lifespan=_lifespan)
    web.include_router(router)
    return web


@asynccontextmanager
async def _lifespan(web: FastAPI) -> AsyncGenerator[None]:
    pool: ConnectionPool[Connection[TupleRow]] = ConnectionPool(
        app.database_url, min_size=0, max_size=8, open=False
    )
    with pool:
        web.state.pool = pool
        yield


def _pool(request: Request) -> ConnectionPool[Connection[TupleRow]]:
    pool: ConnectionPool[Connection[TupleRow]] = request.app.state.pool
    return pool


def _owner(request: Request, authorization: Annotated[str, Header()] = "") -> str:
    token = authorization.removeprefix("Bearer ")
    with _pool(request).connection() as connection:
        row = connection.execute(
            "select name from documents.owner where token_hash = %s", (token_hash(token),)
        ).fetchone()
    if row is None:
        raise HTTPException(401, "Say who you are: Authorization: Bearer …")
    return str(row[0])


Owner: TypeAlias = Annotated[str, Depends(_owner)]


def _yours(request: Request, document_id: UUID, owner: str) -> dict[str, Any]:
    """Read a document of the owner's; another's is as absent as one that never was.

    Its own record tells its state, unless the job died without a word: then it is refused, too.
    """
    with (
        _pool(request).connection() as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        row = cursor.execute(
            "select d.id, d.file_name, d.created_at, a.result,"
            " case when job.id is null then d.state else 'refused' end as state,"
            " coalesce(d.reason, job.last_error_code, job.status) as reason"
            " from documents.document d"
            " left join documents.analysis a on a.document_id = d.id"
            " left join hudhud.job_status job on job.id = d.job_id"
            " and job.status in ('dead', 'cancelled')"
            " where d.id = %s and d.owner = %s",
            (document_id, owner),
        ).fetchone()
    if row is None:
        raise HTTPException(404, "There is no such document.")
    return row


@router.post("/documents", status_code=202)
async def upload(
    request: Request, response: Response, owner: Owner, *, file_name: str = "document"
) -> dict[str, str]:
    """Take a document's bytes; answered when it is committed, not when it is analysed."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > BYTES_MAX:
            raise HTTPException(413, f"At most {BYTES_MAX} bytes are taken.")
    if not content:
        # What can be told now is told now, and not by a job that is bound to fail.
        raise HTTPException(422, "There is nothing in it.")

    def keep() -> UUID:
        with _pool(request).connection() as connection:
            return accept(connection, owner, bytes(content), file_name=file_name[:200])

    document_id = await run_in_threadpool(keep)
    response.headers["Location"] = f"/documents/{document_id}"
    return {"id": str(document_id), "state": "accepted"}


@router.get("/documents/{document_id}")
def show(request: Request, document_id: UUID, owner: Owner) -> dict[str, Any]:
    """Tell how far a document is: accepted, analysing, analysed or refused."""
    document = _yours(request, document_id, owner)
    del document["result"]
    return document


@router.get("/notices")
def notices(request: Request, owner: Owner) -> list[dict[str, Any]]:
    """Return what its owner was told, the newest first: which documents have been analysed."""
    with (
        _pool(request).connection() as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        return cursor.execute(
            "select n.document_id, d.file_name, n.created_at from documents.notice n"
            " join documents.document d on d.id = n.document_id and d.owner = n.owner"
            " where n.owner = %s order by n.id desc limit %s",
            (owner, NOTICES_MAX),
        ).fetchall()


@router.get("/documents/{document_id}/result")
def result(request: Request, document_id: UUID, owner: Owner) -> dict[str, Any]:
    """Return what was found; 409 while there is nothing yet."""
    document = _yours(request, document_id, owner)
    if document["state"] != "analysed":
        raise HTTPException(409, f"The document is {document['state']}.")
    found: dict[str, Any] = document["result"]
    return found
