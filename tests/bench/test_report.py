"""Figures as they are judged, kept and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.engine import report, results
from bench.engine.measurement import Control, Measurement, Target, middle, percentile

if TYPE_CHECKING:
    from pathlib import Path

WHERE = {
    "environment": {
        "date": "2026-01-01T00:00:00+00:00",
        "processor": "abacus",
        "cores": 2,
        "memory_gib": 8,
        "system": "Linux",
        "python": "3.11",
        "postgresql": "18.4",
        "settings": {"fsync": "on"},
        "libraries": {"psycopg": "3"},
        "commit": "abc",
    },
    "size": "full",
}


def document(measurement: Measurement) -> results.Document:
    return measurement.document(WHERE)


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    measured = middle("x", "jobs/s", [10, 20, 90], against=Control("y", [10, 10, 10]))
    assert measured.ratio == 2


def test_a_single_sample_is_set_against_the_median_of_the_others() -> None:
    assert middle("x", "ms", [6], against=Control("y", [1, 2, 30])).ratio == 3


@pytest.mark.parametrize(
    ("target", "is_met"),
    [
        (Target("value", ">=", 10), True),
        (Target("value", "<=", 9.9), False),
        (Target("ratio", ">=", 2.1), False),
        (Target("ratio", "<=", 2), True),
    ],
)
def test_a_target_is_met_by_the_figure_that_it_names(*, target: Target, is_met: bool) -> None:
    found = document(middle("x", "ms", [10], against=Control("y", [5]), target=target, goal=target))
    assert (found["met"], found["goal_met"]) == (is_met, is_met)


def test_a_ratio_without_anything_to_hold_against_is_refused() -> None:
    with pytest.raises(ValueError, match="needs something"):
        document(middle("x", "ms", [1], target=Target("ratio", ">=", 1)))


def test_a_row_without_a_target_is_neither_met_nor_missed() -> None:
    found = document(middle("x", "ms", [1]))
    assert (found["target"], found["met"]) == (None, None)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 3), (0.99, 4), (0, 1)])
def test_a_percentile_is_one_of_the_samples(share: float, expected: float) -> None:
    assert percentile([4, 1, 3, 2], share) == expected


def test_the_newest_line_of_a_bench_is_the_one_that_counts(tmp_path: Path) -> None:
    file = tmp_path / "results" / "lines.jsonl"
    for value in (1, 2):
        results.keep(document(middle("x", "ms", [value])), file)
    results.keep(document(middle("y", "ms", [3])), file)
    assert {name: row["value"] for name, row in results.newest(file).items()} == {"x": 2, "y": 3}


def test_nothing_kept_is_nothing_measured(tmp_path: Path) -> None:
    assert results.newest(tmp_path / "none") == {}


def rows() -> dict[str, results.Document]:
    floor, low = Target("ratio", ">=", 1), Control("raw <inserts>", [10, 10, 10])
    series = {"series": [[0, 1], [1, 2]]}
    found = [
        middle(
            "drain", "jobs/s", [10, 11, 12], against=Control("smallest honest worker", [20] * 3)
        ),
        middle("drain_graphile", "jobs/s", [9, 9, 9], against=Control("graphile", [3, 3, 3])),
        middle("fed", "jobs/s", [9], against=Control("the first fifth", [9]), detail=series),
        middle(
            "fed_old_snapshot",
            "jobs/s",
            [9],
            against=Control("the first fifth", [9]),
            detail=series,
        ),
        middle("transaction_1", "transactions/s", [9, 9, 9], against=low, target=floor),
        middle("handler_4", "jobs/s", [6, 6, 6], against=low, target=Target("ratio", ">=", 0.6)),
        middle("publish_p99", "ms", [20], target=Target("value", "<=", 50)),
        middle("history", "jobs/s", [9], against=Control("no history", [9])),
        middle("pickup_p50_peers", "ms", [1], detail={"hudhud": [1], "graphile": [2]}),
        middle("a_later_row", "ms", [1], target=Target("value", "<=", 2)),
    ]
    return {measurement.bench: document(measurement) for measurement in found}


def test_the_page_shows_every_row_and_says_what_falls_short(tmp_path: Path) -> None:
    report.write(rows(), tmp_path)
    page = (tmp_path / "performance.md").read_text("utf-8")
    for bench in rows():
        assert f"| `{bench}` |" in page
    short = page.partition("## What falls short")[2].partition("## ")[0]
    assert [line for line in short.splitlines() if line] == [
        f"- `transaction_1` has 0.90, its target is ratio >= 1. {report.why()['transaction_1']}"
    ]
    assert "abacus" in page


def test_every_chart_that_the_page_names_is_there(tmp_path: Path) -> None:
    report.write(rows(), tmp_path)
    page = (tmp_path / "performance.md").read_text("utf-8")
    charts = {path.name for path in (tmp_path / "charts").iterdir()}
    assert charts == {
        *("drain.svg", "drain_peers.svg", "fed.svg"),
        *("enqueue.svg", "history.svg", "pickup_p50.svg", "writing.svg"),
    }
    for chart in charts:
        assert f"charts/{chart}" in page
        assert (tmp_path / "charts" / chart).read_text("utf-8").startswith("<svg ")


def test_without_any_measurement_the_page_says_so(tmp_path: Path) -> None:
    report.write({}, tmp_path)
    assert "Nothing has been measured" in (tmp_path / "performance.md").read_text("utf-8")


def test_a_line_for_people_names_figure_control_and_verdict() -> None:
    measured = middle(
        "x", "jobs/s", [1234], against=Control("y", [2468]), target=Target("ratio", ">=", 1)
    )
    assert results.words(document(measured)) == (
        "x  1,234 jobs/s  (0.5 of y: 2,468)  target ratio >= 1: MISSED"
    )
