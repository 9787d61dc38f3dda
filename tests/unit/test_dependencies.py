"""What hudhud does not depend on: a broker. Decision 0014 says when that would change."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
_BROKER = re.compile(
    "kafka|rabbit|pika|amqp|kombu|celery|redis|valkey|dramatiq|huey|^rq$|nats|pulsar|stomp|mqtt"
    "|zmq|nsq|activemq|qpid|sqs|pubsub|servicebus|eventhub|boto|redpanda|beanstalk|gearman|zookeeper"
)


def declared() -> set[str]:
    """Return every dependency, those of extras and of development included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return {name(requirement) for one in lists for requirement in one}


def locked() -> set[str]:
    """Return everything that is installed for development, whoever asked for it."""
    lines = (ROOT / "requirements" / "dev.txt").read_text("utf-8").splitlines()
    return {name(line) for line in lines if _NAME.match(line)}


def name(requirement: str) -> str:
    found = _NAME.match(requirement)
    assert found, requirement
    return found[0].lower()


def test_no_client_of_a_broker_is_among_the_dependencies() -> None:
    assert "psycopg" in declared() & locked()
    assert [one for one in sorted(declared() | locked()) if _BROKER.search(one)] == []


def test_nothing_of_ours_imports_one() -> None:
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/**/*.py")]
    imports = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)
    imported = {
        found.lower() for one in sources for found in imports.findall(one.read_text("utf-8"))
    }
    assert "psycopg" in imported
    assert [one for one in sorted(imported) if _BROKER.search(one)] == []
