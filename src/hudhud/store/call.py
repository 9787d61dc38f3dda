"""A verb of the database as a value: which function, with what, and how its answer is read.

Values know nothing of connections. A driver runs one on the caller's connection, in the caller's
transaction; so one definition serves synchronous and asynchronous code and every driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

T_co = TypeVar("T_co", covariant=True)

Row: TypeAlias = Sequence[Any]
# From the number (from 1) and the name of a parameter to a driver's placeholder.
Mark: TypeAlias = Callable[[int, str], str]


class Statement(Protocol[T_co]):
    """What a driver runs: a `Call`, or a `Read`."""

    def sql(self, mark: Mark) -> str:
        """Return the text in a driver's style of placeholders."""
        ...

    @property
    def values(self) -> list[object]:
        """The values for the placeholders 1 to n."""
        ...

    @property
    def named(self) -> dict[str, object]:
        """The values for placeholders by name."""
        ...

    def answer(self, rows: Sequence[Row], names: Iterable[str], /) -> T_co:
        """Return what the rows mean; `names` of the columns are only worked out when used."""
        ...


class Arg(NamedTuple):
    """One named argument. JSON is text with the type jsonb, so that no driver needs to know it."""

    name: str
    sql_type: str
    value: object


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """A call of a function of the schema hudhud.

    `function` is always a literal of this package; a test holds each against its file in
    sql/functions. Arguments whose value is None are left out: the function's default holds.
    """

    function: str
    args: tuple[Arg, ...]
    read: Callable[[Sequence[Row]], T_co]

    def sql(self, mark: Mark) -> str:
        """Return the statement in a driver's style of placeholders."""
        return _text(self.function, tuple(map(_signature, self.args)), mark)

    @property
    def values(self) -> list[object]:
        """The values for the placeholders 1 to n."""
        return [arg.value for arg in self.args]

    @property
    def named(self) -> dict[str, object]:
        """The values for placeholders by name."""
        return dict(map(_named, self.args))

    def answer(self, rows: Sequence[Row], _: Iterable[str], /) -> T_co:
        """Return what the rows mean; the columns of a function are known by their order."""
        return self.read(rows)


def given(*args: Arg) -> tuple[Arg, ...]:
    """Return the arguments that have a value."""
    return tuple(arg for arg in args if arg.value is not None)


def one(rows: Sequence[Row]) -> Any:  # noqa: ANN401 - the SQL function's declared type
    """Read the single value of the single row."""
    return rows[0][0]


def nothing(_: Sequence[Row]) -> None:
    """Read the answer of a function that returns void."""


_signature = itemgetter(0, 1)
_named = itemgetter(0, 2)


@lru_cache(maxsize=1024)
def _text(function: str, args: tuple[tuple[str, str], ...], mark: Mark) -> str:
    named = ", ".join(
        f"{name} => {_cast(mark(number, name), sql_type)}"
        for number, (name, sql_type) in enumerate(args, start=1)
    )
    return f"select * from hudhud.{function}({named})"  # noqa: S608 - names are ours, never input


def _cast(mark: str, sql_type: str) -> str:
    """Give a placeholder its type; JSON goes as text, past whatever codec a connection has."""
    if sql_type.startswith("jsonb"):
        return f"cast(cast({mark} as {sql_type.replace('jsonb', 'text')}) as {sql_type})"
    return f"cast({mark} as {sql_type})"
