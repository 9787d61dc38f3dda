"""`hudhud up`: everything on this machine, from nothing, until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import getpass
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import psycopg
import typer

from hudhud.cli import proofs
from hudhud.cli.database import configured, ground, session
from hudhud.cli.keys import make_key
from hudhud.cli.options import DatabaseUrl
from hudhud.cli.output import note
from hudhud.cli.supervisor import WATCH_SECONDS, Child, Supervisor
from hudhud.errors import ConfigError
from hudhud.store import keys

if TYPE_CHECKING:
    from collections.abc import Generator

    from hudhud.cli.database import Ground
    from hudhud.config import Config

DEMO = "documents"
DEMO_APP = f"examples.{DEMO}.app:app"
SCOPES = ["enqueue", "read", "operate"]
GRACE_SECONDS = 15.0
"""What the API may take beyond the worker's own limit before it is killed."""


def up(
    *,
    host: Annotated[str | None, typer.Option(help="Address of the API.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the API.")] = None,
    demo: Annotated[bool, typer.Option(help="Play the demo first.")] = True,
    database_url: DatabaseUrl = None,
) -> None:
    """Start everything on this machine: database, schema, demo, API, worker; stop with Ctrl-C."""
    config = configured(
        arguments={"http.host": host, "http.port": port, "database_url": database_url}
    )
    _require_free(config.http.host, config.http.port)
    with ground(config, joins=False) as found:
        if demo:
            _play(found.url)
        with _key(found.url) as key:
            _tell(config, found.url, key)
            code = asyncio.run(_stay(config, found))
    raise typer.Exit(code)


def _play(url: str) -> None:
    if not proofs.is_here(f"examples.{DEMO}"):
        note("no demo: it comes with the repository")
    elif proofs.play(DEMO, url) != 0:
        note("The demo failed; see above. `hudhud up --no-demo` starts without it.")
        raise typer.Exit(1)


def _require_free(host: str, port: int) -> None:
    """Find out now, and not after the demo, that the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            message = f"Port {port} of {host} is taken. Choose another one: hudhud up --port 8001."
            raise ConfigError(message) from error


@contextmanager
def _key(url: str) -> Generator[str]:
    """Give an API key that holds as long as we are up."""
    actor = getpass.getuser()
    with session(url) as opened:
        key_id, key = make_key(opened, "hudhud up", "default", scopes=SCOPES, actor=actor)
    try:
        yield key
    finally:
        with (
            suppress(psycopg.OperationalError),  # the database went first, and the key with it
            session(url) as opened,
        ):
            opened.call(keys.revoke_key(key_id, actor=actor))


async def _stay(config: Config, found: Ground) -> int:
    supervisor = Supervisor(
        _children(config, found.url), stop_seconds=config.worker.stop_seconds + GRACE_SECONDS
    )
    keeper = asyncio.create_task(_keep(found))
    keeper.add_done_callback(lambda _: supervisor.stop())
    code = await supervisor.run()
    if keeper.done():
        await keeper  # raises why there is no database any more
    keeper.cancel()
    return code


async def _keep(found: Ground) -> None:
    """Start our PostgreSQL again whenever it died; the children find it where it was."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        if found.is_gone:
            note("PostgreSQL died and is started again.")
            await asyncio.to_thread(found.restore)


def _children(config: Config, url: str) -> list[Child]:
    environment = {"HUDHUD_DATABASE_URL": url}
    http = ["--host", config.http.host, "--port", str(config.http.port)]
    children = [Child("API", ["serve", *http], environment)]
    if config.app is not None:
        children.append(Child("worker", ["worker", config.app], environment))
    elif proofs.is_here(f"examples.{DEMO}"):
        path = {"PYTHONPATH": str(proofs.ROOT)}
        children.append(Child("worker", ["worker", DEMO_APP], {**environment, **path}))
    else:
        note('No worker: name your application as app = "shop:app" in [tool.hudhud].')
    return children


def _tell(config: Config, url: str, key: str) -> None:
    face = f"http://{config.http.host}:{config.http.port}"
    for name, value in (
        ("API", f"{face}/v1/jobs"),
        ("reference", f"{face}/openapi.json"),
        ("metrics", f"{face}/metrics"),
        ("database", url),
        ("key", f"{key}   (tenant default, until this stops)"),
        ("try", f"curl -H 'Authorization: Bearer {key}' {face}/v1/jobs"),
        ("stop", "Ctrl-C"),
    ):
        typer.echo(f"{name.ljust(11)}{value}")
