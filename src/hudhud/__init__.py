"""hudhud: everything that must happen after the request, on one PostgreSQL.

Every exception is in `hudhud.errors`; those that handlers raise, or callers often catch, are here.
"""

from hudhud.client import AsyncClient, Client
from hudhud.domain.event import Event, NewEvent, Personal
from hudhud.domain.job import Enqueued, Lane, NewJob, Status
from hudhud.domain.retry import RetryPolicy
from hudhud.errors import (
    DuplicateJobError,
    HudhudError,
    InvalidJobError,
    LeaseLostError,
    NotSent,
    Permanent,
    Refused,
    Retryable,
    Snooze,
    TryLater,
    Unknown,
)
from hudhud.hudhud import Hudhud
from hudhud.worker.context import Context
from hudhud.worker.effect import Effect
from hudhud.worker.provider import Provider

__all__ = [
    "AsyncClient",
    "Client",
    "Context",
    "DuplicateJobError",
    "Effect",
    "Enqueued",
    "Event",
    "Hudhud",
    "HudhudError",
    "InvalidJobError",
    "Lane",
    "LeaseLostError",
    "NewEvent",
    "NewJob",
    "NotSent",
    "Permanent",
    "Personal",
    "Provider",
    "Refused",
    "RetryPolicy",
    "Retryable",
    "Snooze",
    "Status",
    "TryLater",
    "Unknown",
]
