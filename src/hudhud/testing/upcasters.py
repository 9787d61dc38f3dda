"""Run every chain of upcasters on the golden samples that were kept for it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudhud.domain.payload import dump, load
from hudhud.errors import HudhudError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hudhud.domain.upcast import Upcaster
    from hudhud.hudhud import Hudhud
    from hudhud.worker.outbox import Outbox


@dataclass(frozen=True, slots=True)
class UpcastSample:
    """A golden sample, and what the upcasters made of it."""

    type: str
    version: int
    sample: Mapping[str, Any]
    to_version: int
    upcast: Mapping[str, Any]


def check_upcasters(app: Hudhud) -> list[UpcastSample]:
    """Upcast the sample of every old version to the newest, and check each step of the way.

    Each step must leave its argument alone, give the same for the same, and give a payload that
    fits the contract of the next version, where that is declared. A sample must fit the contract of
    its own version.

    Args:
        app: The application.

    Returns:
        What became of each sample, for assertions of your own: `upcast` is as subscribers of
        `to_version` get it.

    Raises:
        AssertionError: A step does not keep these rules; names it.

    Source: the function _steps below
    """
    return [_run(app.outbox, one) for one in app.outbox.upcasters]


def _run(outbox: Outbox, first: Upcaster) -> UpcastSample:
    payload = _json(first.sample, f"the sample of {first.type}:{first.version}")
    _fits(outbox, (first.type, first.version), payload)
    version = first.version
    for step in _steps(outbox, first):
        payload = _step(step, payload)
        version = step.version + 1
        _fits(outbox, (first.type, version), payload)
    return UpcastSample(first.type, first.version, first.sample, version, payload)


def _steps(outbox: Outbox, first: Upcaster) -> Iterator[Upcaster]:
    by_version = {one.version: one for one in outbox.upcasters if one.type == first.type}
    version = first.version
    while version in by_version:
        yield by_version[version]
        version += 1


def _step(upcaster: Upcaster, payload: dict[str, Any]) -> dict[str, Any]:
    name = f"the upcaster of {upcaster.type}:{upcaster.version}"
    given = copy.deepcopy(payload)
    made = _json(upcaster.function(given), name)
    assert given == payload, f"{name} changes its argument: return a new payload instead"
    again = _json(upcaster.function(copy.deepcopy(payload)), name)
    assert made == again, f"{name} is not pure: it made {made} and then {again}"
    return made


def _json(payload: object, name: str) -> dict[str, Any]:
    """Return a payload as it comes out of the database."""
    try:
        return load(dump(payload))
    except HudhudError as error:
        message = f"{name} is no payload: {error}"
        raise AssertionError(message) from error


def _fits(outbox: Outbox, contract: tuple[str, int], payload: Mapping[str, object]) -> None:
    try:
        outbox.check(*contract, payload)
    except HudhudError as error:
        message = f"{contract[0]}:{contract[1]} as {dict(payload)}: {error}"
        raise AssertionError(message) from error
