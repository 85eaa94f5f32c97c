"""Approvals that are forged, replayed, tampered with, expired or somebody else's: none lets a call run.

`OUTRIDER_FORGERIES` says how many are tried; a failure names the seed that repeats them.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from sqlalchemy import bindparam, update

from db.clock import moment, stamp
from db.ids import new_id
from db.rows import approvals
from db.rows.approvals import ApprovalDecision, Held, NewApproval, digest
from db.rows.endings import CancelWish, cancel
from db.rows.executions import Place
from db.rows.transcript import ToolStart, reply, settle
from db.status import ExecutionStatus
from db.store.unit import Statement, Write
from db.tables import approvals as table
from tests.db.store import Store, ending, message, model_call, open_store, outcome, question, tool_start

FORGERIES = int(os.environ.get("OUTRIDER_FORGERIES", "200"))
SEED = int(os.environ.get("OUTRIDER_SEED", "0")) or random.SystemRandom().randrange(2**32)
EXPIRE = update(table).where(table.c.id == bindparam("approval")).values(expires_at=bindparam("past"))
PEOPLE = (None, "ann", "bob", "")


@dataclass(frozen=True)
class Case:
    """A call that waits for a person."""

    store: Store
    dice: random.Random
    place: Place
    tool: ToolStart
    asked: NewApproval

    @property
    def held(self) -> Held:
        return Held(self.asked.id, self.tool.id, self.place.id, 1)

    def decision(self, **more: Any) -> ApprovalDecision:
        """The word of whom it concerns."""
        word = ApprovalDecision(self.asked.id, self.asked.arguments_hash, True, "Ada", principal=self.asked.principal)
        return replace(word, **more)

    async def decided(self, **more: Any) -> None:
        assert (await self.store.apply(approvals.decide(self.decision(**more), []))).held

    async def used(self) -> None:
        assert (await self.store.apply(approvals.use(self.held, self.asked.arguments_hash, {}))).held

    async def ended(self) -> None:
        """One of the ways in which nobody waits for the answer any more."""
        wish = CancelWish(self.place.id, "Ada", "enough")
        ways = [cancel(wish), ending(self.place, ExecutionStatus.FAILED), settle(outcome(self.tool), [])]
        assert (await self.store.apply(self.dice.choice(ways))).held

    def elsewhere(self) -> Held:
        """The same approval, for something it was not given for."""
        change: dict[str, Any] = self.dice.choice(
            [{"call": new_id()}, {"execution": new_id()}, {"attempt": 2}, {"approval": new_id()}]
        )
        return replace(self.held, **change)

    def tampered(self) -> str:
        """The digest of arguments that are not those that were shown."""
        arguments = {**json.loads(self.tool.arguments), "force": self.dice.choice([True, 1, "yes", None])}
        others = [digest(self.tool.server, self.tool.tool, arguments), digest("", self.tool.tool, {}), "", "*"]
        return self.dice.choice(others)


async def waiting(store: Store, dice: random.Random, *, expired: bool = False) -> Case:
    """A new execution that asks."""
    place = await store.running()
    said = message(place, 1, "reply")
    arguments = json.dumps({"what": dice.choice(["everything", "nothing"]), "depth": dice.randrange(3)})
    tool = replace(tool_start(place, said, tool="shop.delete"), arguments=arguments, status="waiting")
    new = question(tool, principal=dice.choice(PEOPLE[:2]))
    if expired:
        new = replace(new, expires_at=stamp(moment(stamp())))
    await store.apply(reply(1, model_call(place), said, [tool], []))
    assert (await store.apply(approvals.request(new, 1, []))).held
    return Case(store, dice, place, tool, new)


# -- forgeries: each brings a case into a state and returns the write that must be refused -----------------------------


async def invented_decision(case: Case) -> Write:
    made_up = case.dice.choice([new_id(), case.place.id, case.tool.id, "", case.asked.id[:-1], "%"])
    return approvals.decide(case.decision(approval=made_up), [])


async def decision_about_other_arguments(case: Case) -> Write:
    return approvals.decide(case.decision(shown=case.tampered()), [])


async def foreign_decision(case: Case) -> Write:
    others = [who for who in PEOPLE if who is not None and who != case.asked.principal]
    return approvals.decide(case.decision(principal=case.dice.choice(others)), [])


async def second_decision(case: Case) -> Write:
    await case.decided(approved=case.dice.random() < 0.5)
    return approvals.decide(case.decision(), [])


async def late_decision(case: Case) -> Write:
    end = case.dice.choice([approvals.EXPIRED, approvals.WITHDRAWN])
    assert (await case.store.apply(approvals.close(case.held, end, []))).held
    return approvals.decide(case.decision(), [])


async def expired_decision(case: Case) -> Write:
    old = await waiting(case.store, case.dice, expired=True)
    return approvals.decide(old.decision(), [])


async def decision_for_nobody(case: Case) -> Write:
    await case.ended()
    return approvals.decide(case.decision(), [])


async def use_without_a_decision(case: Case) -> Write:
    return approvals.use(case.held, case.asked.arguments_hash, {})


async def use_of_a_refusal(case: Case) -> Write:
    await case.decided(approved=False)
    return approvals.use(case.held, case.asked.arguments_hash, {})


async def use_with_other_arguments(case: Case) -> Write:
    await case.decided()
    return approvals.use(case.held, case.tampered(), {})


async def use_for_something_else(case: Case) -> Write:
    await case.decided()
    return approvals.use(case.elsewhere(), case.asked.arguments_hash, {})


async def use_of_another_approval(case: Case) -> Write:
    other = await waiting(case.store, case.dice)
    await other.decided()
    return approvals.use(replace(case.held, approval=other.asked.id), other.asked.arguments_hash, {})


async def second_use(case: Case) -> Write:
    await case.decided()
    await case.used()
    return approvals.use(case.held, case.asked.arguments_hash, {})


async def use_of_an_expired_approval(case: Case) -> Write:
    await case.decided()
    past = {"approval": case.asked.id, "past": stamp()}
    await case.store.apply(Write([Statement(EXPIRE, past, guard=True)]))
    return approvals.use(case.held, case.asked.arguments_hash, {})


async def second_use_where_the_call_waits_again(case: Case) -> Write:
    await case.decided()
    await case.used()
    again = replace(case.asked, id=new_id(), kind="repeat")
    assert (await case.store.apply(approvals.request(again, 1, []))).held
    return approvals.use(case.held, case.asked.arguments_hash, {})


async def use_after_the_end(case: Case) -> Write:
    await case.decided()
    await case.ended()
    return approvals.use(case.held, case.asked.arguments_hash, {})


FORGED: list[Callable[[Case], Awaitable[Write]]] = [
    invented_decision,
    decision_about_other_arguments,
    foreign_decision,
    second_decision,
    late_decision,
    expired_decision,
    decision_for_nobody,
    use_without_a_decision,
    use_of_a_refusal,
    use_with_other_arguments,
    use_for_something_else,
    use_of_another_approval,
    use_of_an_expired_approval,
    second_use,
    second_use_where_the_call_waits_again,
    use_after_the_end,
]


async def test_no_forged_replayed_tampered_expired_or_foreign_approval_is_accepted(tmp_path: Path) -> None:
    accepted: list[str] = []

    async def attack(number: int) -> None:
        dice = random.Random(f"{SEED} {number}")
        forge = dice.choice(FORGED)
        forged = await forge(await waiting(store, dice))
        if (await store.apply(forged)).held:
            accepted.append(f"{forge.__name__} number {number} of seed {SEED}")

    async with open_store(tmp_path / "outrider.db") as store:
        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                for number in range(FORGERIES):
                    group.start_soon(attack, number, name=f"forgery {number}")
            honest = await waiting(store, random.Random(SEED))
            await honest.decided()
            await honest.used()

        assert accepted == []
        running = store.sql("select id from tool_calls where status = 'started'")
        allowed = store.sql("select tool_call_id from approvals where used_at is not null and decision = 'approved'")
        assert {row["id"] for row in running} <= {row["tool_call_id"] for row in allowed}
