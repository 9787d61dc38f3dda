"""Each failpoint, each way to fail there: nothing is lost, nothing is doubled.

A worker in a process of its own comes by the point with jobs in its hands; whoever is alive then,
or born after it, brings them to their end.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import hudhud
from bench.chaos import armed, query, record, task, verdict, verdict_events, verdict_outside
from bench.chaos.answers import Answers
from bench.chaos.births import Births
from bench.chaos.bookkeeper import Bookkeeper, Manners
from bench.chaos.fleet import Fleet
from bench.chaos.place import TELEMETRY, Place
from bench.chaos.points import ACTIONS, COMBINATIONS, POINTS, SQL_POINTS, Action
from bench.chaos.task import Task
from hudhud import failpoint
from hudhud.client import Client
from hudhud.store import migrate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

SECONDS = 60  # liveness only
JOBS: Sequence[tuple[str, Mapping[str, Any]]] = (
    (task.EFFECT, {"children": 1, "facts": 2}),
    (task.EFFECT_THREAD, {"linger_ms": 5, "facts": 1}),
    (task.PLAIN, {}),
    (task.PLAIN_THREAD, {}),
    (task.OUTSIDE, {"acts": 2}),
    (task.OUTSIDE, {"acts": 1, "work_ms": 20}),
    (task.OUTSIDE_THREAD, {"acts": 1}),
)


@pytest.fixture(scope="session")
def births(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Births]:
    with closing(Births(tmp_path_factory.mktemp("births"))) as births:
        yield births


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bookkeeper]:
    with Bookkeeper(tmp_path_factory.mktemp("book"), Manners(share=0), seed=1) as book:
        yield book


@pytest.fixture
def place(database: str, book: Bookkeeper, tmp_path: Path) -> Place:
    query.install(database)
    return Place(tmp_path, database, slots=1, ledger_port=book.port)


@pytest.fixture
def fleet(place: Place, births: Births) -> Iterator[Fleet]:
    """Give a fleet of one: whoever is killed is followed by another."""
    fleet = Fleet(place, births)
    assert fleet.wait(lambda: bool(fleet.ready), SECONDS)
    yield fleet
    fleet.end_all()


class Order:
    """One order to fail, and whether it was carried out."""

    def __init__(self, fleet: Fleet, point: str, action: Action) -> None:
        self._database = fleet.place.dsn
        self._telemetry = fleet.place.directory / TELEMETRY
        self._words = point, action.value
        if point in SQL_POINTS:
            ((self._ticket,),) = query.rows(
                self._database, "arm", {"point": point, "action": action.value, "seconds": 0.3}
            )
        else:
            self._ticket = None
            (member,) = fleet.members
            member.may_die = action is Action.KILL
            armed.order(member.slot, point, action)

    def is_carried_out(self) -> bool:
        if self._ticket is not None:
            return query.finds(self._database, "has_fired", ticket=self._ticket)
        told = map(json.loads, self._telemetry.read_text("utf-8").splitlines())
        return any(
            (said["point"], said["action"]) == self._words
            for said in told
            if said["event"] == "failpoint.fired"
        )


def enqueue(database: str) -> Answers:
    answers = Answers()
    with psycopg.connect(database, prepare_threshold=None) as connection:
        made: dict[int, UUID] = {}
        for number, (name, fields) in enumerate(JOBS, 1):
            job = Task(number=number, **fields).job(name)
            connection.execute("insert into chaos.intent (number) values (%s)", (number,))
            made[number] = Client().enqueue(connection, job).id
        connection.commit()
    answers.acknowledge(made)
    return answers


@pytest.mark.parametrize(("point", "action"), COMBINATIONS)
def test_whatever_happens_there_nothing_is_lost_and_nothing_is_doubled(
    fleet: Fleet, book: Bookkeeper, *, point: str, action: Action
) -> None:
    database = fleet.place.dsn
    order = Order(fleet, point, action)
    answers = enqueue(database)
    assert fleet.wait(order.is_carried_out, SECONDS), f"nobody came by {point}"
    assert fleet.wait(lambda: not any(record.left_over(database).values()), SECONDS)
    found = record.read(database)
    assert verdict.judge(answers, found) == []
    mine = {str(job.id) for job in found.jobs} | {str(one.job_id) for one in found.news.routed}
    acts = [act for act in book.acts() if act.job_id in mine]
    outside = verdict_outside.judge(acts, found, [])
    assert outside.findings == []
    assert verdict_events.judge(Answers(), found, acts) == []
    # Four of the jobs, and one for each event that was told to the ledger.
    assert (len(found.news.published), outside.acts) == (3, 4 + 3)
    assert fleet.unexpected == []


def test_every_point_of_the_registry_is_in_the_code_and_no_other() -> None:
    code, functions = Path(hudhud.__file__).parent, migrate.SQL / "functions"
    assert isinstance(functions, Path)
    in_code = _named(r'(?:reach|_stopped_at)\("([a-z_.]+)"\)', code.rglob("*.py"))
    in_functions = _named(r"hudhud\.reach\('([a-z_.]+)'\)", functions.rglob("*.sql"))
    assert in_code == {*failpoint.POINTS}
    assert in_functions == {*failpoint.SQL_POINTS}


def _named(pattern: str, files: Iterable[Path]) -> set[str]:
    return {name for file in files for name in re.findall(pattern, file.read_text("utf-8"))}


def test_every_point_and_every_way_to_fail_is_tried() -> None:
    points = {*failpoint.POINTS, *failpoint.SQL_POINTS}
    assert {*POINTS, *SQL_POINTS} == points
    assert set(COMBINATIONS) == {(point, action) for point in points for action in ACTIONS}
