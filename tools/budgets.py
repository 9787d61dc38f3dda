"""Hold the house to its budgets: `make check` fails when the code outgrows them.

Small modules, short functions, no import cycle (imports for typing and inside functions count,
too), and SQL text in `store/` alone. The numbers are limits on what a reader must hold in mind;
they are raised by a decision in docs/decisions/, not in passing.
"""

from __future__ import annotations

import ast
import graphlib
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).resolve().parent.parent / "src"
MODULES_MAX = 150
MEDIAN_LINES_MAX = 130
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SQL = re.compile(
    r"\s*(select\s|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s|with\s+\S+\s+as\s"
    r"|(create|alter|drop)\s+(or\s+replace\s+)?(table|view|function|index|schema|role|database)\s)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the source: its dotted name, its lines, its syntax."""

    name: str
    path: Path
    lines: int
    tree: ast.Module

    def at(self, line: int) -> str:
        """Where a line is, as editors understand it."""
        return f"{self.path.relative_to(SOURCE.parent)}:{line}"


def main() -> int:
    """Print the measures and every budget that is broken; 1 if there is one."""
    modules = [read(path) for path in sorted(SOURCE.rglob("*.py"))]
    lines = [module.lines for module in modules if module.lines]
    median = statistics.median(lines)
    print(
        f"modules {len(lines)} of {MODULES_MAX}, "
        f"median {median:g} of {MEDIAN_LINES_MAX} lines, "
        f"largest {max(lines)} of {MODULE_LINES_MAX} lines"
    )
    broken: list[str] = []
    if len(lines) > MODULES_MAX:
        broken.append(f"{len(lines)} modules, over {MODULES_MAX}")
    if median > MEDIAN_LINES_MAX:
        broken.append(f"the median module has {median:g} lines, over {MEDIAN_LINES_MAX}")
    for module in modules:
        broken += [*too_long(module), *sql_outside_store(module)]
    broken += cycles(modules)
    print("\n".join(broken) or "budgets kept")
    return 1 if broken else 0


def read(path: Path) -> Module:
    """Read a file of the source."""
    text = path.read_text("utf-8")
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    return Module(name, path, len(text.splitlines()), ast.parse(text))


def too_long(module: Module) -> Iterator[str]:
    """Name a module and its functions that are over their limits."""
    if module.lines > MODULE_LINES_MAX:
        yield f"{module.at(1)}: {module.lines} lines, over {MODULE_LINES_MAX}"
    for node in ast.walk(module.tree):
        if isinstance(node, Function) and (lines := body_lines(node)) > FUNCTION_LINES_MAX:
            place = module.at(node.lineno)
            yield f"{place}: {node.name} has {lines} lines, over {FUNCTION_LINES_MAX}"


def body_lines(function: Function) -> int:
    """Lines of a function without its docstring, which is for its callers."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def sql_outside_store(module: Module) -> Iterator[str]:
    """Name every text that reads as SQL in a module that is not of the store."""
    if module.name.startswith("hudhud.store"):
        return
    prose = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in prose and _SQL.match(node.value):
            yield f"{module.at(node.lineno)}: SQL text outside src/hudhud/store"


def cycles(modules: list[Module]) -> list[str]:
    """Name one cycle of imports, if there is any; typing-only and local imports count."""
    names = {module.name for module in modules}
    graph = {module.name: imports(module, names) - {module.name} for module in modules}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return ["import cycle: " + " -> ".join(reversed(error.args[1]))]
    return []


def imports(module: Module, names: set[str]) -> set[str]:
    """Name the modules of ours that a module imports, wherever in it the import stands."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & names or {node.module}
    return found & names


if __name__ == "__main__":
    sys.exit(main())
