"""Laws of `ctx.effect()`: what it changes outside happens once, whatever dies around it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import pytest

from hudhud import NotSent, Permanent, Refused, Retryable, RetryPolicy, Snooze, TryLater, failpoint
from hudhud.worker.provider import Provider
from tests.support.application import Application, working
from tests.support.bank import Bank, LostReplyError
from tests.support.gates import Gates, ThreadGates
from tests.support.jobs import Ended, Jobs, watching
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from uuid import UUID

    from hudhud.worker.context import Context
    from tests.support.told import Told

EFFECTS = "select name, state, sends from hudhud.effect order by id"
# So long that nothing runs again before the test says so.
LATER = RetryPolicy(base_seconds=86_400, delay_seconds_max=86_400)
NOW: dict[str, Any] = {"send_seconds": 5.0, "settle_seconds": 0.0}


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


@pytest.fixture
def bank() -> Iterator[Bank]:
    yield Bank()
    failpoint.disarm()


class World:
    """An application whose one handler pays through one effect."""

    def __init__(self, bank: Bank, reconcile: Any = Bank.find, **options: Any) -> None:  # noqa: ANN401
        self.bank = bank
        self.application = Application()
        self.provider = Provider("bank", bank.opened, reconcile=reconcile, **{**NOW, **options})
        self.application.providers.append(self.provider)
        self.results: list[Any] = []
        self.is_done: list[bool] = []

        @self.application.handler("pay", retry=LATER)
        async def pay(ctx: Context, amount: int) -> Any:  # noqa: ANN401 - a JSON value
            async with ctx.effect("pay", self.provider) as effect:
                effect.result = await effect.provider.pay(amount, key=effect.key)
            self.is_done.append(effect.is_done)
            self.results.append(effect.result)
            return effect.result


async def hurry(jobs: Jobs, job: UUID) -> None:
    """Let a scheduled run begin now."""
    await jobs.until("select count(*) > 0 from hudhud.scheduled where job_id = %s", job)
    await jobs.rows("select hudhud.reschedule(%s, null, actor => 'a test')", job)


async def test_an_effect_is_recorded_before_and_after_it(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)
    states: list[Any] = []

    @world.application.handler("look", retry=LATER)
    async def look(ctx: Context) -> None:
        async with ctx.effect("pay", world.provider) as effect:
            states.extend(await jobs.rows(EFFECTS))
            await effect.provider.pay(1, key=effect.key)

    async with working(world.application, database):
        job = await jobs.add("look")
        assert await jobs.until_ended(job) == ["succeeded"]
    assert states == [("pay", "intended", 1)]
    assert await jobs.rows(EFFECTS) == [("pay", "done", 1)]
    assert bank.ledger[0].key == f"{job}:pay"


async def test_the_result_is_kept_and_given_to_later_runs_without_a_call(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    """R39, outside: stopped after the effect and before the acknowledgement."""
    world, gates = World(bank), Gates()

    @world.application.handler("stop", retry=LATER)
    async def stop(ctx: Context) -> Any:  # noqa: ANN401 - a JSON value
        async with ctx.effect("pay", world.provider) as effect:
            effect.reference = "P-1"
            effect.result = await effect.provider.pay(7, key=effect.key)
        if ctx.run == 1:
            gates["recorded"].set()
            await gates["never"].wait()
        return [effect.result, effect.reference, effect.is_done]

    async with working(world.application, database):
        job = await jobs.add("stop")
        await gates["recorded"].wait()
        await jobs.lose_all()
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.result(job) == [{"number": 1}, "P-1", True]
    assert len(bank.ledger) == 1


@pytest.mark.parametrize(
    "error",
    [
        LostReplyError(),
        Permanent("not so sure"),
        Retryable("busy"),
        Snooze(1000),
        KeyError("surprise"),
        asyncio.CancelledError(),
        SystemExit(3),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_leaves_an_open_effect_makes_it_unknown_and_it_is_asked_after(
    database: str, jobs: Jobs, bank: Bank, *, error: BaseException
) -> None:
    world = World(bank)

    def lose() -> None:
        raise error

    bank.faults.append(lambda: lose)
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 5})
        await jobs.until_run_ended(job)
        assert await jobs.rows(EFFECTS) == [("pay", "unknown", 1)]
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 1
    assert bank.asked == [bank.ledger[0].key]
    assert world.results == [{"number": 1}]
    assert await jobs.rows(EFFECTS) == [("pay", "done", 1)]


async def test_an_unknown_effect_says_so_as_the_jobs_error(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)
    bank.lose_reply()
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 5})
        assert await jobs.until_run_ended(job) == Ended(1, 1, "retry", "effect_unknown")
        [[kind, text]] = await jobs.rows("select class, error from hudhud.outcome")
    assert kind == "unknown"
    assert "LostReplyError" in text


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotSent("no route"), "retryable", "not_sent"),
        (TryLater("busy", after_seconds=900), "retryable", "try_later"),
        (Refused("no such account"), "dead", "refused"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_provider_that_says_it_did_nothing_closes_the_effect(
    database: str, jobs: Jobs, bank: Bank, *, error: Exception, status: str, code: str
) -> None:
    world = World(bank, "none")
    bank.fail_with(error)
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 5})
        assert (await jobs.until_run_ended(job)).code == code
        assert await jobs.status(job) == status
        assert await jobs.rows(EFFECTS) == [("pay", "not_done", 1)]
        if status == "retryable":
            await hurry(jobs, job)
            assert await jobs.until_ended(job) == ["succeeded"]
            assert await jobs.rows(EFFECTS) == [("pay", "done", 2)]


async def test_what_fails_before_the_client_was_asked_for_was_not_sent(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank, "none")

    @world.application.handler("fall", retry=LATER)
    async def fall(ctx: Context) -> None:
        async with ctx.effect("pay", world.provider) as effect:
            if ctx.attempt == 1:
                message = "before anything was sent"
                raise KeyError(message)
            await effect.provider.pay(1, key=effect.key)

    async with working(world.application, database):
        job = await jobs.add("fall")
        assert (await jobs.until_run_ended(job)).code == "key_error"
        assert await jobs.rows(EFFECTS) == [("pay", "not_done", 1)]
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 1


async def test_a_handler_that_hides_the_failure_of_an_effect_does_not_succeed(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)

    @world.application.handler("hide", retry=LATER)
    async def hide(ctx: Context) -> str:
        try:
            async with ctx.effect("pay", world.provider) as effect:
                effect.result = await effect.provider.pay(1, key=effect.key)
        except LostReplyError:
            return "all is well"
        return f"paid {effect.result['number']}"

    bank.lose_reply()
    async with working(world.application, database):
        job = await jobs.add("hide")
        assert await jobs.until_run_ended(job) == Ended(1, 1, "retry", "effect_unknown")
        await hurry(jobs, job)
        await jobs.until_ended(job)
        assert await jobs.result(job) == "paid 1"
    assert len(bank.ledger) == 1


async def test_not_found_is_sent_again_only_after_it_has_settled(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    """R10. Until then the job waits, and its attempts are not used up."""
    world = World(bank, settle_seconds=3600.0)
    bank.fail_with(LostReplyError())
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 5})
        await jobs.until_run_ended(job)
        left = "select extract(epoch from reconcile_after - hudhud.clock()) from hudhud.effect"
        assert 3500 < await jobs.value(left) <= 3600
        await hurry(jobs, job)
        assert await jobs.until_run_ended(job, run=2) == Ended(2, 2, "snooze", "effect_settling")
        assert bank.asked == []
        await jobs.rows(
            "update hudhud.effect set send_before = clock_timestamp() - interval '1 hour',"
            " reconcile_after = clock_timestamp() - interval '1 hour' returning id"
        )
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.asked) == 1
    assert len(bank.ledger) == 1
    assert await jobs.rows(EFFECTS) == [("pay", "done", 2)]
    assert [end.attempt for end in await jobs.ends(job)] == [1, 2, 2]


@pytest.mark.parametrize("offer", ["dedups", "replaces"])
async def test_a_provider_that_knows_the_key_again_gets_the_same_key(
    database: str, jobs: Jobs, bank: Bank, *, offer: Literal["dedups", "replaces"]
) -> None:
    world = World(bank, offer)
    bank.lose_reply()
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 5})
        await jobs.until_run_ended(job)
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert {payment.key for payment in bank.ledger} == {f"{job}:pay"}
    assert len(bank.ledger) == 2
    assert await jobs.rows(EFFECTS) == [("pay", "done", 2)]


@pytest.mark.parametrize(
    "error",
    [TryLater("busy", after_seconds=900), Refused("no"), NotSent("no route")],
    ids=lambda error: type(error).__name__,
)
async def test_that_a_second_send_was_not_done_says_nothing_about_the_first(
    database: str, jobs: Jobs, bank: Bank, *, error: Exception
) -> None:
    world = World(bank, "dedups")
    bank.lose_reply()
    bank.fail_with(error)
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 5})
        await jobs.until_run_ended(job)
        await hurry(jobs, job)
        assert await jobs.until_run_ended(job, run=2) == Ended(2, 2, "retry", "effect_unknown")
        assert await jobs.rows(EFFECTS) == [("pay", "unknown", 2)]
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert await jobs.rows(EFFECTS) == [("pay", "done", 3)]


@pytest.mark.parametrize(("decision", "payments"), [("done", 1), ("not_done", 2)])
async def test_where_nobody_can_be_asked_an_operator_decides(
    database: str, jobs: Jobs, bank: Bank, *, decision: str, payments: int
) -> None:
    world = World(bank, "none")
    bank.lose_reply()
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 5})
        await jobs.until_run_ended(job)
        await hurry(jobs, job)
        held = await jobs.until_run_ended(job, run=2)
        assert held == Ended(2, 2, "snooze", "effect_unknown")
        [[status, waiting_for]] = await jobs.rows(
            "select status, waiting_for from hudhud.job_status where id = %s", job
        )
        assert (status, waiting_for) == ("pending", "hold")
        assert len(bank.ledger) == 1
        freed = await jobs.value(
            "select hudhud.decide_effect(id, %s, 'ann', 'rang the bank',"
            " result => case %s when 'done' then '{\"number\": 1}'::jsonb end) from hudhud.effect",
            decision,
            decision,
        )
        assert freed == 1
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == payments
    assert await jobs.result(job) == {"number": payments}
    assert await jobs.rows(
        "select actor, reason from hudhud.audit where action = 'effect.decide'"
    ) == [("ann", "rang the bank")]


async def test_a_repeat_is_possible_where_the_policy_says_so(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank, "none")

    @world.application.handler("repeat", retry=LATER)
    async def repeat(ctx: Context) -> None:
        async with ctx.effect("pay", world.provider, repeats=True) as effect:
            await effect.provider.pay(1, key=effect.key)

    bank.lose_reply()
    async with working(world.application, database):
        job = await jobs.add("repeat")
        await jobs.until_run_ended(job)
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 2


async def test_the_same_key_for_another_request_is_refused_for_good(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)

    @world.application.handler("own", retry=LATER)
    async def own(ctx: Context, amount: int, note: str) -> None:
        ctx.log(note)
        async with ctx.effect(
            "pay", world.provider, key="order-7", request={"amount": amount}
        ) as effect:
            await effect.provider.pay(amount, key=effect.key)

    async with working(world.application, database):
        first = await jobs.add("own", {"amount": 5, "note": "a"})
        assert await jobs.until_ended(first) == ["succeeded"]
        same = await jobs.add("own", {"amount": 5, "note": "b"})
        assert await jobs.until_ended(same) == ["succeeded"]
        other = await jobs.add("own", {"amount": 6, "note": "a"})
        assert await jobs.until_ended(other) == ["dead"]
        assert await jobs.code(other) == "effect_mismatch_error"
        elsewhere = await jobs.add("own", {"amount": 6, "note": "a"}, tenant_id="other")
        assert await jobs.until_ended(elsewhere) == ["succeeded"]
    assert [payment.key for payment in bank.ledger] == ["default:order-7", "other:order-7"]


async def test_a_replay_does_not_do_again_what_was_done(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)

    @world.application.handler("half", retry=LATER)
    async def half(ctx: Context) -> None:
        async with ctx.effect("pay", world.provider) as effect:
            await effect.provider.pay(1, key=effect.key)
        if ctx.root_id == ctx.job_id:
            message = "the second half fails"
            raise Permanent(message)

    async with working(world.application, database):
        job = await jobs.add("half")
        assert await jobs.until_ended(job) == ["dead"]
        replay = await jobs.value("select hudhud.replay(%s, 'ann', 'mended')", job)
        assert await jobs.until_ended(replay) == ["succeeded"]
    assert len(bank.ledger) == 1


async def test_a_time_limit_inside_an_open_effect_is_unknown(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world, gates = World(bank), Gates()

    @world.application.handler("slow", timeout_seconds=0.3, retry=LATER)
    async def slow(ctx: Context) -> Any:  # noqa: ANN401 - a JSON value
        async with ctx.effect("pay", world.provider) as effect:
            effect.result = await effect.provider.pay(1, key=effect.key)
            await gates["never"].wait()
        return effect.result

    async with working(world.application, database):
        job = await jobs.add("slow")
        assert await jobs.until_run_ended(job) == Ended(1, 1, "retry", "effect_unknown")
        assert await jobs.rows(EFFECTS) == [("pay", "unknown", 1)]
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 1


async def test_what_is_too_late_is_not_sent(database: str, jobs: Jobs, bank: Bank) -> None:
    world = World(bank, "none")

    @world.application.handler("late", retry=LATER)
    async def late(ctx: Context) -> None:
        async with ctx.effect(
            "pay", world.provider, send_seconds=0.05 if ctx.run == 1 else 5
        ) as effect:
            await auntil(lambda: effect.send_seconds_left == 0 or ctx.run > 1)
            await effect.provider.pay(1, key=effect.key)

    async with working(world.application, database):
        job = await jobs.add("late")
        assert (await jobs.until_run_ended(job)).code == "not_sent"
        assert bank.ledger == []
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 1


async def test_a_cancellation_waits_for_the_end_of_an_open_effect(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world, gates = World(bank), Gates()
    names: list[str] = []

    @world.application.handler("both", retry=LATER)
    async def both(ctx: Context) -> None:
        for name in ("first", "second"):
            async with ctx.effect(name, world.provider) as effect:
                names.append(name)
                await effect.provider.pay(1, key=effect.key)
                gates["inside"].set()
                await gates["on"].wait()

    async with working(world.application, database) as worker:
        job = await jobs.add("both")
        await gates["inside"].wait()
        assert await jobs.cancel(job) == "requested"
        [context] = worker.runner.running
        await auntil(lambda: context.ending == "cancel")
        gates["on"].set()
        assert await jobs.until_ended(job) == ["cancelled"]
    assert names == ["first"]
    assert await jobs.rows(EFFECTS) == [("first", "done", 1)]


async def test_a_job_with_an_unknown_effect_is_cancelled_after_that_was_looked_into(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)
    bank.fail_with(LostReplyError())
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 5})
        await jobs.until_run_ended(job)
        await jobs.until("select count(*) = 1 from hudhud.scheduled")
        assert await jobs.cancel(job) == "requested"
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["cancelled"]
    assert bank.ledger == []
    assert len(bank.asked) == 1
    assert await jobs.rows(EFFECTS) == [("pay", "not_done", 1)]


async def test_a_worker_that_lost_its_lease_neither_sends_nor_counts(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world, gates = World(bank), Gates()

    @world.application.handler("stale", retry=LATER)
    async def stale(ctx: Context) -> None:
        if ctx.run == 1:
            gates["begun"].set()
            while not gates["on"].is_set():
                try:
                    await gates["on"].wait()
                except asyncio.CancelledError:
                    continue
        async with ctx.effect("pay", world.provider) as effect:
            await effect.provider.pay(ctx.run, key=effect.key)

    async with working(world.application, database):
        job = await jobs.add("stale")
        await gates["begun"].wait()
        await jobs.lose_all()
        assert await jobs.until_ended(job) == ["succeeded"]
        gates["on"].set()
    assert [payment.amount for payment in bank.ledger] == [2]


async def test_an_effect_may_be_used_by_a_plain_function(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank, Bank.find_now)

    @world.application.handler("plain", retry=LATER)
    def plain(ctx: Context) -> Any:  # noqa: ANN401 - a JSON value
        with ctx.effect("pay", world.provider) as effect:
            effect.result = effect.provider.pay_now(1, key=effect.key)
        return effect.result

    bank.lose_reply()
    async with working(world.application, database):
        job = await jobs.add("plain")
        assert await jobs.until_run_ended(job) == Ended(1, 1, "retry", "effect_unknown")
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.result(job) == {"number": 1}
    assert len(bank.ledger) == 1


async def test_a_result_that_cannot_be_kept_ends_the_job_and_the_effect_is_done(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)

    @world.application.handler("large", retry=LATER)
    async def large(ctx: Context) -> None:
        async with ctx.effect("pay", world.provider) as effect:
            await effect.provider.pay(1, key=effect.key)
            effect.result = "x" * 20_000

    async with working(world.application, database):
        job = await jobs.add("large")
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.code(job) == "result_refused"
    assert await jobs.rows(EFFECTS) == [("pay", "done", 1)]


async def test_secrets_in_a_result_are_not_kept(database: str, jobs: Jobs, bank: Bank) -> None:
    world = World(bank)

    @world.application.handler("secret", retry=LATER)
    async def secret(ctx: Context) -> None:
        async with ctx.effect("pay", world.provider) as effect:
            await effect.provider.pay(1, key=effect.key)
            effect.result = {"access_token": "t0p", "card": {"pin": 1, "last": "4242"}}

    async with working(world.application, database):
        job = await jobs.add("secret")
        assert await jobs.until_ended(job) == ["succeeded"]
    assert await jobs.value("select result from hudhud.effect") == {
        "access_token": "[secret]",
        "card": {"pin": "[secret]", "last": "4242"},
    }


async def test_the_database_may_be_away_when_the_end_is_recorded(
    database: str, jobs: Jobs, bank: Bank, *, told: Told
) -> None:
    world = World(bank, "none")

    @world.application.handler("cut", retry=LATER)
    async def cut(ctx: Context) -> None:
        async with ctx.effect("pay", world.provider) as effect:
            await effect.provider.pay(1, key=effect.key)
            await jobs.rows(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'hudhud handler' and pid <> pg_backend_pid()"
            )

    async with working(world.application, database):
        job = await jobs.add("cut")
        assert await jobs.until_ended(job) == ["succeeded"]
    assert await jobs.rows(EFFECTS) == [("pay", "done", 1)]
    assert told.of("effect.recorded")[0]["state"] == "done"


async def test_an_effect_and_a_transaction_keep_out_of_each_other(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)
    refusals: list[str] = []

    @world.application.handler("mixed", retry=LATER)
    async def mixed(ctx: Context) -> None:
        made_before = ctx.effect("before", world.provider)
        transaction = ctx.transaction()
        async with ctx.effect("pay", world.provider) as effect:
            await effect.provider.pay(1, key=effect.key)
            with pytest.raises(RuntimeError) as inside:
                await transaction.__aenter__()
            refusals.append(str(inside.value))
        async with ctx.transaction():
            with pytest.raises(RuntimeError) as within:
                await made_before.__aenter__()
            refusals.append(str(within.value))
        with pytest.raises(RuntimeError) as after:
            await made_before.__aenter__()
        refusals.append(str(after.value))

    async with working(world.application, database):
        job = await jobs.add("mixed")
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(refusals) == 3
    assert all(text.startswith("ctx.transaction() ends th") for text in refusals)
    assert await jobs.rows(EFFECTS) == [("pay", "done", 1)]


async def test_an_effect_is_not_entered_inside_another(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)

    @world.application.handler("nested", retry=LATER, max_attempts=1)
    async def nested(ctx: Context) -> None:
        async with ctx.effect("outer", world.provider), ctx.effect("inner", world.provider):
            pass

    async with working(world.application, database):
        job = await jobs.add("nested")
        assert await jobs.until_ended(job) == ["dead"]
        [[text]] = await jobs.rows("select error from hudhud.outcome")
    assert "inside the block of" in text
    assert await jobs.rows(EFFECTS) == [("outer", "not_done", 1)]


async def test_effects_beside_each_other_are_fine(database: str, jobs: Jobs, bank: Bank) -> None:
    world = World(bank)

    @world.application.handler("beside", retry=LATER)
    async def beside(ctx: Context) -> None:
        async def one(name: str) -> None:
            async with ctx.effect(name, world.provider) as effect:
                await effect.provider.pay(1, key=effect.key)

        await asyncio.gather(*(one(f"pay {n}") for n in range(5)))

    async with working(world.application, database):
        job = await jobs.add("beside")
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 5


async def test_a_loop_gives_each_turn_a_name_of_its_own(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)

    @world.application.handler("loop", retry=LATER, max_attempts=1)
    async def loop(ctx: Context) -> None:
        for _ in range(2):
            async with ctx.effect("pay", world.provider) as effect:
                await effect.provider.pay(1, key=effect.key)

    async with working(world.application, database):
        job = await jobs.add("loop")
        assert await jobs.until_ended(job) == ["dead"]
        [[text]] = await jobs.rows("select error from hudhud.outcome")
    assert "a name of its own" in text


@pytest.mark.parametrize("error", [NotSent("late"), TryLater("busy"), Refused("no")])
async def test_what_a_second_call_in_a_block_says_it_says_about_itself(
    database: str, jobs: Jobs, bank: Bank, *, error: Exception
) -> None:
    world = World(bank)

    @world.application.handler("twice", retry=LATER)
    async def twice(ctx: Context) -> Any:  # noqa: ANN401 - a JSON value
        async with ctx.effect("pay", world.provider) as effect:
            try:
                effect.result = await effect.provider.pay(1, key=effect.key)
            except LostReplyError:
                effect.result = await effect.provider.pay(1, key=effect.key)
        return effect.result

    bank.lose_reply()
    bank.fail_with(error)
    async with working(world.application, database):
        job = await jobs.add("twice")
        assert await jobs.until_run_ended(job) == Ended(1, 1, "retry", "effect_unknown")
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 1


async def test_the_client_is_handed_out_inside_the_block_only(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)

    @world.application.handler("outside", retry=LATER)
    async def outside(ctx: Context) -> None:
        effect = ctx.effect("pay", world.provider)
        with pytest.raises(RuntimeError, match="outside of its block"):
            effect.provider  # noqa: B018 - asking is what is refused
        async with effect:
            await effect.provider.pay(1, key=effect.key)
        with pytest.raises(RuntimeError, match="outside of its block"):
            effect.provider  # noqa: B018 - as above

    async with working(world.application, database):
        job = await jobs.add("outside")
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 1


async def test_a_task_group_in_the_block_of_what_is_done_is_skipped_like_any_code(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)

    @world.application.handler("group", retry=LATER)
    async def group(ctx: Context) -> str:
        async with ctx.effect("pay", world.provider) as effect, asyncio.TaskGroup() as tasks:
            tasks.create_task(effect.provider.pay(1, key=effect.key))
        if ctx.run == 1:
            message = "once more"
            raise Retryable(message)
        return "done"

    async with working(world.application, database):
        job = await jobs.add("group")
        await jobs.until_run_ended(job)
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 1


async def test_a_cancellation_reaches_the_run_and_not_only_a_task_of_its_group(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world, gates = World(bank), Gates()
    names: list[str] = []

    @world.application.handler("group", retry=LATER)
    async def group(ctx: Context) -> None:
        async def both() -> None:
            for name in ("first", "second"):
                async with ctx.effect(name, world.provider) as effect:
                    names.append(name)
                    await effect.provider.pay(1, key=effect.key)
                    gates["inside"].set()
                    await gates["on"].wait()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(both())

    async with working(world.application, database) as worker:
        job = await jobs.add("group")
        await gates["inside"].wait()
        assert await jobs.cancel(job) == "requested"
        [context] = worker.runner.running
        await auntil(lambda: context.ending == "cancel")
        gates["on"].set()
        assert await jobs.until_ended(job) == ["cancelled"]
    assert names == ["first"]


async def test_an_effect_of_another_provider_is_decided_by_an_operator(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world, other = World(bank), Bank()
    second = Provider("second-bank", other.opened, reconcile=Bank.find, **NOW)
    world.application.providers.append(second)

    @world.application.handler("either", retry=LATER)
    async def either(ctx: Context) -> None:
        provider = world.provider if ctx.run == 1 else second
        async with ctx.effect("pay", provider) as effect:
            await effect.provider.pay(1, key=effect.key)

    bank.lose_reply()
    async with working(world.application, database):
        job = await jobs.add("either")
        await jobs.until_run_ended(job)
        await hurry(jobs, job)
        held = await jobs.until_run_ended(job, run=2)
        assert held == Ended(2, 2, "snooze", "effect_unknown")
    assert other.ledger == []


async def test_a_provider_of_another_application_is_refused_before_anything_is_intended(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank)
    stranger = Provider("stranger", bank.opened)

    @world.application.handler("strange", retry=LATER, max_attempts=1)
    async def strange(ctx: Context) -> None:
        async with ctx.effect("pay", stranger) as effect:
            await effect.provider.pay(1, key=effect.key)

    async with working(world.application, database):
        job = await jobs.add("strange")
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.code(job) == "config_error"
    assert await jobs.rows(EFFECTS) == []


@pytest.mark.parametrize("words", [{"name": ""}, {"key": ""}, {"key": "a\0"}, {"name": "\ud800"}])
async def test_a_name_or_key_that_cannot_be_kept_is_refused(
    database: str, jobs: Jobs, bank: Bank, *, words: dict[str, str]
) -> None:
    world = World(bank)

    @world.application.handler("odd", retry=LATER, max_attempts=1)
    async def odd(ctx: Context) -> None:
        options: Any = {"key": words["key"]} if "key" in words else {}
        ctx.effect(words.get("name", "pay"), world.provider, **options)

    async with working(world.application, database):
        job = await jobs.add("odd")
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.code(job) == "value_error"


@pytest.mark.parametrize("reference", [7, "x" * 501, "a\0"])
async def test_a_reference_that_cannot_be_kept_ends_the_job_and_the_effect_is_done(
    database: str,
    jobs: Jobs,
    bank: Bank,
    *,
    reference: Any,  # noqa: ANN401 - also of a wrong type
) -> None:
    world = World(bank)

    @world.application.handler("refer", retry=LATER)
    async def refer(ctx: Context) -> None:
        async with ctx.effect("pay", world.provider) as effect:
            await effect.provider.pay(1, key=effect.key)
            effect.reference = reference

    async with working(world.application, database):
        job = await jobs.add("refer")
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.code(job) == "result_refused"
    assert await jobs.rows(EFFECTS) == [("pay", "done", 1)]


async def test_a_provider_that_does_not_know_itself_costs_no_attempt(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    asked: list[str] = []

    async def find(_: Bank, key: str) -> object:
        asked.append(key)
        if len(asked) == 1:
            raise TryLater(after_seconds=900)
        return {"number": 1}

    world = World(bank, find)
    bank.lose_reply()
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 1})
        await jobs.until_run_ended(job)
        await hurry(jobs, job)
        assert await jobs.until_run_ended(job, run=2) == Ended(2, 2, "snooze", "effect_settling")
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert [end.attempt for end in await jobs.ends(job)] == [1, 2, 2]


async def test_a_thread_that_is_given_up_inside_an_effect_leaves_it_unknown(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world, gates = World(bank, Bank.find_now), ThreadGates()

    @world.application.handler("stuck", timeout_seconds=0.3, retry=LATER)
    def stuck(ctx: Context) -> Any:  # noqa: ANN401 - a JSON value
        with ctx.effect("pay", world.provider) as effect:
            if ctx.run == 1:
                gates["on"].wait(60)
            effect.result = effect.provider.pay_now(1, key=effect.key)
        return effect.result

    async with working(world.application, database):
        job = await jobs.add("stuck")
        assert await jobs.until_run_ended(job) == Ended(1, 1, "retry", "effect_unknown")
        assert await jobs.rows(EFFECTS) == [("pay", "intended", 1)]
        gates["on"].set()
        await jobs.until("select count(*) = 1 from hudhud.effect where state = 'not_done'")
        assert bank.ledger == []
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 1


async def test_a_stop_inside_an_effect_gives_the_job_back_when_it_has_settled(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world, gates = World(bank, settle_seconds=1000.0), Gates()

    @world.application.handler("slow", retry=LATER)
    async def slow(ctx: Context) -> None:
        async with ctx.effect("pay", world.provider) as effect:
            await effect.provider.pay(1, key=effect.key)
            gates["inside"].set()
            await gates["never"].wait()

    async with working(world.application, database, stop_seconds=0.1):
        job = await jobs.add("slow")
        await gates["inside"].wait()
    assert await jobs.ends(job) == [Ended(1, 1, "hand_back", "interrupted")]
    assert await jobs.rows(EFFECTS) == [("pay", "unknown", 1)]
    left = "select extract(epoch from available_at - hudhud.clock()) from hudhud.scheduled"
    assert 900 < await jobs.value(left) <= 1000


async def test_a_run_that_is_stopped_while_it_intends_has_sent_nothing(
    database: str, jobs: Jobs, bank: Bank
) -> None:
    world = World(bank, "none")

    def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    failpoint.arm("effect.entered", cancel)
    async with working(world.application, database):
        job = await jobs.add("pay", {"amount": 5})
        await jobs.until_run_ended(job)
        failpoint.disarm()
        assert await jobs.rows(EFFECTS) == [("pay", "not_done", 1)]
        await hurry(jobs, job)
        assert await jobs.until_ended(job) == ["succeeded"]
    assert len(bank.ledger) == 1
