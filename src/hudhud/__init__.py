"""hudhud: everything that must happen after the request, on one PostgreSQL."""

from hudhud.client import AsyncClient, Client
from hudhud.domain.job import Enqueued, Lane, NewJob, Status
from hudhud.domain.retry import RetryPolicy
from hudhud.errors import (
    ConfigError,
    DuplicateJobError,
    HudhudError,
    InvalidJobError,
    JobNotFoundError,
    LeaseLostError,
    MoveRefusedError,
    PayloadTooLargeError,
    Permanent,
    Retryable,
    SchemaError,
    Snooze,
    Unknown,
    UnknownTypeError,
)
from hudhud.hudhud import Hudhud
from hudhud.worker.context import Context

__all__ = [
    "AsyncClient",
    "Client",
    "ConfigError",
    "Context",
    "DuplicateJobError",
    "Enqueued",
    "Hudhud",
    "HudhudError",
    "InvalidJobError",
    "JobNotFoundError",
    "Lane",
    "LeaseLostError",
    "MoveRefusedError",
    "NewJob",
    "PayloadTooLargeError",
    "Permanent",
    "RetryPolicy",
    "Retryable",
    "SchemaError",
    "Snooze",
    "Status",
    "Unknown",
    "UnknownTypeError",
]
