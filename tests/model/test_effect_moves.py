"""Random verbs of effects: the database and EFFECT_MOVES agree on every state and every refusal."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any, Final

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from typing_extensions import override

from hudhud.domain.effect import EFFECT_MOVES, OPEN, EffectState
from tests.support.verbs import Verbs

if TYPE_CHECKING:
    from tests.support.verbs import Row

EXAMPLES: Final = int(os.environ.get("HUDHUD_MODEL_EXAMPLES", "20"))


class Effects(RuleBasedStateMachine):
    """One effect, met by several jobs, closed by senders that may have been overtaken."""

    dsn: str

    def __init__(self) -> None:
        super().__init__()
        self.connection = psycopg.connect(self.dsn, autocommit=True, prepare_threshold=None)
        self.connection.execute("begin")
        self.db = Verbs(self.connection)
        for _ in range(3):
            self.db.enqueue()
        self.claims = [self.db.claim_one() for _ in range(3)]
        self.state: EffectState | None = None
        self.sends = 0
        self.effect_id: Any = None

    @override
    def teardown(self) -> None:
        self.connection.execute("rollback")
        self.connection.close()

    def move(self, name: str) -> bool:
        """Do a move of the model; return whether it is one."""
        assert self.state is not None
        to = EFFECT_MOVES[self.state].get(name)
        if to is not None:
            self.state = to
        return to is not None

    def intend(self, claim: Row, **options: object) -> Row:
        return self.db.answer(
            "intend",
            lease_id=claim.lease_id,
            place=1,
            tenant_id="default",
            key="k",
            name="pay",
            provider="bank",
            reconcile="none",
            fingerprint="f",
            root_id=self.claims[0].job_ids[0],
            send_seconds=0.0,
            settle_seconds=0.0,
            token=uuid.uuid4(),
            **options,
        )

    @rule(who=st.integers(0, 2))
    def meet(self, who: int) -> None:
        was = self.state
        found = self.intend(self.claims[who])
        self.effect_id = found.effect_id
        if was is None:
            self.state, self.sends = EffectState.INTENDED, 1
        else:
            assert self.move("meet")
            self.sends += was is EffectState.NOT_DONE
        expected = {None: "send", EffectState.NOT_DONE: "send", EffectState.DONE: "done"}
        assert found.verdict == expected.get(was, "open")
        assert found.sends == self.sends

    @rule(who=st.integers(0, 2), behind=st.integers(0, 1))
    def send_again(self, who: int, behind: int) -> None:
        if self.state not in OPEN:
            return
        found = self.intend(self.claims[who], after_send=self.sends - behind)
        is_right = behind == 0
        assert self.move("send_again" if is_right else "meet")
        self.sends += is_right
        assert found.verdict == ("send" if is_right else "open")

    @rule(
        state=st.sampled_from(["done", "not_done", "unknown"]),
        behind=st.integers(0, 1),
    )
    def record(self, state: str, behind: int) -> None:
        if self.state is None:
            return
        is_repeat = behind == 0 and self.state == state
        is_right = behind == 0 and self.move(f"record_{state}")
        answer = self.db.answer(
            "close_effect", effect_id=self.effect_id, sends=self.sends - behind, state=state
        )
        assert answer == (is_right or is_repeat)

    @rule(decision=st.sampled_from(["done", "not_done"]))
    def decide(self, decision: str) -> None:
        if self.state is None:
            return
        words = {"effect_id": self.effect_id, "decision": decision, "actor": "a", "reason": "r"}
        if self.move(f"decide_{decision}"):
            self.db.answer("decide_effect", **words)
        else:
            with self.db.refused("HH007"):
                self.db.answer("decide_effect", **words)

    @invariant()
    def agrees(self) -> None:
        rows = self.db.rows("select state, sends from hudhud.effect")
        expected = [] if self.state is None else [(self.state, self.sends)]
        assert [(row.state, row.sends) for row in rows] == expected


def test_the_states_of_effects_are_those_of_the_table(database: str) -> None:
    class OfDatabase(Effects):
        dsn = database

    run_state_machine_as_test(
        OfDatabase,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
