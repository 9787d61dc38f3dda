"""Every bench of the engine, at a size of seconds: the figures mean nothing, but there are some."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import pytest

from bench.engine.__main__ import BENCHES, parser
from bench.engine.server import Server
from bench.engine.sizes import Size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support import server as support

TINY = Size(
    "tiny",
    rounds=1,
    drain_jobs=10_000,
    fed_jobs=80_000,
    fed_seconds=1,
    fed_rounds=1,
    clients=(2,),
    client_rounds=2,
    bulk_calls=1,
    beside_samples=3,
    pickups=3,
    connections=(2,),
    handler_jobs=400,
    effects=3,
    relay_events=2_500,
    backlog_jobs=2_000,
    history_jobs=440,
    soak_seconds=5,
)
FIELDS = {
    *("bench", "value", "unit", "samples", "ratio_to", "target", "met"),
    *("goal", "goal_met", "note", "detail", "size"),
}


@pytest.fixture(scope="module")
def measured(server: support.Server) -> Iterator[Server]:
    """Give a server to measure: the run's own."""
    found = Server(server.admin(), "hudhud", past_days=3)
    yield found
    found.close()


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_gives_figures_that_say_what_they_are(name: str, measured: Server) -> None:
    documents = [
        measurement.document({"size": "tiny"})
        for measurement in BENCHES[name](measured, TINY, lambda _: None)
    ]
    assert documents
    for document in documents:
        assert set(document) == FIELDS
        value = float(str(document["value"]))
        # A handler may start before the client that enqueued is given the processor again.
        assert value > 0 or (name in {"pickup", "publish"} and isfinite(value))
        assert (document["met"] is None) == (document["target"] is None)


def test_the_default_is_the_short_size_of_everything() -> None:
    asked = parser().parse_args([])
    assert (asked.size, asked.names, asked.json) == ("short", [], False)
