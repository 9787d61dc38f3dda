"""Laws of `recording`: what stands in for a provider acts, fails and is asked as a provider is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hudhud import Context, Hudhud, Provider, Refused
from hudhud.testing import Recorder, crash_points, drain, recording

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hudhud.worker.handler import AnyHandler


class Bank:
    """A client that must not be opened in tests."""

    async def request(self, amount: int, *, key: str) -> dict[str, Any]:
        raise NotImplementedError

    async def confirm(self, *, key: str) -> dict[str, Any]:
        raise NotImplementedError

    async def find(self, key: str) -> dict[str, Any] | None:
        raise NotImplementedError

    def pay(self, *, key: str) -> dict[str, Any]:
        raise NotImplementedError


def open_bank() -> AbstractAsyncContextManager[Bank]:
    message = "no test opens the real bank"
    raise AssertionError(message)


class World:
    def __init__(self, url: str) -> None:
        self.app = Hudhud(url)
        self.bank: Provider[Bank] = self.app.provider("bank", open_bank, reconcile=Bank.find)

        @self.app.handler("refund")
        async def refund(ctx: Context, amount: int) -> object:
            async with ctx.effect("request", self.bank) as effect:
                effect.result = await effect.provider.request(amount, key=effect.key)
            async with ctx.effect("confirm", self.bank) as effect:
                effect.result = await effect.provider.confirm(key=effect.key)
            return effect.result

        @self.app.handler("pay")
        def pay(ctx: Context) -> object:
            with ctx.effect("pay", self.bank) as effect:
                effect.result = effect.provider.pay(key=effect.key)
            return effect.result

        self.refund: AnyHandler = refund
        self.pay: AnyHandler = pay

    def enqueue(self, handler: AnyHandler, **payload: object) -> None:
        with self.app.transaction() as connection:
            self.app.enqueue(connection, handler, **payload)


@pytest.fixture
def world(database: str) -> World:
    return World(database)


def test_calls_are_recorded_and_answered(world: World) -> None:
    world.enqueue(world.refund, amount=5)
    with recording(world.bank, like=Bank) as bank:
        bank.answers("confirm", {"state": "confirmed"})
        bank.answers("request", lambda amount, **_: {"asked": amount})
        [run] = drain(world.app)
    assert run.result == {"state": "confirmed"}
    first, second = bank.calls
    assert (first.method, first.args, first.answer) == ("request", (5,), {"asked": 5})
    assert second.kwargs == {"key": f"{run.job_id}:confirm"}
    assert bank.acted("confirm") == [second]


def test_a_lost_reply_is_asked_after_and_not_sent_again(world: World) -> None:
    world.enqueue(world.refund, amount=5)
    with recording(world.bank) as bank:
        bank.loses_reply("request")
        runs = drain(world.app, scheduled=True)
    assert [run.outcome for run in runs] == ["retry", "succeed"]
    assert [call.method for call in bank.calls] == ["request", "confirm"]
    assert len(bank.asked) == 1


def test_a_failure_does_nothing(world: World) -> None:
    world.enqueue(world.refund, amount=5)
    with recording(world.bank) as bank:
        bank.fails("request", Refused("no such transaction"))
        [run] = drain(world.app)
    assert (run.outcome, run.code) == ("fail", "refused")
    assert bank.acted() == []


def test_a_plain_function_calls_plain_methods(world: World) -> None:
    world.enqueue(world.pay)
    with recording(world.bank, like=Bank) as bank:
        bank.loses_reply("pay")
        runs = drain(world.app, scheduled=True)
    assert [run.outcome for run in runs] == ["retry", "succeed"]
    assert len(bank.acted("pay")) == 1


def test_a_method_that_the_client_does_not_have_cannot_be_called(world: World) -> None:
    @world.app.handler("typo")
    async def typo(ctx: Context) -> None:
        async with ctx.effect("confirm", world.bank) as effect:
            await effect.provider.comfirm()  # type: ignore[attr-defined]

    world.enqueue(typo)
    with recording(world.bank, like=Bank) as bank:
        runs = drain(world.app)
    assert isinstance(runs[0].error, AttributeError)
    assert bank.calls == []


def test_an_effect_happens_once_wherever_its_process_dies(world: World) -> None:
    """R34."""
    for point in crash_points(world.app):
        with recording(world.bank, like=Bank) as bank:
            runs = point.run(world.refund.job(amount=5))
        assert runs[-1].outcome == "succeed", point
        assert [call.method for call in bank.acted()] == ["request", "confirm"], point


def test_a_handler_that_forgets_the_key_is_found_out(world: World) -> None:
    """Between the act and the answer there is a point at which the process dies."""

    @world.app.handler("forgetful")
    async def forgetful(ctx: Context) -> None:
        async with ctx.effect("request", world.bank) as effect:
            await effect.provider.request(1, key="always the same")

    doubled = False
    for point in crash_points(world.app):
        with recording(world.bank, like=Bank) as bank:
            point.run(forgetful.job())
        doubled = doubled or len(bank.acted("request")) > 1
    assert doubled


def test_a_key_is_found_wherever_it_is_and_an_answer_of_none_counts(world: World) -> None:
    bank = Recorder()
    bank.answers("post", None)
    bank.call("post", "/pay", headers={"Idempotency-Key": ["k"]})
    assert bank.find("k") == {}
    assert bank.find("other") is None
    assert world.bank.reconcile is Bank.find


def test_a_provider_that_dedups_acts_once(database: str) -> None:
    app = Hudhud(database)
    bank = app.provider("bank", open_bank, reconcile="dedups")

    @app.handler("pay")
    async def pay(ctx: Context) -> object:
        async with ctx.effect("request", bank) as effect:
            effect.result = await effect.provider.request(1, key=effect.key)
        return effect.result

    with app.transaction() as connection:
        app.enqueue(connection, pay)
    with recording(bank) as recorded:
        recorded.loses_reply("request")
        runs = drain(app, scheduled=True)
    assert runs[-1].result == {"number": 1}
    assert [call.acted for call in recorded.calls] == [True, False]


def test_the_provider_is_itself_again_afterwards(world: World) -> None:
    with recording(world.bank):
        pass
    with pytest.raises(AssertionError, match="real bank"):
        drain(world.app)


def test_a_recorder_without_a_class_takes_any_method_as_a_coroutine() -> None:
    assert not Recorder().is_plain("anything")
    assert Recorder(Bank).is_plain("pay")
