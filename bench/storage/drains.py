"""Claim and finish until nothing is left, on one connection."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import uvloop

from storage.drivers import DRIVERS
from storage.mark import Mark
from storage.world import LANE, QUEUE, TENANT

WORKER = UUID("00000000-0000-7000-8000-000000000001")


@dataclass(frozen=True, slots=True)
class Steps:
    """How one layout claims and finishes; where its scan starts.

    A claim's answer begins with top, xid, xmin and count; the two columns after them are what the
    finish takes back.
    """

    start: object
    claim: str
    finish: str


# ruff: noqa: S608 - the words put in are the constants above
STEPS = {
    "ledger": Steps(
        0,
        f"""select tops[1], xid, xmin, counts[1], array[lease_id], null,
          job_ids, runs, attempts, types, payloads
        from probe.claim($1::uuid, '{QUEUE}', array[{LANE}::smallint], array['{TENANT}'],
          array[$2::bigint], array[$3::int])""",
        "select probe.finish($1::uuid[]) where $2::text is null",
    ),
    "in_place": Steps(
        UUID(int=0),
        f"""select top, xid, xmin, cardinality(job_ids), job_ids, lease_id,
          runs, attempts, types, payloads
        from probe.claim($1::uuid, '{QUEUE}', {LANE}::smallint, '{TENANT}', $2::uuid, $3::int)""",
        "select probe.finish($1::uuid[], $2::uuid)",
    ),
    "running_rows": Steps(
        0,
        f"""select top, xid, xmin, cardinality(job_ids), job_ids, runs, attempts, types, payloads
        from probe.claim($1::uuid, '{QUEUE}', {LANE}::smallint, '{TENANT}', $2::bigint, $3::int)""",
        "select probe.finish($1::uuid[], $2::int[])",
    ),
}


@dataclass(slots=True)
class Drained:
    """Times of a drain: when each batch was finished, how long its claim and its finish took."""

    started: float
    client_cpu: float = 0.0
    batches: list[tuple[float, int]] = field(default_factory=list)
    claims: list[float] = field(default_factory=list)
    finishes: list[float] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Jobs per second, client CPU (µs per job), a claim and a finish (ms, median)."""
        jobs = sum(count for _, count in self.batches)
        fifth = max(2, len(self.batches) // 5)
        return {
            "jobs": jobs,
            "rate": jobs / (self.batches[-1][0] - self.started),
            "first_fifth": rate(self.batches[:fifth]),
            "last_fifth": rate(self.batches[-fifth:]),
            "client_us": self.client_cpu * 1e6 / jobs,
            "claim_ms": sorted(self.claims)[len(self.claims) // 2] * 1e3,
            "finish_ms": sorted(self.finishes)[len(self.finishes) // 2] * 1e3,
            "look_ms_max": max(self.looks, default=0.0) * 1e3,
        }


def rate(batches: list[tuple[float, int]]) -> float:
    """Jobs per second over a part of a drain."""
    seconds = batches[-1][0] - batches[0][0]
    return sum(count for _, count in batches[1:]) / seconds if seconds else 0.0


async def _drain(layout: str, driver: str, batch: int) -> Drained:
    steps, session = STEPS[layout], await DRIVERS[driver]()
    mark: Mark[Any] = Mark(steps.start)
    drained, cpu = Drained(time.perf_counter()), time.process_time()
    while True:
        began, at = time.perf_counter(), mark.get()
        rows = await session.fetch(steps.claim, WORKER, at, batch)
        if not rows:
            if at == mark.start:
                break
            mark.next_look = 0.0
            continue
        top, xid, xmin, count, *given = rows[0]
        mark.seen(top, xid, xmin)
        middle = time.perf_counter()
        ended = (await session.fetch(steps.finish, given[0], given[1]))[0][0]
        assert ended == count, (ended, count)
        now = time.perf_counter()
        drained.claims.append(middle - began)
        drained.finishes.append(now - middle)
        drained.batches.append((now, count))
    drained.client_cpu, drained.looks = time.process_time() - cpu, mark.looks
    await session.close()
    return drained


def drain(layout: str, driver: str = "asyncpg", *, batch: int = 500) -> Drained:
    """Claim and finish batches until nothing is left."""
    return uvloop.run(_drain(layout, driver, batch))
