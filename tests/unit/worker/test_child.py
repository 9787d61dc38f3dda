"""Laws of what a process is told about its run."""

from __future__ import annotations

from hudhud.worker.child import FACTS, ProcessContext
from hudhud.worker.context import Context


def test_every_fact_that_a_process_is_told_is_one_of_the_context() -> None:
    assert [name for name in FACTS if not hasattr(Context, name)] == []


def test_a_process_context_reports_like_a_context() -> None:
    assert {"log", "progress", "check", "transaction"} <= set(dir(ProcessContext)) & set(
        dir(Context)
    )
