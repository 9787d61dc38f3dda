"""One worker in this process: find the application, run until a signal, stop in order."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import importlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from hudhud import telemetry
from hudhud.cli.database import CONNECT_SECONDS, check_address, url_of
from hudhud.cli.health import HealthPort
from hudhud.cli.supervisor import RESTART, obey_supervisor
from hudhud.errors import ConfigError
from hudhud.hudhud import Hudhud
from hudhud.store import migrate
from hudhud.worker.worker import Addresses, Worker

if sys.platform != "win32":
    import uvloop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudhud.config import Config

QUIET = frozenset({"run.finished", "relay.routed"})
"""Events that come with every batch; counted, not logged."""
STOPPING = "stopping: what runs may go on for %g s; a second signal interrupts it now"

_logger = logging.getLogger("hudhud.worker")


def work(config: Config) -> int:
    """Run a worker until SIGTERM or Ctrl-C and return the exit code.

    A second signal interrupts the handlers at once, a third one ends the process. 75 asks for a new
    process: this one has lost threads to handlers that do not return.

    Raises:
        ConfigError: No application is named, or it cannot be found, or has no handlers,
            or its database's address is none; or the health port cannot be had.
        SchemaError: The database's schema does not fit.
        psycopg.OperationalError: The database does not answer.
    """
    application = load(config.app)
    queues = queues_of(application, config)
    url = config.database_url or _url_of(application, config)
    with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
        migrate.require_current(connection)
    addresses = Addresses(url, config.direct_url or url)
    settings = dataclasses.replace(config.worker, queues=queues)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    telemetry.subscribe(_log)
    obey_supervisor()
    loop_factory = None if sys.platform == "win32" else uvloop.new_event_loop
    worker = Worker(application, addresses, settings)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        code = runner.run(_work(worker))
        if worker.runner.running:
            # Given up already; the loop would wait for a handler that ignores its cancellation.
            logging.shutdown()
            os._exit(code)
    return code


def load(name: str | None) -> Hudhud:
    """Return the application that a name like `shop.jobs:app` stands for.

    The working directory is searched first, as Python does for a script there.

    Raises:
        ConfigError: When there is no such module, or no application of that name in it. What the
            module itself raises when it is imported is its author's to see.
    """
    module_name, _, attribute = (name or "").partition(":")
    if not module_name or not attribute:
        message = (
            'Name your application: hudhud worker shop.jobs:app, or app = "shop.jobs:app" in'
            " [tool.hudhud] of pyproject.toml."
        )
        raise ConfigError(message)
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        message = f"There is no module {error.name} here or on Python's path ({name})."
        raise ConfigError(message) from error
    application: object = getattr(module, attribute, None)
    if not isinstance(application, Hudhud):
        message = f"{module_name} has no Hudhud application named {attribute}."
        raise ConfigError(message)
    return application


def queues_of(application: Hudhud, config: Config) -> tuple[str, ...]:
    """Return the queues to serve: those that were named, else those of the handlers.

    Raises:
        ConfigError: When there is nothing that a worker of them could ever do.
    """
    if not len(application.registry):
        message = (
            f"{config.app} has no handlers, and so nothing to run. Define one with @app.handler,"
            " or import the modules that do where the application is made."
        )
        raise ConfigError(message)
    if "worker.queues" not in config.origins:
        return tuple(sorted({handler.queue for handler in application.registry}))
    return config.worker.queues


def _url_of(application: Hudhud, config: Config) -> str:
    try:
        url = application.database_url
    except ConfigError:
        return url_of(config)
    check_address(url, f"The database's URL in the application ({config.app})")
    return url


async def _work(worker: Worker) -> int:
    settings = worker.config
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()

    def on_signal() -> None:
        if not signalled.is_set():
            signalled.set()
            worker.ask_to_stop()
            _logger.info(STOPPING, settings.stop_seconds)
            return
        worker.hurry()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)  # the next one takes its default way: the end

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    port = HealthPort(lambda: worker.is_ready)
    if settings.health_port is not None:
        await _open(port, settings.health_host, settings.health_port)
    try:
        await worker.run()
    finally:
        await port.close()
    return 0 if signalled.is_set() else RESTART


async def _open(port: HealthPort, host: str, number: int) -> None:
    try:
        taken = await port.open(host, number)
    except OSError as error:
        message = f"The health port cannot be opened: {error}"
        if error.errno == errno.EADDRINUSE:
            message = f"Port {number} of {host} is taken. Choose another --health-port."
        raise ConfigError(message) from error
    _logger.info("health port http://%s:%s", host, taken)


def _log(event: str, fields: Mapping[str, object]) -> None:
    if event in QUIET:
        return
    error = fields.get("error")
    told = " ".join(f"{name}={value}" for name, value in fields.items())
    _logger.log(logging.WARNING if error else logging.INFO, "%s %s", event, told)
