"""Reads for people (screens, command line, HTTP): each a file of sql/reads, run as it stands.

They are not functions because what people look at changes more often than a schema may.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hudhud.store.call import Mark, Row

_PARAMETER = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class Read:
    """A read by name, with values for the parameters that its file lists.

    A driver runs it on a connection, as it runs a `Call`. It answers a list of dicts, column name
    to value; JSON columns come as the connection has them, Python values with psycopg.
    """

    name: str
    params: Mapping[str, object] = field(default_factory=dict[str, object])

    def sql(self, mark: Mark) -> str:
        """Return the file's text in a driver's style of placeholders."""
        order = {name: number for number, name in enumerate(parameters(self.name), start=1)}
        return _PARAMETER.sub(lambda found: mark(order[found[1]], found[1]), text(self.name))

    @property
    def values(self) -> list[object]:
        """The values for the placeholders 1 to n."""
        return [self.params[name] for name in parameters(self.name)]

    @property
    def named(self) -> dict[str, object]:
        """The values for placeholders by name."""
        return {name: self.params[name] for name in parameters(self.name)}

    def answer(self, rows: Sequence[Row], names: Iterable[str], /) -> list[dict[str, object]]:
        """Return the rows as dicts."""
        columns = list(names)
        return [dict(zip(columns, row, strict=True)) for row in rows]


@cache
def text(name: str) -> str:
    """Return the SQL of a read, from sql/reads/<name>.sql."""
    return (resources.files("hudhud.store") / "sql" / "reads" / f"{name}.sql").read_text("utf-8")


@cache
def parameters(name: str) -> tuple[str, ...]:
    """Return the names of a read's parameters in the order of their first use."""
    return tuple(dict.fromkeys(_PARAMETER.findall(text(name))))
