"""`hudhud serve`: the HTTP API."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer
import uvicorn

from hudhud.asgi import create_app
from hudhud.cli.database import configured, url_of
from hudhud.cli.options import DatabaseUrl
from hudhud.cli.supervisor import obey_supervisor

STOP_SECONDS = 10
"""How long requests may go on when the server is asked to stop; longer than any statement."""


def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request.")] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C."""
    config = configured(
        arguments={"http.host": host, "http.port": port, "database_url": database_url}
    )
    config = dataclasses.replace(config, database_url=url_of(config))
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(config),
            host=config.http.host,
            port=config.http.port,
            access_log=access_log,
            timeout_graceful_shutdown=STOP_SECONDS,
            server_header=False,
        )
    )
    obey_supervisor()
    server.run()
    if not server.started:
        raise typer.Exit(1)
