"""hudhud.store: calls as values, each for a function that exists with those parameters."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from importlib import resources
from pathlib import Path
from uuid import UUID

import pytest

from hudhud.domain.event import NewEvent
from hudhud.domain.job import NewJob, Outcome
from hudhud.store import events, idempotency, jobs, keys, runs, upkeep
from hudhud.store.call import Arg, Call, given, nothing

ID = UUID(int=7)
NOW = datetime(2027, 1, 15, tzinfo=UTC)
FULL = NewJob(
    "refund",
    {"amount": 5},
    version=2,
    tenant_id="bank",
    queue="q",
    lane="high",
    idempotency_key="k",
    on_conflict="reject",
    unique_for_seconds=60,
    available_at=NOW,
    expires_at=NOW,
    max_attempts=3,
    correlation_id="c",
    traceparent="t",
    tags=["a", "b"],
)
# The rest of the options, each of which excludes one of the others.
OTHER = replace(FULL, idempotency_key=None, unique_by="payload", available_at=None, delay_seconds=5)
EVENT = NewEvent(
    "refunded",
    {"amount": 5},
    version=2,
    tenant_id="bank",
    aggregate=("refund", "7"),
    ordered=False,
    occurred_at=NOW,
    correlation_id="c",
    causation_id=ID,
    traceparent="t",
)
WORKER = runs.NewWorker(ID, "w", "host", 1, ["q"], ["refund:2"], "0.1.0")
REQUEST_KEY = idempotency.RequestKey("t", "k", b"x")
REQUEST = runs.ClaimRequest(ID, "q", [2], ["bank"], [0], [10], 30)
SETTLEMENT = runs.Settlement(ID, 1, Outcome.RETRY, delay_seconds=1.5, error_class="retryable")

EVERY: list[Call[object]] = [
    jobs.enqueue(FULL, notify=False),
    jobs.enqueue(OTHER),
    jobs.enqueue_many([FULL, OTHER, NewJob("mail", {})], notify=False),
    jobs.cancel(ID, actor="a", reason="r", tenant_id="t"),
    jobs.reschedule(ID, NOW, actor="a", reason="r", tenant_id="t"),
    jobs.replay(ID, actor="a", reason="r", tenant_id="t"),
    jobs.resubmit(ID, {}, actor="a", reason="r", tenant_id="t"),
    idempotency.take_request(REQUEST_KEY),
    idempotency.keep_answer(REQUEST_KEY, idempotency.Answer(202, {"location": "/"}, "{}")),
    idempotency.take_in("billing", ID),
    events.publish(EVENT, notify=False),
    events.publish_many([EVENT], notify=False),
    events.announce_events([{"type": "refunded"}], [{"name": "refunded:tell"}]),
    events.due_subscriptions(),
    events.relay("refunded:tell", 100),
    events.mark_relay(1.0),
    events.see_subscriptions(["refunded:tell"]),
    events.silent_subscriptions(),
    events.relay_stalls(30),
    events.change_subscription("refunded:tell", "paused", actor="a", reason="r"),
    events.rebase(actor="a", reason="r"),
    events.event_day_to_drop(),
    events.release_event_day(date(2027, 1, 15)),
    keys.create_key("n", "t", ["read"], secret_hash=b"x", actor="a"),
    keys.revoke_key(ID, actor="a"),
    keys.check_key(b"x"),
    runs.announce([{"type": "refund"}]),
    runs.register_worker(WORKER),
    runs.leave(ID),
    runs.beat(ID),
    runs.ranges("q"),
    runs.end_session(17),
    runs.end_transaction(ID, 1),
    runs.mark_busy("q", 0.5),
    runs.claim(REQUEST),
    runs.finish([ID], [True], part_leases=[ID], part_positions=[1], settlements=[SETTLEMENT]),
    runs.settle(ID, 1, "{}"),
    runs.renew(ID, [ID], 30),
    runs.write_log(ID, 1, [{"level": "info", "message": "m", "progress": None}]),
    upkeep.stage(),
    upkeep.rescue(),
    upkeep.prune(),
    upkeep.make_partitions(),
    upkeep.days_ahead(),
    upkeep.day_to_drop(),
    upkeep.close_day(date(2027, 1, 15)),
    upkeep.keep_survivors(date(2027, 1, 15)),
]
TYPES = {"int": "integer", "timestamp with time zone": "timestamptz"}


def mark(number: int, name: str) -> str:
    return f"<{number}:{name}>"


def head(function: str) -> str:
    """Return the parameters of a function as its file declares them."""
    areas = resources.files("hudhud.store") / "sql" / "functions"
    [file] = [
        area / f"{function}.sql"
        for area in areas.iterdir()
        if area.is_dir() and (area / f"{function}.sql").is_file()
    ]
    found = re.search(
        rf"create or replace function hudhud\.{function}\((.*?)\)\s*(?:returns|language)",
        file.read_text("utf-8"),
        re.DOTALL,
    )
    assert found is not None
    return " ".join(found[1].split())


@pytest.mark.parametrize("call", EVERY, ids=lambda call: call.function)
def test_every_call_names_a_function_and_its_parameters(call: Call[object]) -> None:
    declared = head(call.function)
    for arg in call.args:
        assert re.search(rf"(^|, ){arg.name} {re.escape(arg.sql_type)}( |,|$)", declared), arg


@pytest.mark.parametrize("call", EVERY, ids=lambda call: call.function)
def test_every_parameter_without_a_default_is_given(call: Call[object]) -> None:
    declared = [part for part in head(call.function).split(", ") if not part.startswith("out ")]
    needed = {part.split(" ")[0] for part in declared if " default " not in part and part}
    assert needed <= set(call.named)


def test_every_function_of_these_modules_is_in_the_list() -> None:
    verbs = {
        name
        for module in (events, idempotency, jobs, keys, runs, upkeep)
        for name, one in vars(module).items()
        if not name.startswith("_")
        and callable(one)
        and getattr(one, "__module__", "") == module.__name__
        and not isinstance(one, type)
    }
    assert verbs == {call.function for call in EVERY}


def test_every_call_anywhere_names_its_function_by_a_literal() -> None:
    package = Path(str(resources.files("hudhud")))
    calls = [
        node
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Call"
    ]
    assert len(calls) >= len(EVERY)
    for call in calls:
        assert isinstance(call.args[0], ast.Constant), ast.unparse(call)
        assert head(str(call.args[0].value)) is not None


def test_a_call_becomes_one_statement_with_named_and_typed_arguments() -> None:
    call = Call("cancel", (Arg("job_id", "uuid", ID), Arg("actor", "text", "a")), nothing)
    assert call.sql(mark) == (
        "select * from hudhud.cancel(job_id => cast(<1:job_id> as uuid),"
        " actor => cast(<2:actor> as text))"
    )
    assert call.values == [ID, "a"]
    assert call.named == {"job_id": ID, "actor": "a"}


def test_json_goes_as_text_past_any_codec() -> None:
    call = Call("f", (Arg("a", "jsonb", "{}"), Arg("b", "jsonb[]", ["{}"])), nothing)
    assert "a => cast(cast(<1:a> as text) as jsonb)" in call.sql(mark)
    assert "b => cast(cast(<2:b> as text[]) as jsonb[])" in call.sql(mark)


def test_what_is_none_is_left_to_the_functions_default() -> None:
    assert given(Arg("a", "text", None), Arg("b", "text", "")) == (Arg("b", "text", ""),)
    plain = jobs.enqueue(NewJob("mail", {}))
    assert set(plain.named) == {"type", "payload"}
    assert jobs.reschedule(ID, None, actor="a").named["available_at"] is None


def test_options_that_hold_for_all_are_sent_once() -> None:
    """A17: the bulk form takes every option the single form takes."""
    alike = jobs.enqueue_many([NewJob("mail", {"n": n}) for n in range(3)]).named
    assert alike["types"] == ["mail"]
    assert alike["payloads"] == ['{"n":0}', '{"n":1}', '{"n":2}']
    assert "idempotency_keys" not in alike
    mixed = jobs.enqueue_many([NewJob("mail", {}), FULL, OTHER]).named
    assert mixed["types"] == ["mail", "refund", "refund"]
    assert mixed["idempotency_keys"] == [None, "k", None]
    assert mixed["unique_for"] == [None, timedelta(seconds=60), timedelta(seconds=60)]
    assert mixed["unique_by"] == [None, None, '["payload"]']
    assert mixed["tags"] == [None, '["a", "b"]', '["a", "b"]']
    assert mixed["lanes"] == [None, "high", "high"]


def test_a_unique_by_of_no_fields_is_asked_about_not_dropped() -> None:
    """The database refuses it; without a word the jobs would have no key."""
    call = jobs.enqueue_many(NewJob("a", {}, unique_by=[]) for _ in range(1))
    assert call.named["unique_by"] == ["[]"]


def test_every_option_of_the_single_form_is_in_the_bulk_form() -> None:
    """A17."""
    each = [set(jobs.enqueue(one, notify=False).named) for one in (FULL, OTHER)]
    bulk = set(jobs.enqueue_many([FULL, OTHER], notify=False).named)
    assert len(each[0] | each[1]) == len(bulk) == 18


def test_no_jobs_are_no_jobs() -> None:
    assert jobs.enqueue_many([]).named == {"types": [], "payloads": []}


def test_results_are_spliced_into_settlements_untouched() -> None:
    settlement = runs.Settlement(ID, 2, Outcome.SUCCEED, result='{"n":18446744073709551615}')
    assert settlement.json() == (
        f'{{"lease": "{ID}", "position": 2, "outcome": "succeed",'
        ' "result": {"n":18446744073709551615}}'
    )
