"""W3C trace context: the `traceparent` that ties an enqueue to the run it leads to.

Source: https://www.w3.org/TR/trace-context/, version 00; higher versions are read as far as 00
goes, as the standard asks.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from typing_extensions import override

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Traceparent:
    """A position in a trace; `str` of it is the header's value.

    `trace_id` has 32, `span_id` 16 lower-case hexadecimal digits, neither all zero.
    """

    trace_id: str
    span_id: str
    is_sampled: bool

    @override
    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"

    def child(self) -> Traceparent:
        """Return a new span of the same trace."""
        return Traceparent(self.trace_id, secrets.token_hex(8), self.is_sampled)


def parse(text: str | None) -> Traceparent | None:
    """Return what a header says, None for none or a malformed one.

    A malformed one is ignored, as the standard asks: tracing never stops work.
    """
    found = _FORM.fullmatch(text or "")
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    is_valid = version != "ff" and (version != "00" or rest is None)
    if not is_valid or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return Traceparent(trace_id, span_id, is_sampled=bool(int(flags, 16) & 1))


def make(*, is_sampled: bool = True) -> Traceparent:
    """Return the first span of a new trace, from the system's random source."""
    return Traceparent(secrets.token_hex(16), secrets.token_hex(8), is_sampled)
