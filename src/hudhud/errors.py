"""Every exception of hudhud, and the SQLSTATE that stands for it in the database.

A class's docstring is its default message: what happened, then what to do about it. The database
raises its refusals with SQLSTATEs of the class `HH`; they become these exceptions in one place,
`from_sqlstate`, whatever driver carried them.

The lower half is for handlers: a handler says what its run came to by raising one of the verdicts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

CODE_CHARACTERS_MAX = 64

_NOT_OF_A_CODE = re.compile(r"[^a-z0-9]+")


class HudhudError(Exception):
    """hudhud could not do what was asked. See the message of the more exact error class."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or default_message(type(self)))


class ConfigError(HudhudError):
    """The configuration is wrong. Correct the named key and start again."""


class InvalidJobError(HudhudError):
    """The job cannot be accepted as given. Correct the value at the JSON path in the message."""


class PayloadTooLargeError(HudhudError):
    """The payload is too large. Store the data elsewhere and enqueue a reference to it."""


class DuplicateJobError(HudhudError):
    """The idempotency key is taken. Use another key, or on_conflict="return_existing"."""


class UnknownTypeError(HudhudError):
    """No worker has announced this type and version. Start one that has its handler."""


class LeaseLostError(HudhudError):
    """The lease ended before the run did. Stop here: another worker has the job by now."""


class JobNotFoundError(HudhudError):
    """There is no such job for this tenant. Check the id; old jobs are pruned."""


class MoveRefusedError(HudhudError):
    """The job's status does not allow this. Look at the job, then choose what its status allows."""


class EffectMismatchError(HudhudError):
    """The effect's key was used for another request. Give each request a key of its own."""


class InvalidEventError(HudhudError):
    """The event cannot be accepted as given. Correct what the message names."""


class RestoredCopyError(HudhudError):
    """This database is a copy, and its events may be routed elsewhere. See `hudhud events rebase`.

    A restored dump holds cursors that speak of another server's transactions.
    """


class SchemaError(HudhudError):
    """The database's schema does not fit this version. Run `hudhud migrate`, or update hudhud."""


class PermissionDeniedError(HudhudError):
    """The actor may not do this. Ask for the permission that the message names."""


class Verdict(HudhudError):  # noqa: N818 - its kinds are raised as verdicts: raise Permanent(…)
    """A handler ended its run with a verdict. Raise one of the kinds of verdict.

    `code` is a short snake_case word by which failures are grouped; text
    that is not of that form is brought into it, for a recording of failure must not fail.
    """

    default_code: ClassVar[str]

    def __init__(self, message: str | None = None, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = snake_code(code) if code else self.default_code


class Permanent(Verdict):
    """The job cannot succeed, however often it is tried. Correct it and resubmit it."""

    default_code = "permanent"


class Retryable(Verdict):
    """The attempt failed, a later one may succeed. It is tried again after a growing delay.

    `after_seconds` is the least delay, as a provider's Retry-After asks for.
    """

    default_code = "retryable"

    def __init__(
        self,
        message: str | None = None,
        *,
        after_seconds: float | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.after_seconds = after_seconds


class NotSent(Retryable):
    """Nothing left for the provider, for sure. The effect is not done; it is tried again."""

    default_code = "not_sent"


class Refused(Permanent):
    """The provider refused, for good. The effect is not done, and trying again will not help."""

    default_code = "refused"


class TryLater(Retryable):
    """The provider did not act and asks for patience. The effect is not done; it is tried again.

    `after_seconds` is what its Retry-After says.
    """

    default_code = "try_later"


class Unknown(Verdict):
    """Nobody knows whether the effect happened. It is reconciled before it is tried again."""

    default_code = "unknown"


class Snooze(Verdict):
    """The job is not ready to be worked on. It runs again later, and nothing has failed.

    `seconds` is the delay; the snoozed run is not counted as an attempt.
    """

    default_code = "snooze"

    def __init__(
        self, seconds: float, message: str | None = None, *, code: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.seconds = seconds


def default_message(error_class: type[HudhudError]) -> str:
    """Return what a class says when raised without a message: its docstring's first paragraph."""
    paragraph = (error_class.__doc__ or error_class.__name__).strip().split("\n\n", 1)[0]
    return " ".join(paragraph.split())


def snake_code(text: str) -> str:
    """Return text as a code that groups: [a-z0-9_], 1 to 64 characters; never raises."""
    words = _NOT_OF_A_CODE.sub("_", text.lower()).strip("_")
    return words[:CODE_CHARACTERS_MAX].rstrip("_") or "unnamed"


def from_sqlstate(sqlstate: str | None, message: str) -> HudhudError | None:
    """Return the exception that a server error stands for, None when it is not one of ours.

    Besides our own class `HH`, three standard states have one meaning when a function of ours was
    called: the schema or the function is not there, or the role may not call it.

    Args:
        sqlstate: Five characters as the driver reports them, or None.
        message: The server's message, kept as the exception's.
    """
    if sqlstate in _MISSING:
        return SchemaError(f"{message}. {default_message(SchemaError)}")
    if sqlstate == _INSUFFICIENT_PRIVILEGE:
        return PermissionDeniedError(f"{message}. Grant the role what `hudhud doctor` names.")
    error_class = BY_SQLSTATE.get(sqlstate or "")
    return error_class(message) if error_class else None


def is_limit(sqlstate: str | None) -> bool:
    """Say whether a server error means too large or too deep: SQLSTATE class 54.

    Drivers class it with lost connections, but the same statement is refused again and again.
    """
    return (sqlstate or "").startswith("54")


BY_SQLSTATE: Mapping[str, type[HudhudError]] = {
    "HH001": InvalidJobError,
    "HH002": PayloadTooLargeError,
    "HH003": DuplicateJobError,
    "HH004": UnknownTypeError,
    "HH005": LeaseLostError,
    "HH006": JobNotFoundError,
    "HH007": MoveRefusedError,
    "HH008": SchemaError,
    "HH009": EffectMismatchError,
    "HH010": RestoredCopyError,
    "HH011": InvalidEventError,
}
_MISSING = frozenset({"3F000", "42883"})  # invalid_schema_name, undefined_function
_INSUFFICIENT_PRIVILEGE = "42501"
