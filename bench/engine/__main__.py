"""Measure: `python -m bench.engine [NAME…] --size short|full|soak`; `hudhud bench` calls it."""

from __future__ import annotations

import argparse
import os
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bench.engine import (
    beside,
    bulk,
    drain,
    effect,
    environment,
    fed,
    handler,
    history,
    memory,
    peers,
    pickup,
    publish,
    relay,
    report,
    soak,
    transaction,
)
from bench.engine.output import Output
from bench.engine.server import server
from bench.engine.sizes import SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.engine.measurement import Measurement
    from bench.engine.server import Server
    from bench.engine.sizes import Size

    Measure = Callable[[Server, Size, Callable[[str], None]], Iterator[Measurement]]

ENGINE: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        "drain": drain.measure,
        "fed": fed.measure,
        "transaction": transaction.measure,
        "bulk": bulk.measure,
        "beside": beside.measure,
        "pickup": pickup.measure,
        "memory": memory.measure,
        "handler": handler.measure,
        "effect": effect.measure,
        "publish": publish.measure,
        "relay": relay.measure,
        "history": history.measure,
    }
)
BENCHES: Final[Mapping[str, Measure]] = MappingProxyType({**ENGINE, "soak": soak.measure})
WORDS: Final = ("engine", "peers", "report")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for; 0 unless something could not be measured."""
    asked = parser().parse_args(arguments)
    size = SIZES[asked.size]
    names = asked.names or default_names(size)
    if unknown := [name for name in names if name not in BENCHES and name not in WORDS]:
        known = ", ".join((*WORDS, *BENCHES))
        sys.stderr.write(f"no bench {unknown[0]!r}; there are {known}\n")
        return 2
    keeps = size.name != "short" and not asked.database_url
    out = Output(size.name, as_json=asked.json, keeps=keeps)
    chosen = [one for name in names for one in (ENGINE if name == "engine" else [name])]
    run_engine(
        [name for name in chosen if name in BENCHES], size, out, database_url=asked.database_url
    )
    if "peers" in chosen:
        peers.measure(out)
    if keeps or "report" in chosen:
        report.write()
    return 0


def default_names(size: Size) -> list[str]:
    """Return what a size measures when nothing is named."""
    match size.name:
        case "short":
            return ["engine"]
        case "soak":
            return ["soak"]
        case _:
            return ["engine", "peers"]


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    found = argparse.ArgumentParser(prog="hudhud bench", description=__doc__)
    found.add_argument("names", nargs="*", help=f"of {', '.join((*WORDS, *BENCHES))}")
    found.add_argument("--size", choices=SIZES, default="short")
    found.add_argument("--json", action="store_true")
    found.add_argument("--database-url", default=os.environ.get("BENCH_DATABASE_URL"))
    return found


def run_engine(names: Sequence[str], size: Size, out: Output, *, database_url: str | None) -> None:
    """Measure what needs a server of our own."""
    if not names:
        return
    with server(database_url) as measured:
        with measured.admin() as connection:
            where = environment.read(connection)
        for name in names:
            out.begin(name)
            for measurement in BENCHES[name](measured, size, out.say):
                out.show(measurement, where)


if __name__ == "__main__":
    sys.exit(main())
