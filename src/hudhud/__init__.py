"""hudhud: everything that must happen after the request, on one PostgreSQL."""

from hudhud.client import AsyncClient, Client
from hudhud.domain.job import Enqueued, Lane, NewJob, Status
from hudhud.domain.retry import RetryPolicy
from hudhud.errors import (
    ConfigError,
    DuplicateJobError,
    EffectMismatchError,
    HudhudError,
    InvalidJobError,
    JobNotFoundError,
    LeaseLostError,
    MoveRefusedError,
    NotSent,
    PayloadTooLargeError,
    Permanent,
    Refused,
    Retryable,
    SchemaError,
    Snooze,
    TryLater,
    Unknown,
    UnknownTypeError,
)
from hudhud.hudhud import Hudhud
from hudhud.worker.context import Context
from hudhud.worker.effect import Effect
from hudhud.worker.provider import Provider

__all__ = [
    "AsyncClient",
    "Client",
    "ConfigError",
    "Context",
    "DuplicateJobError",
    "Effect",
    "EffectMismatchError",
    "Enqueued",
    "Hudhud",
    "HudhudError",
    "InvalidJobError",
    "JobNotFoundError",
    "Lane",
    "LeaseLostError",
    "MoveRefusedError",
    "NewJob",
    "NotSent",
    "PayloadTooLargeError",
    "Permanent",
    "Provider",
    "Refused",
    "RetryPolicy",
    "Retryable",
    "SchemaError",
    "Snooze",
    "Status",
    "TryLater",
    "Unknown",
    "UnknownTypeError",
]
