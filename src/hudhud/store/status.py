"""A job's status as users know it: the seventeen fields of the view job_status."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hudhud.domain.job import FINAL, Status
from hudhud.store.reads import Read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as it stood when it was looked at.

    `waiting_for` is time, order_key, dependency or hold for a pending job that is not due or not
    free. `locked_by` is the worker that runs it. Integers of the payload are exact; a fraction that
    no float can hold is a Decimal.
    """

    id: UUID
    type: str
    version: int
    tenant_id: str
    idempotency_key: str | None
    payload: Mapping[str, object]
    status: Status
    waiting_for: str | None
    attempts: int
    max_attempts: int
    available_at: datetime
    locked_by: UUID | None
    locked_until: datetime | None
    last_error_code: str | None
    created_at: datetime
    finished_at: datetime | None
    correlation_id: str | None

    @property
    def is_final(self) -> bool:
        """Whether the job has ended for good."""
        return self.status in FINAL


def status_read(job_id: UUID, tenant_id: str | None) -> Read:
    """Return the read of one job's status; tenant_id None sees every tenant's.

    Source: sql/reads/job_status.sql
    """
    return Read("job_status", {"id": job_id, "tenant_id": tenant_id})


def status_of(rows: Sequence[Mapping[str, Any]]) -> JobStatus | None:
    """Return what the read's rows say, None when there is no such job for that tenant."""
    if not rows:
        return None
    row = dict(rows[0])
    row["payload"] = _decode(row["payload"])
    row["status"] = Status(row["status"])
    return JobStatus(**row)


def _number(digits: str) -> float | Decimal:
    """Keep a fraction that is no float: no worker takes it, but people must see the job."""
    number = float(digits)
    return number if math.isfinite(number) else Decimal(digits)


_decode = json.JSONDecoder(parse_float=_number).decode
