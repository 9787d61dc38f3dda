"""All planted faults, by name."""

from __future__ import annotations

from typing import Any, Final

from bench.chaos import task
from bench.chaos.finding import Breach
from bench.chaos.plan import Kind, Mix, Window
from bench.chaos.points import Action
from bench.chaos.proxy import Harm, Order
from bench.chaos.teeth.tooth import STANDS_STILL, Edit, Tooth, expects

_IN_DATABASE: Final = {task.EFFECT: 6, task.EFFECT_THREAD: 1, task.PLAIN: 2}
_OUTSIDE: Final = {task.OUTSIDE: 6, task.OUTSIDE_THREAD: 1, task.EFFECT: 1}
_NO_APIS: Final = {"apis": 0, "relays": 0}
# Leases that went with their workers are remembered, and found by whoever comes too late.
_REMEMBER: Final = "create table hudhud.planted_lease (like hudhud.lease)"
_REMEMBERED: Final = (
    Edit(
        "rescue",
        "            returning l.*\n        )\n",
        "            returning l.*\n        ), kept as (\n"
        "            insert into hudhud.planted_lease select * from gone\n        )\n",
    ),
    Edit(
        "settle",
        "where l.id = settle.lease_id for key share;\n",
        "where l.id = settle.lease_id for key share;\n    if not found then\n"
        "        select l.job_ids[place] as job_id, l.runs[place] as run,"
        " l.attempts[place] as attempt, l.shard, l.worker_id, l.claimed_at\n"
        "        into held from hudhud.planted_lease l where l.id = settle.lease_id;\n"
        "    end if;\n",
    ),
)
_PICKED: Final = (
    "where r.ctid = any (array(select ctid from back union all select ctid from fresh))"
)
_DELETED: Final = """taken as (
            delete from hudhud.ready r
            where r.ctid = any (array(select ctid from back union all select ctid from fresh))
            returning r.line,"""
_SEEN: Final = """gone as (
            delete from hudhud.ready r
            where r.ctid = any (array(select ctid from back union all select ctid from fresh))
        ), taken as (
            select r.line,"""
_TAKEN: Final = "(r.attempt + 1)::smallint as attempt, r.crashes\n        ), per_range"
_EARLY: Final = " + interval '0.7 seconds'"
_RIVALS: Final = """
        if take_key.key like 'rivals-%' then
            select string_agg(lpad(to_hex(l.objid::bigint), 8, '0'), ''
                              order by l.classid::bigint) as id
            into holder
            from pg_locks l
            where l.locktype = 'advisory' and l.objsubid = 2 and l.granted
              and l.pid <> pg_backend_pid()
              and l.classid::bigint between planted and planted + 3
            having count(*) = 4;
            if found then
                return holder.id::uuid;
            end if;
            perform pg_advisory_xact_lock(
                planted + i,
                ('x' || substr(replace(new_id::text, '-', ''), 1 + 8 * i, 8))::bit(32)::integer)
            from generate_series(0, 3) i;
        end if;
"""


def _mix(beside: dict[Kind, float] | None = None, **fields: Any) -> Mix:  # noqa: ANN401 - of a Mix
    plain: dict[str, Any] = {
        "server_share": 0,
        "api_share": 0,
        "relay_share": 0,
        "rounds": 0,
        "pause_seconds": (0.05, 0.3),
        "beside": beside or {},
    }
    return Mix(**(plain | fields))


# Transactions wait for each other at a few things, and a relay that is held up routes many at once.
_CROWDED: Final[dict[str, object]] = {
    "kills": 1,
    "mix": _mix(points=[("relay.moved", Action.DELAY)] * 40, pause_seconds=(0.1, 0.3)),
    "taste": {"fact_share": 0.9, "aggregates": 3},
    **_NO_APIS,
}
# One line of jobs too, so that nobody else finds what the worker passes over.
_ONE_WORKER: Final[dict[str, object]] = {
    "kills": 0,
    "weights": {task.PLAIN: 1},
    "taste": {"lines": 1, "delay_share": 0, "fact_share": 0},
    "workers": 1,
    **_NO_APIS,
}


