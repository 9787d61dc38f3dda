"""Laws of the registry: one handler per contract, and an announcement that says what is there."""

from __future__ import annotations

import json

import pytest

from hudhud.errors import ConfigError
from hudhud.worker.handler import define
from hudhud.worker.registry import Registry


async def refund(_: object, transaction_id: str, amount: int | None = None) -> None:
    assert transaction_id or amount


async def refund_again(_: object) -> None: ...


def test_a_handler_is_found_by_type_and_version() -> None:
    registry = Registry()
    old, new = define("refund", refund), define("refund", refund_again, version=2)
    registry.add(old)
    registry.add(new)
    assert registry.find("refund", 1) is old
    assert registry.find("refund", 2) is new
    assert registry.find("refund", 3) is None
    assert registry.contracts == ["refund:1", "refund:2"]
    assert list(registry) == [old, new]
    assert len(registry) == 2


def test_a_second_handler_of_a_contract_is_refused_with_both_places() -> None:
    registry = Registry()
    registry.add(define("refund", refund))
    with pytest.raises(ConfigError) as caught:
        registry.add(define("refund", refund_again))
    assert "refund:1" in str(caught.value)
    assert f"{__name__}.refund and {__name__}.refund_again" in str(caught.value)
    assert registry.contracts == ["refund:1"]


def test_the_same_handler_may_be_added_again() -> None:
    registry = Registry()
    handler = define("refund", refund)
    registry.add(handler)
    registry.add(handler)
    assert len(registry) == 1


def test_the_announcement_is_json_that_names_queue_lane_limits_and_fields() -> None:
    registry = Registry()
    registry.add(define("refund", refund, queue="bank", lane="high", max_attempts=5))
    assert json.loads(json.dumps(registry.announcement())) == [
        {
            "type": "refund",
            "version": 1,
            "queue": "bank",
            "lane": "high",
            "max_attempts": 5,
            "max_crashes": 3,
            "schema": {
                "required": {"transaction_id": ["string"]},
                "optional": {"amount": ["integer", "null"]},
                "open": False,
            },
        }
    ]
