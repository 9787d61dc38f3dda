"""R39: stopped after the effect's commit and before the acknowledgement, and delivered again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hudhud import failpoint
from hudhud.worker.provider import Provider
from tests.support.application import Application, working
from tests.support.bank import Bank
from tests.support.jobs import Jobs, watching

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from hudhud.worker.context import Context


class StoppedError(Exception):
    """The worker gets no further than this point."""


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


@pytest.fixture(autouse=True)
def nothing_armed() -> Iterator[None]:
    yield
    failpoint.disarm()


def stop_at(point: str, reached: list[str]) -> None:
    """Let the first run that comes by a point be stopped there."""

    def stop() -> None:
        reached.append(point)
        if len(reached) == 1:
            raise StoppedError

    failpoint.arm(point, stop)


async def test_an_effect_in_the_database_happens_once_and_stays_visible(
    database: str, jobs: Jobs
) -> None:
    application, reached, runs = Application(), list[str](), list[int]()
    await jobs.connection.execute("create table paid (job_id uuid)")

    @application.handler("pay")
    async def pay(ctx: Context) -> None:
        runs.append(ctx.run)
        async with ctx.transaction(result={"number": 1}) as connection:
            await connection.execute("insert into paid values (%s)", (ctx.job_id,))

    stop_at("transaction.committed", reached)
    async with working(application, database):
        job = await jobs.add("pay")
        assert await jobs.until_ended(job) == ["succeeded"]
        await jobs.lose_all()
        await jobs.until("select count(*) = 0 from hudhud.lease")
    assert reached == ["transaction.committed"]
    assert runs == [1]
    assert await jobs.rows("select job_id from paid") == [(job,)]
    assert [end.outcome for end in await jobs.ends(job)] == ["succeed"]
    assert await jobs.result(job) == {"number": 1}


@pytest.mark.parametrize("point", ["effect.recorded", "finish.asked"])
async def test_an_effect_outside_happens_once_and_its_result_is_kept(
    database: str, jobs: Jobs, point: str
) -> None:
    bank, application, reached, runs = Bank(), Application(), list[str](), list[int]()
    provider = Provider("bank", bank.opened, reconcile=Bank.find)
    application.providers.append(provider)

    @application.handler("pay")
    async def pay(ctx: Context) -> object:
        runs.append(ctx.run)
        async with ctx.effect("pay", provider) as effect:
            effect.result = await effect.provider.pay(7, key=effect.key)
        return effect.result

    stop_at(point, reached)
    async with working(application, database):
        job = await jobs.add("pay")
        await jobs.until("select count(*) = 1 from hudhud.effect where state = 'done'")
        await jobs.lose_all()
        assert await jobs.until_ended(job) == ["succeeded"]
    assert reached[0] == point
    assert len(bank.ledger) == 1
    assert await jobs.result(job) == {"number": 1}
    assert await jobs.value("select count(*) from hudhud.effect where sends > 1") == 0
