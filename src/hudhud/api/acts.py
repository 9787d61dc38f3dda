"""What may be done to one job, each act a resource of its own: its cancellation, its schedule."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from hudhud.api import document, intake
from hudhud.api.intake import CancellationBody, ScheduleBody
from hudhud.store import jobs
from hudhud.web import body
from hudhud.web.answer import answer
from hudhud.web.auth import Caller
from hudhud.web.face import bearer, caller_with, face_of

BODY_BYTES_MAX = 16_384

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"], dependencies=[Depends(bearer)])


@router.post("/cancellation", status_code=202, openapi_extra=document.takes(CancellationBody))
async def cancel(
    request: Request, job_id: str, caller: Annotated[Caller, Depends(caller_with("operate"))]
) -> Response:
    """Cancel a job: at once when it waits (200), by request when it runs (202).

    A job that runs ends `cancelled` only if its handler stops; if it succeeds first, it succeeded.
    409 when it has ended.
    """
    sent = await body.read_object(request, bytes_max=BODY_BYTES_MAX)
    reason = intake.read(CancellationBody, sent).reason
    outcome = await face_of(request).database.call(
        jobs.cancel(
            document.job_id_of(job_id),
            actor=caller.actor,
            reason=reason,
            tenant_id=caller.tenant_id,
        )
    )
    return answer({"cancellation": outcome}, status=200 if outcome == "cancelled" else 202)


@router.put("/schedule", openapi_extra=document.takes(ScheduleBody))
async def reschedule(
    request: Request, job_id: str, caller: Annotated[Caller, Depends(caller_with("operate"))]
) -> Response:
    """Let a job that waits run at another time; `available_at` null lets it run now.

    409 when it runs or has ended.
    """
    sent = await body.read_object(request, bytes_max=BODY_BYTES_MAX)
    available_at = intake.read(ScheduleBody, sent).available_at
    await face_of(request).database.call(
        jobs.reschedule(
            document.job_id_of(job_id),
            available_at,
            actor=caller.actor,
            tenant_id=caller.tenant_id,
        )
    )
    return answer({"available_at": available_at})
