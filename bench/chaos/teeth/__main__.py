"""Plant each fault and see whether it is noticed: `python -m bench.chaos.teeth [NAME …] --json`."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.chaos.finding import Breach
from bench.chaos.options import Options
from bench.chaos.run import run
from bench.chaos.server import Server
from bench.chaos.teeth.catalogue import TEETH

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from bench.chaos.teeth.tooth import Tooth

ROOT: Final = Path(__file__).resolve().parents[3]
SECONDS: Final = 25.0  # for the faults from outside
DRAIN_SECONDS: Final = 7.0
WORKERS: Final = 3
JOBS_PER_SECOND: Final = 60.0
# Once one of these is found, nothing that is still under way can make it good.
CERTAIN: Final = frozenset(
    breach.value
    for breach in (
        *(Breach.DOUBLED, Breach.OVERLAP, Breach.STALE_FINISH, Breach.EARLY_RESCUE),
        *(Breach.EVENTS_DOUBLED, Breach.EVENTS_REORDERED),
    )
)
TOOTH_SECONDS_MAX: Final = 120.0
AT_ONCE: Final = 2
SEED: Final = 1  # an odd one: the ledger knows nothing again
TRIES: Final = 3
NOTHING: Final = "nothing"
"""Name of the run in which no fault is planted: nothing may be found in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try teeth; 0 if each was noticed, and nothing where nothing was planted."""
    asked = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if asked.one is not None:
        print(json.dumps(try_one(asked.one, asked.seed, asked.template)))
        return 0
    names: list[str] = asked.names or [NOTHING, *TEETH]
    seed: int = asked.seed
    began = time.monotonic()
    with _template() as template, ThreadPoolExecutor(asked.at_once) as pool:
        futures = [pool.submit(until_noticed, name, seed, template) for name in names]
        tried = [future.result() for future in futures]
    is_good = all(told["is_good"] for told in tried)
    document = {
        "teeth": len(tried) - (NOTHING in names),
        "noticed": sum(told["is_good"] and told["name"] != NOTHING for told in tried),
        "missed": [told["name"] for told in tried if not told["is_good"]],
        "tried": tried,
        "seconds": round(time.monotonic() - began, 1),
    }
    if asked.json:
        print(json.dumps(document))
    return 0 if is_good else 1


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    found = argparse.ArgumentParser(prog="python -m bench.chaos.teeth", description=__doc__)
    found.add_argument("names", nargs="*", metavar="NAME", help="of planted faults; default: all")
    found.add_argument("--seed", type=int, default=SEED)
    found.add_argument("--at-once", type=int, default=AT_ONCE)
    found.add_argument("--one", metavar="NAME", help="try one, in this process")
    found.add_argument("--template", type=Path, help="a server's directory to begin with")
    found.add_argument("--json", action="store_true")
    return found


def until_noticed(name: str, seed: int, template: Path) -> dict[str, Any]:
    """Try one fault in a process of its own; a fault that chance spared is tried again."""
    told: dict[str, Any] = {}
    for turn in range(TRIES):
        # The same kind of ledger, another choice of everything else.
        told = _in_process(name, seed + 2 * turn, template) | {"tries": turn + 1}
        if told["is_good"] or name == NOTHING:
            break
    sys.stderr.write(_line(told))
    return told


def try_one(name: str, seed: int, template: Path | None) -> dict[str, Any]:
    """Run once with a fault planted, and say what was found."""
    tooth = TEETH.get(name)
    report = run(_options(tooth, seed, template))
    caught = sorted(tooth.caught(report)) if tooth else []
    return {
        "name": name,
        "is_good": bool(caught) if tooth else report.is_sound,
        "caught": caught,
        "findings": sorted({finding.breach.value for finding in report.findings}),
        "unexpected": list(report.unexpected)[:3],
        "words": [finding.words for finding in report.findings][:3],
        "seconds": round(report.seconds, 1),
    }


def _options(tooth: Tooth | None, seed: int, template: Path | None) -> Options:
    plain: dict[str, Any] = {"kills": 8, "drain_seconds": 60.0}
    if tooth is not None:
        plain = {
            "workers": WORKERS,
            "jobs_per_second": JOBS_PER_SECOND,
            "drain_seconds": DRAIN_SECONDS,
            "tooth": tooth.name,
            "watched": tooth.expects & CERTAIN,
            **tooth.options,
        }
    return Options(seed=seed, seconds=SECONDS, template=template, **plain)


@contextmanager
def _template() -> Generator[Path]:
    """Make a server that every run may begin with a copy of."""
    disk = Path("/var/tmp")  # noqa: S108 - a private directory is made in it
    with tempfile.TemporaryDirectory(
        prefix="hudhud-teeth-", dir=disk if disk.is_dir() else None
    ) as folder:
        directory = Path(folder) / "server"
        with Server(directory):
            pass
        yield directory


def _in_process(name: str, seed: int, template: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", "bench.chaos.teeth", "--one", name, "--seed", str(seed)]
    words += ["--template", str(template)]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            out, err = process.communicate(timeout=TOOTH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.terminate()  # it ends whatever it has started
            out, err = process.communicate()
    if process.returncode:
        sys.stderr.write(err)
        return {"name": name, "is_good": False, "caught": [], "failed": err[-2_000:]}
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def _line(told: dict[str, Any]) -> str:
    verdict = "noticed" if told["is_good"] else "MISSED"
    if told["name"] == NOTHING:
        verdict = "sound" if told["is_good"] else "NOT SOUND"
    caught = ", ".join(told["caught"])
    return f"{verdict:<9} {told['name']} ({told.get('seconds', 0):g} s): {caught}\n"


if __name__ == "__main__":
    sys.exit(main())
