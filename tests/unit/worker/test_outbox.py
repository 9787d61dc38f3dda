"""What an application says about events, and what of it is refused where it is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, Final
from uuid import UUID

import pytest

from hudhud import Context, Event, Hudhud, Permanent, Personal
from hudhud.domain import cause
from hudhud.domain.cause import Known, caused_by, followed_by_event, followed_by_job
from hudhud.domain.event import NewEvent, check
from hudhud.domain.job import NewJob
from hudhud.errors import ConfigError, InvalidEventError
from hudhud.worker.outbox import new_event

ID = UUID(int=7)
DOCUMENT: dict[str, Any] = {
    "id": str(ID),
    "type": "order.paid",
    "version": 1,
    "tenant_id": "acme",
    "aggregate": {"type": "order", "id": "A"},
    "sequence": 3,
    "position": 9,
    "occurred_at": "2026-12-01T02:04:46.307037+00:00",
    "correlation_id": "c",
    "causation_id": None,
    "payload": {"n": 1},
}
CONTEXT: Final = SimpleNamespace(tenant_id="acme")


class Base:
    """Fields that several events share."""

    order_id: int


class Paid(Base):
    """A contract."""

    kind: ClassVar[str] = "not a field"
    amount: float
    note: str | None = None
    tags: list[str]
    email: Personal[str] = ""
    phones: list[Personal[str]]


FINE: dict[str, Any] = {"order_id": 1, "amount": 2.5, "tags": [], "phones": []}


@pytest.fixture
def app() -> Hudhud:
    return Hudhud()


def test_a_contract_is_read_off_a_class_and_its_bases(app: Hudhud) -> None:
    app.event("order.paid", personal="the receipt goes there")(Paid)
    (announced,) = app.outbox.announced_types()
    assert announced == {
        "type": "order.paid",
        "version": 1,
        "schema": {
            "required": {
                "order_id": ["integer"],
                "amount": ["number"],
                "tags": ["array"],
                "phones": ["array"],
            },
            "optional": {"note": ["string", "null"], "email": ["string"]},
            "open": False,
        },
        "personal": ["email", "phones"],
        "need": "the receipt goes there",
    }


def test_a_publish_is_held_against_the_newest_contract_before_it_is_sent(app: Hudhud) -> None:
    app.event("order.paid", personal="a test")(Paid)

    @app.event("order.paid", version=2)
    class _Two:
        n: int

    event = new_event(app.outbox, "order.paid", {"n": 1}, aggregate=("order", 7))
    assert (event.version, event.aggregate) == (2, ("order", "7"))
    assert new_event(app.outbox, "order.paid", FINE, version=1).version == 1
    assert new_event(app.outbox, "unknown", {"anything": 1}).version == 1
    for payload, path in (({}, "$.n is missing"), ({"n": "1"}, "$.n must be integer")):
        with pytest.raises(InvalidEventError) as caught:
            new_event(app.outbox, "order.paid", payload)
        assert path in str(caught.value)


def test_a_personal_field_is_refused_unless_the_type_states_its_need(app: Hudhud) -> None:
    app.event("order.paid")(Paid)
    with pytest.raises(InvalidEventError, match=r"\$\.phones is personal"):
        new_event(app.outbox, "order.paid", FINE)


def test_a_contract_that_json_cannot_carry_is_refused_where_it_is_written(app: Hudhud) -> None:
    with pytest.raises(ConfigError, match=r"order\.paid:1: field id is annotated UUID"):

        @app.event("order.paid")
        class _Paid:
            id: UUID

    @app.event("order.gone")
    class _Gone:
        n: int

    with pytest.raises(ConfigError, match=r"order\.gone:1 has two contracts"):
        app.event("order.gone")(Base)
    with pytest.raises(ConfigError, match=r"the sample of order\.left:1 .*\$\.order_id is missing"):
        app.event("order.left", sample={})(Base)


def test_a_subscription_has_a_handler_for_each_version_that_leads_to_its_own(app: Hudhud) -> None:
    @app.upcaster("order.paid", 2, sample={})
    def to_3(payload: dict[str, Any]) -> dict[str, Any]:
        return payload

    @app.on("order.paid", version=4, queue="post", lane="high", timeout_seconds=5, max_attempts=3)
    async def ship(_ctx: Context, _event: Event) -> None:
        raise NotImplementedError

    assert app.registry.contracts == ["order.paid:ship:4"]

    @app.upcaster("order.paid", 3, sample={})
    def to_4(payload: dict[str, Any]) -> dict[str, Any]:
        return payload

    assert sorted(app.registry.contracts) == [f"order.paid:ship:{n}" for n in (2, 3, 4)]
    for handler in app.registry:
        assert (handler.queue, handler.lane, handler.max_attempts) == ("post", "high", 3)
        assert (handler.timeout_seconds, handler.kind) == (5, "async")
    assert app.outbox.announced_subscriptions() == [
        {
            "name": "order.paid:ship",
            "event_type": "order.paid",
            "queue": "post",
            "lane": "high",
            "max_attempts": 3,
            "start": "now",
        }
    ]


def test_a_subscription_takes_the_newest_version_that_is_declared(app: Hudhud) -> None:
    app.event("order.paid", version=3)(Base)

    @app.on("order.paid", name="ship", start=17)
    def ship(_ctx: Context, event: Event) -> object:
        return event.payload

    assert (ship.version, ship.start, ship.name) == (3, "17", "ship")
    (handler,) = app.registry
    assert (handler.kind, handler.contract) == ("thread", "ship:3")
    assert handler.function.__qualname__.endswith("ship")


def test_what_could_only_fail_later_is_refused_where_it_is_written(app: Hudhud) -> None:
    async def fine(_ctx: Context, _event: Event) -> None:
        raise NotImplementedError

    def short(_ctx: Context) -> None:
        raise NotImplementedError

    app.on("order.paid", name="ship")(fine)
    for words, options in (
        ("There is a subscription ship already", {"name": "ship"}),
        ("start must be", {"start": "soon"}),
        ("start must be", {"start": -1}),
        ("lane", {"lane": "urgent"}),
        ("type 'a b' must be", {"name": "a b"}),
        ("version must be", {"version": 40_000}),
    ):
        with pytest.raises(ConfigError, match=words):
            app.on("order.paid", **options)(fine)
    with pytest.raises(ConfigError, match="takes ctx and event"):
        app.on("order.paid")(short)  # type: ignore[arg-type]


def test_upcasters_are_one_per_version(app: Hudhud) -> None:
    def same(payload: dict[str, Any]) -> dict[str, Any]:
        return payload

    app.upcaster("order.paid", 1, sample={})(same)
    with pytest.raises(ConfigError, match=r"order\.paid:1 has two upcasters"):
        app.upcaster("order.paid", 1, sample={})(dict)
    for version in (0, 32_767):
        with pytest.raises(ConfigError, match="leads from a version"):
            app.upcaster("order.gone", version, sample={})(same)


def test_the_function_gets_the_event_upcast_to_its_version(app: Hudhud) -> None:
    seen: list[tuple[object, Event]] = []
    made: list[NewEvent] = []

    @app.upcaster("order.paid", 1, sample={"n": 1})
    def to_2(payload: dict[str, Any]) -> dict[str, Any]:
        return {"m": payload["n"]}

    @app.on("order.paid", version=2)
    def ship(ctx: object, event: Event) -> str:
        seen.append((ctx, event))
        made.append(followed_by_event(NewEvent("made", {})))
        return "shipped"

    handler = app.registry.find("order.paid:ship", 1)
    assert handler is not None
    assert handler(CONTEXT, event=DOCUMENT) == "shipped"
    [(ctx, event)] = seen
    assert made == [NewEvent("made", {}, correlation_id="c", causation_id=ID)]
    assert ctx is CONTEXT
    assert (event.id, event.version, event.payload) == (ID, 2, {"m": 1})
    assert (event.aggregate, event.sequence, event.position) == (("order", "A"), 3, 9)
    assert event.occurred_at.isoformat() == DOCUMENT["occurred_at"]
    assert ship(CONTEXT, event) == "shipped"  # as the function itself
    assert made[1] == NewEvent("made", {})


@pytest.mark.parametrize("broken", [{}, {"id": "x"}, {"version": None}, {"occurred_at": "then"}])
def test_a_document_that_is_no_event_is_malformed(app: Hudhud, broken: dict[str, Any]) -> None:
    @app.on("order.paid")
    def ship(_ctx: object, _event: Event) -> None:
        raise NotImplementedError

    (handler,) = app.registry
    with pytest.raises(Permanent) as caught:
        handler(CONTEXT, event=DOCUMENT | broken if broken else {})
    assert caught.value.code == "malformed"


def test_what_is_made_in_a_run_follows_from_it_unless_it_says_otherwise() -> None:
    assert followed_by_job(NewJob("a", {})).correlation_id is None
    assert followed_by_event(NewEvent("a", {})) == NewEvent("a", {})
    with caused_by(Known("flow", ID)):
        assert followed_by_job(NewJob("a", {})).correlation_id == "flow"
        assert followed_by_job(NewJob("a", {}, correlation_id="own")).correlation_id == "own"
        own = NewEvent("a", {}, correlation_id="own", causation_id=UUID(int=8))
        assert followed_by_event(own) == own
        with caused_by(Known("inner", ID)):
            cause.begin(Known("begun", ID))
            assert followed_by_job(NewJob("a", {})).correlation_id == "begun"
        assert followed_by_job(NewJob("a", {})).correlation_id == "flow"
    assert followed_by_job(NewJob("a", {})).correlation_id is None


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"type": "a\0b"}, "type"),
        ({"type": 7}, "type"),
        ({"tenant_id": None}, "tenant_id"),
        ({"version": True}, "version"),
        ({"version": 0}, "version"),
        ({"aggregate": "order"}, "aggregate"),
        ({"aggregate": ("order",)}, "aggregate"),
        ({"aggregate": ("order", 7)}, "aggregate's id"),
        ({"correlation_id": "\ud800"}, "correlation_id"),
        ({"occurred_at": "today"}, "occurred_at"),
    ],
    ids=str,
)
def test_options_that_the_database_could_not_be_asked_about_are_refused(
    options: dict[str, Any], word: str
) -> None:
    with pytest.raises(InvalidEventError, match=word):
        check(NewEvent(**{"type": "a", "payload": {}} | options))
