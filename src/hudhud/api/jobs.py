"""`/v1/jobs`: accept jobs, show them, and what may be done to one: cancel it, reschedule it.

Accepting answers 202 after the commit and never waits for a worker; a caller who wants to wait
asks for it when it looks at the job (`Prefer: wait=N`). Each act on a job is a resource of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from hudhud.api import document, intake
from hudhud.api.document import PageQuery
from hudhud.api.intake import BulkBody, CancellationBody, JobBody, ScheduleBody
from hudhud.domain.job import FINAL
from hudhud.errors import DuplicateJobError, InvalidJobError
from hudhud.store import jobs
from hudhud.web import body, idempotency, problems, waits
from hudhud.web.auth import Caller
from hudhud.web.body import answer
from hudhud.web.face import bearer, caller_with, face_of
from hudhud.web.idempotency import Act

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hudhud.domain.job import Enqueued

BODY_BYTES_MAX = 1_310_720
"""A payload at the ceiling of all databases (1 MiB), and what surrounds it."""
BULK_BYTES_MAX = 8_388_608
ACT_BYTES_MAX = 16_384

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*(\d{1,9})\s*(?:$|[,;])", re.IGNORECASE)

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(bearer)])


@router.post("", status_code=202, openapi_extra=document.posted(JobBody))
async def enqueue(
    request: Request, caller: Annotated[Caller, Depends(caller_with("enqueue"))]
) -> Response:
    """Accept one job.

    202 with its id and `Location` once it is committed; 200 with the id of the job that holds the
    idempotency key already, and `deduplicated` true. The header `Idempotency-Key` is the job's key
    as well, unless the body has `idempotency_key` or `unique_by`.
    """
    sent = await body.read_object(request, bytes_max=BODY_BYTES_MAX)
    described = intake.read(JobBody, intake.with_key(sent, idempotency.key_of(request.headers)))
    job = intake.new_job(
        described, tenant_id=caller.tenant_id, traceparent=intake.trace_of(request)
    )

    def check(enqueued: Enqueued, now: datetime) -> None:
        intake.refuse_expired(job, enqueued, now)

    def told(enqueued: Enqueued) -> Response:
        return answer(
            _accepted(enqueued),
            status=200 if enqueued.deduplicated else 202,
            headers={"location": f"/v1/jobs/{enqueued.id}"},
        )

    act = Act(call=jobs.enqueue(job), answer=told, check=check if job.expires_at else None)
    try:
        return await idempotency.perform(request, caller, sent=sent, act=act)
    except InvalidJobError as error:
        raise intake.refusal(error, at="$.payload") from error


@router.post("/bulk", status_code=202, openapi_extra=document.posted(BulkBody))
async def enqueue_many(
    request: Request, caller: Annotated[Caller, Depends(caller_with("enqueue"))]
) -> Response:
    """Accept up to 1,000 jobs together, or none of them.

    202 with one answer per job, in the order of the request.
    """
    sent = await body.read_object(request, bytes_max=BULK_BYTES_MAX)
    described = intake.read(BulkBody, sent).jobs
    trace = intake.trace_of(request)
    batch = [
        intake.new_job(one, tenant_id=caller.tenant_id, traceparent=trace, at=f"$.jobs[{n}]")
        for n, one in enumerate(described)
    ]

    def check(enqueued: Sequence[Enqueued], now: datetime) -> None:
        for n, (job, one) in enumerate(zip(batch, enqueued, strict=True)):
            intake.refuse_expired(job, one, now, at=f"$.jobs[{n}]")

    def told(enqueued: Sequence[Enqueued]) -> Response:
        return answer({"jobs": [_accepted(one) for one in enqueued]}, status=202)

    act = Act(
        call=jobs.enqueue_many(batch),
        answer=told,
        check=check if any(job.expires_at for job in batch) else None,
    )
    try:
        return await idempotency.perform(request, caller, sent=sent, act=act)
    except InvalidJobError as error:
        raise intake.bulk_refusal(error) from error
    except DuplicateJobError as error:
        raise intake.bulk_duplicate(error) from error


@router.get("")
async def page(
    request: Request,
    query: Annotated[PageQuery, Query()],
    caller: Annotated[Caller, Depends(caller_with("read"))],
) -> Response:
    """List jobs, newest first.

    A page may hold fewer jobs than `limit`, even none, and still name a `next`: pass it as `after`
    to go on. There is no more when `next` is null.
    """
    rows = await face_of(request).database.read(document.page_read(query, caller.tenant_id))
    return answer(document.page(rows))


@router.get("/{job_id}")
async def show(
    request: Request, job_id: str, caller: Annotated[Caller, Depends(caller_with("read"))]
) -> Response:
    """Show one job: its status, result, attempts, log and links.

    With `Prefer: wait=N` the answer comes when the job has ended, or after N seconds (at most 30),
    whichever is first; `Preference-Applied` says how long was granted.
    """
    face = face_of(request)
    read = document.show_read(job_id, caller.tenant_id)
    found = await face.database.read(read)
    headers = {"vary": "Prefer"}
    seconds = wanted_wait(request)
    if found and found[0]["status"] not in FINAL and seconds and face.waits.has_room:
        await face.waits.until_ended(document.id_of(job_id), seconds)
        headers["preference-applied"] = f"wait={seconds}"
        found = await face.database.read(read)
    if not found:
        raise problems.not_found()
    return answer(document.job(found[0], is_operator="operate" in caller.scopes), headers=headers)


@router.post(
    "/{job_id}/cancellation", status_code=202, openapi_extra=document.posted(CancellationBody)
)
async def cancel(
    request: Request, job_id: str, caller: Annotated[Caller, Depends(caller_with("operate"))]
) -> Response:
    """Cancel a job: at once when it waits (200), by request when it runs (202).

    A job that runs ends `cancelled` only if its handler stops; if it succeeds first, it succeeded.
    409 when it has ended.
    """
    sent = await body.read_object(request, bytes_max=ACT_BYTES_MAX)
    reason = intake.read(CancellationBody, sent).reason
    call = jobs.cancel(
        document.id_of(job_id), actor=caller.actor, reason=reason, tenant_id=caller.tenant_id
    )

    def told(outcome: str) -> Response:
        return answer({"cancellation": outcome}, status=200 if outcome == "cancelled" else 202)

    return await idempotency.perform(request, caller, sent=sent, act=Act(call=call, answer=told))


@router.put("/{job_id}/schedule", openapi_extra=document.takes(ScheduleBody))
async def reschedule(
    request: Request, job_id: str, caller: Annotated[Caller, Depends(caller_with("operate"))]
) -> Response:
    """Let a job that waits run at another time; `available_at` null lets it run now.

    409 when it runs or has ended, 422 for a time at which it will have expired.
    """
    sent = await body.read_object(request, bytes_max=ACT_BYTES_MAX)
    available_at = intake.read(ScheduleBody, sent).available_at
    call = jobs.reschedule(
        document.id_of(job_id),
        available_at,
        actor=caller.actor,
        tenant_id=caller.tenant_id,
    )
    try:
        await face_of(request).database.call(call)
    except InvalidJobError as error:
        raise intake.refusal(error, at="$.available_at") from error
    return answer({"available_at": available_at})


def wanted_wait(request: Request) -> int:
    """Return the seconds that a request prefers to wait, 0 for none, at most the granted 30."""
    # What is quoted is a value, whatever it looks like; only a number can be that of a wait.
    prefer = _QUOTED.sub(
        lambda quoted: quoted[1] if quoted[1].isdecimal() else "-",
        ",".join(request.headers.getlist("prefer")),
    )
    found = _WAIT.search(prefer)
    return min(int(found[1]), waits.SECONDS_MAX) if found else 0


def _accepted(enqueued: Enqueued) -> dict[str, object]:
    return {"id": str(enqueued.id), "deduplicated": enqueued.deduplicated}
