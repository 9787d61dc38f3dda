"""Fixtures of the worker's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hudhud import telemetry
from tests.support.told import Told

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def told() -> Iterator[Told]:
    """Collect what is emitted during a test."""
    told = Told()
    unsubscribe = telemetry.subscribe(told)
    yield told
    unsubscribe()
