"""Effects as values: their states, the moves between them, and how a request is recognised."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Verdict: TypeAlias = Literal["send", "done", "open", "cancelled", "lost"]
"""What the database says to an intention; see sql/functions/effects/intend.sql."""

KEY_CHARACTERS_MAX: Final = 500
NAME_CHARACTERS_MAX: Final = 100


class EffectState(StrEnum):
    """How an effect stands. The first two are open: nobody knows for sure."""

    INTENDED = "intended"
    UNKNOWN = "unknown"
    DONE = "done"
    NOT_DONE = "not_done"


OPEN: Final = frozenset({EffectState.INTENDED, EffectState.UNKNOWN})

_OF_OPEN: Final[Mapping[str, EffectState]] = MappingProxyType(
    {
        "meet": EffectState.UNKNOWN,
        "send_again": EffectState.INTENDED,
        "record_done": EffectState.DONE,
        "record_not_done": EffectState.NOT_DONE,
        "record_unknown": EffectState.UNKNOWN,
        "decide_done": EffectState.DONE,
        "decide_not_done": EffectState.NOT_DONE,
    }
)
EFFECT_MOVES: Final[Mapping[EffectState, Mapping[str, EffectState]]] = MappingProxyType(
    {
        EffectState.INTENDED: _OF_OPEN,
        EffectState.UNKNOWN: _OF_OPEN,
        EffectState.DONE: MappingProxyType({"meet": EffectState.DONE}),
        EffectState.NOT_DONE: MappingProxyType({"meet": EffectState.INTENDED}),
    }
)
"""State → move → state. `meet`: a run comes to the effect; `send_again`: it has looked into it."""


def fingerprint(request: object) -> str:
    """Return what tells one request from another: 64 hexadecimal digits.

    Args:
        request: A JSON value; the order of its fields does not count.
    """
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