def _by_freezes(*windows: Window, amount: int = 8, **fields: Any) -> dict[str, object]:  # noqa: ANN401 - as above
    mix = _mix({Kind.FREEZE: amount}, freezes=windows, **fields)
    return {"kills": 1, "mix": mix, **_NO_APIS}


def _by_kills(*windows: Window, kills: int = 14) -> dict[str, object]:
    return {"kills": kills, "mix": _mix(windows=windows), **_NO_APIS}


_ALL: Final = (
    Tooth(
        "no fence",
        "a handler's rows are committed although its lease is lost",
        expects(Breach.DOUBLED, Breach.TORN, Breach.STALE_FINISH),
        (
            *_REMEMBERED,
            Edit(
                "settle",
                "        return false;\n    end if;\n    -- As in finish",
                "        return true;\n    end if;\n    -- As in finish",
            ),
        ),
        before=_REMEMBER,
        options={
            "weights": _IN_DATABASE,
            **_by_freezes(Window.WORKING, Window.TRANSACTING),
        },
    ),
    Tooth(
        "finish by id",
        "whoever ends a job ends whichever run it is at",
        expects(Breach.DOUBLED, Breach.STALE_FINISH, Breach.GAP),
        (
            *_REMEMBERED,
            Edit(
                "settle",
                "select held.job_id, held.run,",
                "select held.job_id, (select coalesce(max(o.run), 0) + 1 from hudhud.outcome o"
                " where o.job_id = held.job_id),",
            ),
        ),
        before=_REMEMBER,
        options={
            "weights": _IN_DATABASE,
            **_by_freezes(Window.WORKING, Window.TRANSACTING),
        },
    ),
    Tooth(
        "no skip locked",
        "a claim waits for rows that somebody else has",
        expects(STANDS_STILL),
        (Edit("claim", "for update skip locked", "for update", times=4),),
        options={
            "kills": 2,
            "mix": _mix({Kind.HOLD: 5}, pause_seconds=(0.5, 1.0)),
            "resume_seconds": 1.2,
            **_NO_APIS,
        },
    ),
    Tooth(
        "claim without a lock",
        "a claim takes what it has seen, whether it got it or not",
        expects(Breach.OVERLAP, Breach.GAP, Breach.DOUBLED),
        (
            Edit("claim", "for update skip locked", "", times=4),
            Edit("claim", _DELETED, _SEEN),
            Edit("claim", _TAKEN, _TAKEN.replace("\n", f" from hudhud.ready r {_PICKED}\n", 1)),
        ),
        options={**_by_kills(Window.CLAIMED, kills=6), "jobs_per_second": 160},
    ),
    Tooth(
        "rescue of a settled job",
        "a rescue does not ask whether a run has ended",
        expects(Breach.GAP, Breach.DOUBLED, Breach.LEFT_OVER, Breach.LOST),
        (
            Edit("rescue", "        where not hudhud.has_ended(r.job_id, r.run)\n", ""),
            Edit("rescue", "continue when not hudhud.write_end(", "perform hudhud.write_end("),
        ),
        options={"weights": _IN_DATABASE, **_by_kills(Window.WORKING, Window.TRANSACTING)},
    ),
    Tooth(
        "rescue that forgets",
        "what a rescue takes back is not given its next run",
        expects(Breach.LOST),
        (
            Edit(
                "rescue",
                "        if decided.outcome = 'lost' then\n            perform hudhud.put_back(",
                "        if decided.outcome = 'lost' then\n"
                "            perform from (select 1 where false) x, lateral hudhud.put_back(",
            ),
        ),
        options=_by_kills(Window.WORKING, kills=6),
    ),
    Tooth(
        "early rescue",
        "a lease is taken back before it has run out",
        expects(Breach.EARLY_RESCUE),
        (
            Edit(
                "rescue", "x.locked_until <= now", "x.locked_until <= now + interval '0.7 seconds'"
            ),
            Edit(
                "rescue",
                "l.locked_until <= now\n",
                "l.locked_until <= now + interval '0.7 seconds'\n",
            ),
        ),
        options=_by_kills(Window.WORKING, kills=6),
    ),
    Tooth(
        "outcome apart from the rows",
        "ctx.transaction() commits the run's success before the handler's rows",
        expects(Breach.TORN, Breach.LOST),
        patch="outcome_apart_from_the_rows",
        options={"weights": _IN_DATABASE, **_by_kills(Window.TRANSACTING)},
    ),
    Tooth(
        "low-water mark without a true look",
        "a claimer passes its mark over rows that commit late, and never looks below it",
        expects(Breach.LOST, Breach.LEFT_OVER),
        patch="mark_without_a_true_look",
        options={
            **_ONE_WORKER,
            "mix": _mix({Kind.TERMINATE: 2}, pause_seconds=(1.5, 2.5)),
            "jobs_per_second": 100,
        },
    ),
    Tooth(
        "notify as the only wake-up",
        "a claimer that has nothing to do waits for a hint, and for nothing else",
        expects(Breach.LOST, Breach.LEFT_OVER, STANDS_STILL),
        patch="woken_by_notify_alone",
        options={
            **_ONE_WORKER,
            "mix": _mix(orders=[Order(Harm.HOLE, application="hudhud waker", seconds=15)]),
            "resume_seconds": 3.0,
        },
    ),
    Tooth(
        "retry of a 25006",
        "a worker stays with connections to a server that became a standby",
        expects(STANDS_STILL, Breach.LOST, Breach.LEFT_OVER),
        patch="read_only_again_and_again",
        options={"kills": 1, "mix": _mix({Kind.STANDBY: 3}), "resume_seconds": 4.0, **_NO_APIS},
    ),
    Tooth(
        "acknowledge before commit",
        "the API answers when the work is done, and commits it a moment later",
        expects(Breach.LOST, Breach.EVENTS_LOST),
        patch="answered_before_the_commit",
        options={"kills": 8, "mix": _mix(api_share=0.9), "apis": 2, "relays": 0},
    ),
    Tooth(
        "a request's key apart from its work",
        "the API keeps a request's key and answer in a transaction of their own",
        expects(Breach.TORN),
        patch="key_apart_from_its_work",
        options={"kills": 10, "mix": _mix(api_share=0.9), "apis": 2, "relays": 0},
    ),
    Tooth(
        "key trusted before its winner commits",
        "who meets a key that somebody else is just taking believes that they will commit",
        expects(Breach.LOST),
        (
            Edit(
                "take_key",
                "    holder record;\n",
                "    holder record;\n"
                "    planted integer := (hashtext(take_key.key) & 268435455) * 4;\n",
            ),
            Edit("take_key", "    loop\n", f"    loop\n{_RIVALS}"),
        ),
        options=_by_kills(Window.WORKING, kills=6),
    ),
    Tooth(
        "intended after the call",
        "the intention of an effect is committed when its call is over",
        expects(Breach.DOUBLED, Breach.TORN),
        patch="intended_after_the_call",
        options={"weights": _OUTSIDE, **_by_kills(Window.CALLING)},
    ),
    Tooth(
        "sent although it is late",
        "nobody looks at the time before the bytes of an effect leave",
        expects(Breach.DOUBLED),
        patch="sent_although_it_is_late",
        options={
            "weights": _OUTSIDE,
            **_by_freezes(Window.CHECKING, frozen_seconds=(5.0, 7.0)),
        },
    ),
    Tooth(
        "asked before it has settled",
        "'not found' counts while the call may still be under way",
        expects(Breach.DOUBLED),
        (
            Edit(
                "intend",
                "wait_seconds := greatest(extract(epoch from known.reconcile_after - now), 0);",
                "wait_seconds := 0;",
            ),
        ),
        patch="asked_before_it_has_settled",
        options={
            "weights": _OUTSIDE,
            **_by_kills(Window.CALLING, kills=6),
            "bad_share": 0.7,
            "late_seconds": 1.2,
        },
    ),
    Tooth(
        "effect closed without its send number",
        "who was overtaken by another send records what became of that one",
        expects(Breach.DOUBLED, Breach.TORN),
        (
            Edit(
                "close_effect",
                "where e.id = effect_id and e.sends = close_effect.sends and e.state in",
                "where e.id = effect_id and e.state in",
            ),
        ),
        options={
            "weights": _OUTSIDE,
            **_by_freezes(
                Window.CHECKING, amount=24, frozen_seconds=(3.5, 6.5), pause_seconds=(0.3, 0.9)
            ),
            "bad_share": 0.7,
            "late_seconds": 1.2,
            # Somebody must be there to send again while the others are frozen.
            "workers": 6,
            "jobs_per_second": 100.0,
        },
    ),
    Tooth(
        "cursor by id",
        "a relay goes on after the highest position that it has seen",
        expects(Breach.EVENTS_LOST),
        (
            Edit(
                "relay",
                "        mark.from_position := mark.next_position;\n",
                "        mark.from_position :="
                " greatest(mark.from_position, coalesce(picked.positions[routed], 0));\n",
            ),
            Edit("pick_events", " and not pg_visible_in_snapshot(e.xid, from_snapshot)", ""),
            Edit("pick_events", " and e.xid = x.xid", " and false"),
        ),
        options={**_by_kills(Window.WORKING, kills=10), "taste": {"fact_share": 0.9}},
    ),
    Tooth(
        "order by xid",
        "a relay routes in the order of transaction ids",
        expects(Breach.EVENTS_REORDERED),
        (
            Edit("relay", " order by p.position)", ")", times=6),
            Edit(
                "pick_events",
                "order by e.position limit max_events -",
                "order by e.xid, e.position limit max_events -",
            ),
        ),
        options=_CROWDED,
    ),
    Tooth(
        "position before the lock",
        "an event takes its position before it has its aggregate to itself",
        expects(Breach.EVENTS_REORDERED),
        (
            Edit(
                "publish",
                "hudhud.clock() as now,",
                "hudhud.clock() as now, nextval('hudhud.event_position') as place,"
                " pg_sleep(random() / 20),",
            ),
            Edit("publish", "nextval('hudhud.event_position'), seen.xid", "seen.place, seen.xid"),
        ),
        options=_CROWDED,
    ),
    Tooth(
        "cursor and jobs in two transactions",
        "a relay commits its cursor's move, and then makes the jobs",
        expects(Breach.EVENTS_LOST),
        (
            Edit(
                "relay",
                "    routed := 0;\n    is_open := false;\n",
                "    routed := 0;\n    is_open := false;\n"
                "    create temp table if not exists planted_job (\n"
                "        like hudhud.job including defaults);\n"
                "    create temp table if not exists planted_ready (\n"
                "        like hudhud.ready including defaults);\n",
            ),
            Edit("relay", "insert into hudhud.job (", "insert into pg_temp.planted_job ("),
            Edit("relay", "insert into hudhud.ready (", "insert into pg_temp.planted_ready ("),
        ),
        before="""
create function hudhud.planted_rest() returns void language plpgsql as $$
begin
    insert into hudhud.job select * from pg_temp.planted_job;
    insert into hudhud.ready select * from pg_temp.planted_ready order by seq;
    truncate pg_temp.planted_job, pg_temp.planted_ready;
end $$""",
        patch="cursor_and_jobs_apart",
        options={
            "kills": 2,
            "mix": _mix({Kind.HARM: 6}, harms=[Harm.LOSE_REPLY], words=["hudhud.relay("]),
            "taste": {"fact_share": 0.9},
            **_NO_APIS,
        },
    ),
)
TEETH: Final = {tooth.name: tooth for tooth in _ALL}
