"""docs/performance.md and its charts, made from the raw lines of full runs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, cast

from bench.engine import charts, results
from bench.engine.charts import Bar
from bench.engine.measurement import percentile
from bench.engine.results import Document, figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Documents = Mapping[str, Document]

REASONS: Final = Path(__file__).resolve().parents[1] / "reasons.toml"
DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
SECTIONS: Final = (
    (
        "Against other job queues, in one round on one server",
        ("drain_pgqueuer", "drain_graphile", "pickup_p50_peers", "pickup_p99_peers"),
    ),
    (
        "A worker",
        ("drain", "drain_against_bare", "worker_cpu", "server_cpu", "server_cpu_life", "wal"),
    ),
    ("Under load that does not end", ("fed", "fed_old_snapshot", "history", "soak_")),
    ("Enqueue", ("transaction_", "bulk_", "beside_")),
    ("Handlers that write, effects and events", ("handler_", "effect_", "publish_", "relay_")),
    ("When idle", ("pickup_p50", "pickup_p99", "memory_")),
)
HEAD: Final = """# Performance

Made by `make bench` from the raw lines in `bench/results/`; nothing here is written by hand.

Absolute figures say more about a machine than about hudhud; **ratios within one run** say something
about hudhud. So nearly every row is set against something that was measured in the same run, in
turn and shuffled: other job queues, raw SQL that writes the same rows into the same tables, or the
*smallest honest worker*, which is the least that a durable Python worker can do
(`bench/engine/control.py`): no job system, only what one can be measured against anywhere.
Everything is durable (fsync, synchronous_commit and full_page_writes on), history is kept, and
every payload is checked.

*Target* is what this release must reach, *goal* where it is going. The value of a row is the median
of its samples; *ratio* is the median of the rounds' ratios; the range is the least and the most, in
charts without the outer tenths.
"""
# Charts of ratios: name, title, and how the names of the rows in them begin.
RATIOS: Final = (
    ("enqueue", "Enqueue against raw SQL", ("transaction_", "bulk_")),
    ("writing", "Handlers and events against raw SQL", ("handler_", "publish_", "relay_")),
)
# What a chart shows as the range: all but a tenth at each end, all of fewer than ten.
LOW: Final = 0.1
HIGH: Final = 0.9
COLUMNS: Final = ("row", "value", "range", "set against", "ratio", "target", "goal")


def write(documents: Documents | None = None, docs: Path = DOCS) -> None:
    """Write the page and the charts.

    Args:
        documents: The newest measurement of each bench; None: what was kept.
        docs: Folder to write into.
    """
    found = results.newest() if documents is None else documents
    drawn = dict(drawings(found))
    folder = docs / "charts"
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in drawn.items():
        (folder / f"{name}.svg").write_text(svg, "utf-8")
    (docs / "performance.md").write_text(page(found, drawn), "utf-8")


def page(found: Documents, drawn: Mapping[str, str]) -> str:
    """Return the page."""
    parts = [HEAD]
    if not found:
        parts.append("Nothing has been measured in full yet.\n")
    left = dict(found)
    for title, names in SECTIONS:
        rows = [
            left.pop(bench)
            for bench in list(left)
            if any(
                bench == name or (name.endswith("_") and bench.startswith(name)) for name in names
            )
        ]
        if rows:
            parts.append(section(title, rows))
    if left:
        parts.append(section("Further", list(left.values())))
    if found:
        parts += [shortfalls(found, why()), pictures(drawn), surroundings(found)]
    return "\n".join(parts)


def why() -> dict[str, str]:
    """Return what is known about why a row falls short: `bench/reasons.toml`."""
    return tomllib.loads(REASONS.read_text("utf-8"))


def section(title: str, rows: Sequence[Document]) -> str:
    """Return one table, with what each row means below it."""
    table = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    table += [f"| {' | '.join(cells(row))} |" for row in rows]
    notes = [f"- `{row['bench']}`: {row['note']}" for row in rows if row["note"]]
    return "\n".join([f"## {title}", "", *table, "", *notes, ""])


def cells(row: Document) -> Iterator[str]:
    """Return a row's cells."""
    samples = cast("list[float]", row["samples"])
    ratio_to = cast("dict[str, Any] | None", row["ratio_to"])
    yield f"`{row['bench']}`"
    yield f"{figure(row['value'])} {row['unit']}"
    yield f"{figure(min(samples))} to {figure(max(samples))}" if len(samples) > 1 else ""
    yield f"{ratio_to['name']}: {figure(ratio_to['value'])}" if ratio_to else ""
    yield f"{ratio_to['ratio']:.2f}" if ratio_to else ""
    yield judged(row, "target", "met")
    yield judged(row, "goal", "goal_met")


def judged(row: Document, bound: str, met: str) -> str:
    """Return a bound and whether it is met."""
    if row[bound] is None:
        return ""
    words = str(row[bound]).replace(">=", "≥").replace("<=", "≤")
    return f"{words}: {'met' if row[met] else '**missed**'}"


