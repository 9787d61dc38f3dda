"""`hudhud worker`: run jobs, in this process or in several that are kept alive."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudhud.cli.database import configured
from hudhud.cli.options import ConfigFile, DatabaseUrl
from hudhud.cli.supervisor import Child, Supervisor
from hudhud.cli.work import work
from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from hudhud.config import Config

GRACE_SECONDS = 5.0
"""What a worker may take beyond its own limit before the supervisor kills it."""


def worker(  # noqa: PLR0913 - one parameter for each option
    app: Annotated[
        str | None, typer.Argument(help="Your application: shop.jobs:app", show_default=False)
    ] = None,
    *,
    queues: Annotated[
        str | None, typer.Option(help="Names with commas; default: those of the handlers.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="Async handlers at once.")] = None,
    processes: Annotated[int | None, typer.Option(help="Processes, kept alive.")] = None,
    health_port: Annotated[
        int | None, typer.Option(help="Serve /healthz, /readyz and /metrics here, +1 per process.")
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Development: restart when a Python file changes.")
    ] = False,
    config_file: ConfigFile = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C; what runs then may go on for worker.stop_seconds."""
    config = configured(
        config_file,
        arguments={
            "app": app,
            "database_url": database_url,
            "worker.queues": None if queues is None else _named(queues),
            "worker.concurrency": concurrency,
            "worker.processes": processes,
            "worker.health_port": health_port,
        },
    )
    if config.worker.processes == 1 and not reload:
        raise typer.Exit(work(config))
    supervisor = Supervisor(
        [_child(config, config_file, number) for number in range(config.worker.processes)],
        stop_seconds=config.worker.stop_seconds + GRACE_SECONDS,
        watched=Path.cwd() if reload else None,
    )
    raise typer.Exit(asyncio.run(supervisor.run()))


def _named(queues: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in queues.split(",") if name.strip())
    if not names:
        message = "--queues names no queue; leave it out, or write --queues default,bank."
        raise ConfigError(message)
    return names


def _child(config: Config, config_file: Path | None, number: int) -> Child:
    """Return one worker of several; it reads the same file and environment that we did."""
    settings = config.worker
    given = {
        "--config": config_file,
        "--queues": ",".join(settings.queues) if "worker.queues" in config.origins else None,
        "--concurrency": settings.concurrency,
        "--processes": 1,
        "--health-port": settings.health_port and settings.health_port + number,
    }
    options = [
        word
        for option, value in given.items()
        if value is not None
        for word in (option, str(value))
    ]
    # In its environment, for everybody can read a command line.
    url = {"HUDHUD_DATABASE_URL": config.database_url} if config.database_url else {}
    named = [config.app] if config.app else []
    return Child(f"worker {number + 1}", ["worker", *named, *options], url)
