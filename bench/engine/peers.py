"""One round with other job queues, on the peers' own server: hudhud joins their harness.

The harness is a folder outside this repository (its README says how it is set up); its scratch
directory is `$BENCH`, the folder itself `$PEERS_HARNESS`. hudhud takes part as `peer_hudhud.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

import psycopg

from bench.engine import environment, results
from bench.engine.measurement import Control, Target, middle
from bench.engine.process import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.engine.measurement import Measurement
    from bench.engine.output import Output

    Run = dict[str, float]

SERVER: Final = "postgresql://postgres@127.0.0.1:54321/postgres"
ROUNDS: Final = 3
OTHERS: Final = ("pgqueuer", "graphile")
TESTS: Final[Mapping[str, int | None]] = MappingProxyType({"drain": None, "latency": None})
RAW: Final = results.FOLDER / "peers.jsonl"
_VERSIONS: Final = """
import json, platform
from importlib.metadata import distributions
names = {"psycopg", "psycopg-binary", "asyncpg", "uvloop", "pgqueuer", "hudhud"}
found = {d.name.lower(): d.version for d in distributions()}
print(json.dumps({"python": platform.python_version()} | {n: found[n] for n in names & set(found)}))
"""


@dataclass(frozen=True, slots=True)
class Harness:
    """Where the harness and what it needs are."""

    folder: Path
    scratch: Path

    @property
    def environment(self) -> dict[str, str]:
        """What its programs are started with."""
        return {
            **os.environ,
            "BENCH": str(self.scratch),
            "PEERS_PATH": str(ROOT / "bench"),
            "PEERS_EXTRA": str(ROOT / "bench" / "peers.json"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def prepare(self) -> bool:
        """Start its server if it does not run, and set hudhud up beside the peers if need be.

        hudhud gets an environment of the same Python as the Python peers. Returns whether the
        server was started.
        """
        own = self.scratch / "v-hudhud"
        if not own.exists():
            python = self.scratch / "v" / "bin" / "python"
            _run([python, "-m", "venv", own])
            _run([own / "bin" / "python", "-m", "pip", "install", "--quiet", "-e", ROOT])
        try:
            psycopg.connect(SERVER).close()
        except psycopg.OperationalError:
            _run([self.folder / "pg_up.sh"], env=self.environment)
            return True
        return False

    def drive(self, test: str, tag: str, *, jobs: int | None = None) -> list[dict[str, object]]:
        """Run one of its tests for hudhud and the others; return the raw lines.

        Args:
            test: Its name in the harness.
            tag: Of this run.
            jobs: How many; None: what the harness has for each peer.

        Raises:
            RuntimeError: One of them failed; the message is the harness's.
        """
        peers = ",".join(("hudhud", *OTHERS))
        python = self.scratch / "v" / "bin" / "python"
        drive = ["drive.py", test, "--reps", ROUNDS, "--peers", peers, "--tag", tag]
        drive += ["--jobs", jobs] if jobs else []
        _run([python, *map(str, drive)], cwd=self.folder, env=self.environment)
        lines = (self.scratch / "results" / "peers.jsonl").read_text("utf-8").splitlines()
        documents = [cast("dict[str, object]", json.loads(text)) for text in lines]
        runs = [run for run in documents if (run["tag"], run["test"]) == (tag, test)]
        if failed := [run for run in runs if "error" in run or run.get("complete") is False]:
            message = f"{failed[0]['peer']}: {failed[0].get('error', 'did not end in time')}"
            raise RuntimeError(message)
        return runs


def measure(out: Output, *, tests: Mapping[str, int | None] = TESTS) -> None:
    """Measure hudhud beside the others, if their harness is there.

    Args:
        out: Where figures go.
        tests: Of the harness, with how many jobs; None: what it has for each peer.
    """
    out.begin("peers")
    folder, scratch = os.environ.get("PEERS_HARNESS"), os.environ.get("BENCH")
    if not folder or not scratch:
        out.say("left out: PEERS_HARNESS and BENCH do not say where their harness is")
        return
    harness = Harness(Path(folder), Path(scratch))
    was_started = harness.prepare()
    try:
        with psycopg.connect(SERVER, autocommit=True) as connection:
            where = environment.read(connection) | {"libraries": _versions(harness)}
        tag = f"hudhud-{where['date']}"
        for test, jobs in tests.items():
            out.say(f"{test}, {ROUNDS} rounds")
            runs = harness.drive(test, tag, jobs=jobs)
            for run in runs:
                results.keep(run, RAW)
            for measurement in FIGURES[test](_by_peer(runs)):
                out.show(measurement, where)
    finally:
        if was_started:
            _run([harness.folder / "pg_down.sh"], env=harness.environment)


def drains(runs: Mapping[str, Sequence[Run]]) -> Iterator[Measurement]:
    """Return hudhud's drain against each of the others'."""
    bounds = {"pgqueuer": (2.0, 2.5), "graphile": (1.0, 1.25)}
    for peer, (target, goal) in bounds.items():
        yield middle(
            f"drain_{peer}",
            "jobs/s",
            _samples(runs, "hudhud", "rate"),
            against=Control(peer, _samples(runs, peer, "rate")),
            target=Target("ratio", ">=", target),
            goal=Target("ratio", ">=", goal),
            note="One worker process, no-op async handler, no unfinished job left at the end.",
            detail={
                figure: {name: _samples(runs, name, figure) for name in ("hudhud", peer)}
                for figure in ("worker_cpu_ms_per_1k", "pg_cpu_ms_per_1k", "rss_mb", "load_rate")
            },
        )


def pickups(runs: Mapping[str, Sequence[Run]]) -> Iterator[Measurement]:
    """Return hudhud's idle pick-up against the best of the others."""
    for figure in ("p50", "p99"):
        best = min(OTHERS, key=lambda peer: min(_samples(runs, peer, figure)))
        yield middle(
            f"pickup_{figure}_peers",
            "ms",
            _samples(runs, "hudhud", figure),
            against=Control(best, _samples(runs, best, figure)),
            goal=Target("ratio", "<=", 1.0) if figure == "p50" else None,
            note="Idle queue, one job every 50 ms, from the return of the enqueue.",
            detail={name: _samples(runs, name, figure) for name in ("hudhud", *OTHERS)},
        )


FIGURES: Final = MappingProxyType({"drain": drains, "latency": pickups})


def _by_peer(runs: Sequence[Mapping[str, object]]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        found[str(run["peer"])].append(cast("Run", run))
    return found


def _samples(runs: Mapping[str, Sequence[Run]], peer: str, figure: str) -> list[float]:
    return [run[figure] for run in runs[peer]]


def _versions(harness: Harness) -> dict[str, object]:
    """Return the versions of everything that takes part."""
    found: dict[str, object] = {}
    for name in ("v", "v-hudhud"):
        python = harness.scratch / name / "bin" / "python"
        said = subprocess.run(
            [python, "-c", _VERSIONS], check=True, capture_output=True, text=True
        ).stdout
        found |= json.loads(said)
    package = harness.scratch / "node" / "node_modules" / "graphile-worker" / "package.json"
    return found | {"graphile-worker": json.loads(package.read_text("utf-8"))["version"]}


def _run(
    words: Sequence[object], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    """Run a program; what it says goes to stderr, where progress is."""
    subprocess.run([str(word) for word in words], cwd=cwd, env=env, check=True, stdout=2)