def shortfalls(found: Documents, reasons: Mapping[str, str]) -> str:
    """Return what falls short and why, first of the targets, then of the goals."""
    lines = ["## What falls short", ""]
    for bound, met, words in (("target", "met", "target"), ("goal", "goal_met", "goal")):
        for row in found.values():
            if row[bound] is None or row[met] or (bound == "goal" and row["met"] is False):
                continue
            ratio_to = cast("dict[str, Any] | None", row["ratio_to"])
            is_ratio = str(row[bound]).startswith("ratio") and ratio_to is not None
            reached = f"{ratio_to['ratio']:.2f}" if is_ratio and ratio_to else figure(row["value"])
            why = reasons.get(str(row["bench"]), "No reason known yet.")
            lines.append(f"- `{row['bench']}` has {reached}, its {words} is {row[bound]}. {why}")
    if len(lines) == 2:  # noqa: PLR2004 - the heading alone
        lines.append("Nothing: every target and every goal is met.")
    return "\n".join([*lines, ""])


def pictures(drawn: Mapping[str, str]) -> str:
    """Return the charts, as links."""
    return "\n".join(["## Charts", "", *(f"![{name}](charts/{name}.svg)\n" for name in drawn)])


def surroundings(found: Documents) -> str:
    """Return where all of it was measured; once per server and date."""
    lines = ["## Where it was measured", ""]
    places: dict[str, list[str]] = {}
    described: dict[str, dict[str, Any]] = {}
    for bench, row in found.items():
        where = cast("dict[str, Any]", row["environment"])
        key = f"{where['date']} {where['settings']}"
        places.setdefault(key, []).append(bench)
        described[key] = where
    for key, benches in places.items():
        where = described[key]
        settings = ", ".join(f"{name} = {value}" for name, value in where["settings"].items())
        libraries = ", ".join(f"{name} {value}" for name, value in where["libraries"].items())
        lines.append(
            f"- {where['date']}, {where['processor']}, {where['cores']} cores, "
            f"{where['memory_gib']} GiB, {where['system']}, PostgreSQL {where['postgresql']} "
            f"({settings}), Python {where['libraries'].get('python', where['python'])}, "
            f"{libraries}; commit {where['commit']}: {', '.join(f'`{one}`' for one in benches)}"
        )
    return "\n".join([*lines, ""])


def drawings(found: Documents) -> Iterator[tuple[str, str]]:
    """Return the charts that can be drawn, by their names."""
    peers = [found[bench] for bench in ("drain_graphile", "drain_pgqueuer") if bench in found]
    if peers:
        rows = [_bar("hudhud", peers[0]["samples"]), *(_other(row) for row in peers)]
        yield "drain_peers", charts.bars("Drain, one worker process", "jobs/s", rows)
    if "drain" in found:
        rows = [_bar("hudhud", found["drain"]["samples"]), _other(found["drain"])]
        yield "drain", charts.bars("Drain against the control", "jobs/s", rows)
    if "fed" in found and "fed_old_snapshot" in found:
        series = {
            name: cast("dict[str, Any]", found[bench]["detail"])["series"]
            for name, bench in (("nothing else open", "fed"), ("old snapshot", "fed_old_snapshot"))
        }
        yield "fed", charts.lines("Fed while it drains", "jobs/s", series, across="seconds")
    yield from ratios(found)
    if "history" in found:
        rows = [_bar("with history", found["history"]["samples"]), _other(found["history"])]
        yield "history", charts.bars("Drain beside a full history", "jobs/s", rows)
    for share in ("p50", "p99"):
        if row := found.get(f"pickup_{share}_peers"):
            detail = cast("dict[str, list[float]]", row["detail"])
            rows = [
                _bar(name, samples, is_ours=name == "hudhud") for name, samples in detail.items()
            ]
            yield f"pickup_{share}", charts.bars(f"Idle pick-up, {share}", "ms", rows)


def ratios(found: Documents) -> Iterator[tuple[str, str]]:
    """Return the charts of what stands beside raw SQL."""
    for name, title, begins in RATIOS:
        rows = [
            _ratio(row)
            for bench, row in found.items()
            if bench.startswith(begins) and row["ratio_to"] is not None
        ]
        if rows:
            yield name, charts.bars(title, "ratio", rows, mark=1)


def _bar(label: str, samples: object, *, is_ours: bool = True) -> Bar:
    found = cast("list[float]", samples)
    return Bar(label, median(found), percentile(found, LOW), percentile(found, HIGH), is_ours)


def _other(row: Document) -> Bar:
    ratio_to = cast("dict[str, Any]", row["ratio_to"])
    return _bar(ratio_to["name"], ratio_to["samples"], is_ours=False)


def _ratio(row: Document) -> Bar:
    ratio_to = cast("dict[str, Any]", row["ratio_to"])
    pairs = zip(cast("list[float]", row["samples"]), ratio_to["samples"], strict=True)
    found = [own / other for own, other in pairs]
    low, high = (percentile(found, share) for share in (LOW, HIGH))
    return Bar(str(row["bench"]), ratio_to["ratio"], low, high)
