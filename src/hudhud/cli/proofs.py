"""`hudhud demo`, `bench` and `chaos`: what hudhud claims, shown on this machine.

They live beside the package, in the repository, because they bring their own libraries and their
own applications; a command here starts one as a program of its own and passes its exit code on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hudhud
from hudhud.cli.database import check_address, configured, ground
from hudhud.cli.options import DatabaseUrl, Json
from hudhud.cli.output import note
from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(hudhud.__file__).resolve().parents[2]
"""The repository, when the package is used from one."""
DEMOS = ("documents", "refunds")
"""The demos of `make demo`, each a package of examples/ that can be run."""
BENCH = "bench.engine"
CHAOS = "bench.chaos"

Size = Annotated[str, typer.Option(help="short, or full as docs/performance.md reports it.")]


def demo(  # noqa: PLR0913 - one parameter for each option
    names: Annotated[
        list[str] | None, typer.Argument(help=f"Of {', '.join(DEMOS)}; default: all.")
    ] = None,
    *,
    path: Annotated[
        list[Path] | None, typer.Option(help="Of documents: a file to analyse; may be repeated.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Of refunds: a file of them, instead of the one it has.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of refunds: of the bank's moods.", show_default=False)
    ] = None,
    size: Size = "short",
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Play demos once, each judged by what it should show; exit 0 or 1."""
    wanted = names or list(DEMOS)
    for name in wanted:
        if name not in DEMOS:
            message = f"is no demo; there are {', '.join(DEMOS)}"
            raise typer.BadParameter(message, param_hint="NAMES")
    own = {
        "documents": [str(one.resolve()) for one in path or []],
        "refunds": [*_option("--csv", csv and csv.resolve()), *_option("--seed", seed)],
    }
    _require_wanted(wanted, own)
    config = configured(arguments={"database_url": database_url})
    shared = ["--size", size, *(["--json"] if as_json else [])]
    with ground(config, joins=True) as found:
        codes = [play(name, found.url, [*shared, *own[name]]) for name in wanted]
    if any(codes):
        raise typer.Exit(1)


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="What to measure; default: all of that size.")
    ] = None,
    *,
    size: Annotated[str, typer.Option(help="short, full or soak.")] = "short",
    short: Annotated[bool, typer.Option("--short", help="The same as --size short.")] = False,
    as_json: Json = False,
    database_url: Annotated[
        str | None,
        typer.Option(help="A superuser's, on a server of this machine; default: one of its own."),
    ] = None,
) -> None:
    """Measure throughput and latency on this machine."""
    chosen = "short" if short else size
    options = [*(names or []), "--size", chosen, *(["--json"] if as_json else [])]
    check_address(database_url or "", "--database-url")
    # In its environment, for everybody can read a command line.
    url = {"BENCH_DATABASE_URL": database_url} if database_url else {}
    raise typer.Exit(run(BENCH, options, url))


def chaos(
    *,
    kills: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the random choices; the same, the same run.")] = 1,
    as_json: Json = False,
) -> None:
    """Kill workers and the database at work; exit 1 if anything is lost or doubled."""
    options = ["--kills", str(kills), "--seed", str(seed), *(["--json"] if as_json else [])]
    raise typer.Exit(run(CHAOS, options))


def play(name: str, url: str, options: Sequence[str] = ()) -> int:
    """Play one demo on a database and return its exit code."""
    note(f"demo {name}:")
    return run(f"examples.{name}", options, {"HUDHUD_DATABASE_URL": url})


def is_here(package: str) -> bool:
    """Whether a package of the repository can be run as a program."""
    return (ROOT / package.replace(".", "/") / "__main__.py").is_file()


def run(package: str, options: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run a package of the repository as a program and return its exit code.

    Raises:
        ConfigError: When it is not there, as in an installation without the repository.
    """
    if not is_here(package):
        message = f"{package} is not here: it comes with the repository, not with the package."
        raise ConfigError(message)
    return subprocess.run(
        [sys.executable, "-m", package, *options],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        check=False,
    ).returncode


def _option(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]


def _require_wanted(names: Sequence[str], options: Mapping[str, Sequence[str]]) -> None:
    """Refuse what was said to a demo that is not played."""
    for name, words in options.items():
        if words and name not in names:
            message = f"{words[0]} is for the demo {name}, which is not among {', '.join(names)}"
            raise typer.BadParameter(message)
