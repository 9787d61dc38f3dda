"""The configuration: one frozen tree, read once from file, environment and arguments.

Later wins: default, then the file (`hudhud.toml`, or `[tool.hudhud]` of `pyproject.toml`), then
the environment, then arguments. A key `worker.lease_seconds` is `HUDHUD_WORKER_LEASE_SECONDS` in
the environment. What must be equal for all clients (retention, the payload's size) is a row in the
database and not here.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Value: TypeAlias = "str | int | float | tuple[str, ...] | None"
Found: TypeAlias = "dict[str, tuple[Value, str]]"


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """How a worker process works. Numbers are per process."""

    queues: tuple[str, ...] = ("default",)
    processes: int = 1
    concurrency: int = 100  # async handlers at once
    threads: int = 16  # plain functions at once
    connections: int = 4  # for ctx.transaction(), at once; claims, ends and renewal have their own
    batch_jobs_max: int = 1000
    lease_seconds: int = 30
    poll_seconds_min: float = 0.002  # while jobs come thick
    poll_seconds_max: float = 0.05  # when idle and no hint comes
    stop_seconds: float = 25.0  # below the 30 s that orchestrators grant
    health_host: str = "127.0.0.1"
    health_port: int | None = None


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where the HTTP face listens."""

    host: str = "127.0.0.1"
    port: int = 8000


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration; read it with `load`."""

    database_url: str | None = field(default=None, repr=False)  # None: the embedded PostgreSQL
    direct_url: str | None = field(default=None, repr=False)  # past a pooler, for LISTEN
    embedded_directory: str | None = None
    app: str | None = None  # "shop.jobs:app"
    worker: WorkerConfig = WorkerConfig()
    http: HttpConfig = HttpConfig()
    origins: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    @property
    def listener_url(self) -> str | None:
        """Where to LISTEN: past the pooler if that was said, else the database's own URL."""
        return self.direct_url or self.database_url

    def explain(self) -> tuple[Setting, ...]:
        """Return every setting with its value and where that came from, secrets masked."""
        return tuple(
            Setting(
                key,
                mask(value) if isinstance(value, str) else value,
                self.origins.get(key, "default"),
            )
            for key, value in _leaves(self)
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of the configuration and its origin: "default", a file, a variable, "argument"."""

    key: str
    value: Value
    origin: str


LIMITS: Mapping[str, tuple[float, float]] = {
    "worker.processes": (1, 256),
    "worker.concurrency": (1, 10_000),
    "worker.threads": (1, 1_000),
    "worker.connections": (2, 100),
    "worker.batch_jobs_max": (1, 10_000),
    "worker.lease_seconds": (1, 3_600),
    "worker.poll_seconds_min": (0.001, 10),
    "worker.poll_seconds_max": (0.001, 60),
    "worker.stop_seconds": (0, 3_600),
    "worker.health_port": (0, 65_535),
    "http.port": (0, 65_535),
}


QUEUE_BYTES_MAX = 63


def load(
    path: Path | str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    arguments: Mapping[str, Value] | None = None,
) -> Config:
    """Read the configuration.

    Args:
        path: A TOML file. None: the nearest `hudhud.toml` or `pyproject.toml` from the working
            directory upwards, if there is one.
        env: The environment; None: the process's own.
        arguments: Dotted keys to values, as a command line gives them; None values are not given.

    Raises:
        ConfigError: For an unknown key (names the nearest), a wrong type, a value out of bounds,
            or a file that cannot be read.
    """
    found: Found = {}
    found.update(_from_file(Path(path) if path else _nearest_file()))
    found.update(_from_environment(os.environ if env is None else env))
    found.update(_from_arguments(arguments or {}))
    return _build(found)


def mask(text: str) -> str:
    """Return a connection string without its password."""
    text = re.sub(r"(://[^:/@]*:).*@", r"\1***@", text)
    return re.sub(r"(?i)(password\s*=\s*)('[^']*'|[^&\s]+)", r"\1***", text)


def _leaves(config: Config) -> Iterator[tuple[str, Value]]:
    for one in fields(config):
        value = getattr(config, one.name)
        if isinstance(value, (WorkerConfig, HttpConfig)):
            for leaf in fields(value):
                yield f"{one.name}.{leaf.name}", getattr(value, leaf.name)
        elif one.name != "origins":
            yield one.name, value


def _kinds() -> dict[str, str]:
    """Key to annotation, as written: "int", "float", "str", "str | None", "tuple[str, ...]"."""
    sections = (("", Config), ("worker.", WorkerConfig), ("http.", HttpConfig))
    return {
        prefix + one.name: str(one.type)
        for prefix, section in sections
        for one in fields(section)
        if prefix + one.name not in {"worker", "http", "origins"}
    }


_KINDS = _kinds()
_VARIABLES = {"HUDHUD_" + key.replace(".", "_").upper(): key for key in _KINDS}
# No settings: what an orchestrator injects for a service that is named hudhud…, and HUDHUD_TEST_…,
# which belongs to whoever runs tests.
_FOREIGN = re.compile(
    r"HUDHUD_(TEST_.*|(\w+_)?(SERVICE_(HOST|PORT)|PORT(_\d+_(TCP|UDP|SCTP))?)(_\w+)?)"
)


def _nearest_file() -> Path | None:
    here = Path.cwd()
    for directory in (here, *here.parents):
        for name in ("hudhud.toml", "pyproject.toml"):
            if (directory / name).is_file():
                return directory / name
    return None


def _from_file(path: Path | None) -> Found:
    if path is None:
        return {}
    try:
        table: dict[str, object] = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path} cannot be read: {error}. Correct it, or name another file."
        raise ConfigError(message) from error
    if path.name == "pyproject.toml":
        table = _table(_table(table.get("tool")).get("hudhud"))
    found: Found = {}
    for key, value in _flat(table):
        found[key] = (_checked(key, value, str(path)), str(path))
    return found


def _table(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _flat(table: dict[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            for inner, leaf in _table(cast("object", value)).items():
                yield f"{name}.{inner}", leaf
        else:
            yield name, value


def _from_environment(env: Mapping[str, str]) -> Found:
    found: Found = {}
    for variable, text in env.items():
        if not variable.startswith("HUDHUD_"):
            continue
        key = _VARIABLES.get(variable)
        if key is None:
            if _FOREIGN.fullmatch(variable):
                continue
            message = f"{variable} is no setting; the nearest is {_nearest(variable, _VARIABLES)}."
            raise ConfigError(message)
        found[key] = (_checked(key, _parsed(_KINDS[key], text), variable), variable)
    return found


def _from_arguments(arguments: Mapping[str, Value]) -> Found:
    given = {key: value for key, value in arguments.items() if value is not None}
    return {key: (_checked(key, value, "argument"), "argument") for key, value in given.items()}


def _parsed(kind: str, text: str) -> object:
    """Read an environment's text as what the key wants; what does not fit stays text."""
    if kind.startswith("tuple"):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return {"int": int, "float": float, "str": str}[_base(kind)](text)
    except ValueError:
        return text


def _checked(key: str, value: object, origin: str) -> Value:
    kind = _KINDS.get(key)
    if kind is None:
        message = f"{key} ({origin}) is no setting; the nearest is {_nearest(key, _KINDS)}."
        raise ConfigError(message)
    if not _fits(kind, value):
        message = f"{key} ({origin}) must be {_WORDS[_base(kind)]}, not {mask(repr(value))}."
        raise ConfigError(message)
    if isinstance(value, (list, tuple)):
        return _named_once(key, cast("list[str]", value), origin)
    low, high = LIMITS.get(key, (float("-inf"), float("inf")))
    if isinstance(value, (int, float)) and not low <= value <= high:
        message = f"{key} ({origin}) must be from {low} to {high}, not {value}."
        raise ConfigError(message)
    return cast("Value", value)


def _named_once(key: str, names: list[str] | tuple[str, ...], origin: str) -> tuple[str, ...]:
    """Return the names of queues in their order, the only lists there are, each once."""
    for name in names:
        if not _is_queue(name):
            message = (
                f"{key} ({origin}) names {name!r}, which no job can have: a queue has 1 to 63"
                ' bytes, more than blanks, and does not begin with "!".'
            )
            raise ConfigError(message)
    return tuple(dict.fromkeys(names))


def _is_queue(name: str) -> bool:
    """Whether a job may have this queue; as check_options.sql has it, and text for a database."""
    try:
        octets = name.encode()
    except UnicodeEncodeError:  # of an argument or a variable in another encoding
        return False
    is_text = bool(name.strip()) and "\0" not in name
    return is_text and len(octets) <= QUEUE_BYTES_MAX and not name.startswith("!")


_WORDS = {"int": "a whole number", "float": "a number", "str": "text", "tuple": "a list of texts"}


def _base(kind: str) -> str:
    return kind.split("[", 1)[0].split(" ", 1)[0]


def _fits(kind: str, value: object) -> bool:
    match _base(kind):
        case "tuple":
            parts = cast("list[object]", value) if isinstance(value, (list, tuple)) else []
            return bool(parts) and all(isinstance(part, str) for part in parts)
        case "str":
            return isinstance(value, str)
        case "float":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case _:
            return isinstance(value, int) and not isinstance(value, bool)


def _nearest(name: str, names: Mapping[str, object]) -> str:
    return difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]


def _build(found: Found) -> Config:
    def section(prefix: str) -> dict[str, Any]:  # each value was checked against its annotation
        return {
            key.removeprefix(prefix): value
            for key, (value, _) in found.items()
            if key.startswith(prefix)
        }

    top: dict[str, Any] = {key: value for key, (value, _) in found.items() if "." not in key}
    origins = MappingProxyType({key: origin for key, (_, origin) in found.items()})
    return Config(
        **top,
        worker=WorkerConfig(**section("worker.")),
        http=HttpConfig(**section("http.")),
        origins=origins,
    )
