"""hudhud.domain.traceparent: W3C's form, and nothing else."""

from __future__ import annotations

import pytest

from hudhud.domain import traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(("flags", "is_sampled"), [("01", True), ("00", False), ("03", True)])
def test_a_header_is_read(flags: str, *, is_sampled: bool) -> None:
    found = traceparent.parse(f"00-{TRACE}-{SPAN}-{flags}")
    assert found == traceparent.Traceparent(TRACE, SPAN, is_sampled)


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    found = traceparent.parse(f"cc-{TRACE}-{SPAN}-01-what-comes")
    assert found is not None
    assert str(found) == f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{'٣' * 32}-{SPAN}-01",
    ],
)
def test_a_malformed_header_is_ignored(header: str | None) -> None:
    assert traceparent.parse(header) is None


def test_a_new_trace_is_one_that_can_be_read() -> None:
    made = traceparent.make(is_sampled=False)
    assert traceparent.parse(str(made)) == made


def test_a_child_is_another_span_of_the_same_trace() -> None:
    parent = traceparent.make()
    child = parent.child()
    assert child.trace_id == parent.trace_id
    assert child.span_id != parent.span_id
    assert child.is_sampled
