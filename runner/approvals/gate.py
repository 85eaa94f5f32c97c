"""The approval gate: one execution asks a person whether a call may run, and waits for the answer.

Owns the wait: the clocks of the execution and its ancestors stop, and it ends with an answer, at its expiry, with a request
to wrap up, or with the execution. Re-entrant: a question asked before a crash is found again, and so is its answer.
Invariant: an approved call is committed as started, by the write that uses up the approval, before it runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import anyio
from pydantic_core import to_json

from db.clock import moment, stamp
from db.ids import new_id
from db.latch import Latch
from db.rows import approvals
from db.rows.approvals import APPROVED, DENIED, EXPIRED, WITHDRAWN, Held, NewApproval, Questions, Row, digest
from db.rows.executions import Place
from db.tables import columns_of
from runner.approvals.approvals import ApprovalRequested, Approvals
from runner.core.allowance import Allowance
from runner.core.inbox import Inbox
from runner.messages import Tool, ToolCall
from runner.record import facts
from runner.record.recorder import Recorder
from runner.tools.builtin import refuse
from runner.tools.effects import without_answer
from runner.tools.protocol import ToolResult

Kind = Literal["gate", "repeat"]
"""Whether a call may run, or may run again after a crash cut it off and its effect is unknown."""

_WHY: Mapping[str, str] = {
    DENIED: "a person denied it",
    EXPIRED: "no approval in time",
    WITHDRAWN: "no approval before the wrap-up",
}
_ERROR_TYPES: Mapping[str, str] = {DENIED: "denied", EXPIRED: "approval_expired", WITHDRAWN: "approval_expired"}
_HINTS: Mapping[str, str] = {
    DENIED: "do not retry; continue without it, or say what cannot be done",
    EXPIRED: "continue without it, and say what remains to be done",
    WITHDRAWN: "answer with what you have, and say what remains to be done",
}


@dataclass(frozen=True, slots=True)
class ApprovalScope:
    """The execution that asks."""

    place: Place
    agent: str
    attempt: int
    principal: str | None
    seconds: float
    """How long a question stays open."""
    lineage: Sequence[tuple[str, Allowance]]
    """The execution and its ancestors, upwards: their clocks stop."""
    inbox: Inbox
    now: Callable[[str], None]
    """Sets the current activity."""
    resumes_elsewhere: Callable[[], bool]
    """Whether it is stopped without an end: then the question stays open for the process that resumes it."""

    @property
    def allowance(self) -> Allowance:
        return self.lineage[0][1]


class ApprovalGate:
    """Asks for approval, for one execution."""

    __slots__ = ("_approvals", "_asker", "_questions", "_recorder")

    def __init__(self, approvals: Approvals, recorder: Recorder, questions: Questions, asker: ApprovalScope) -> None:
        self._approvals, self._recorder, self._questions, self._asker = approvals, recorder, questions, asker

    async def allow(self, call: ToolCall, tool: Tool, kind: Kind = "gate") -> ToolResult | None:
        """None once the call may run and is committed as started; otherwise the result to show the model."""
        asker, wanted = self._asker, digest(tool.server, tool.label, call.arguments)
        earlier = await self._questions.of_call(call.row)
        if any(row["used_at"] is not None or row["kind"] == "repeat" for row in earlier):
            kind = "repeat"  # the call had started before, however often approval was asked since
        before = await self._asked_before(earlier, wanted)
        approval = before["id"] if before is not None else new_id()
        answered = self._approvals.expect(approval)  # before asking, so that no answer is missed
        held = Held(approval, call.row, asker.place.id, asker.attempt)
        try:
            if before is None:
                before = await self._ask(self._question(held, tool, wanted, kind), call)
            asker.now(f"waiting for approval of {tool.label}")
            row = await self._answer(held, tool, before, answered)
        except anyio.get_cancelled_exc_class():
            if not asker.resumes_elsewhere():
                self._recorder.record_nowait(facts.ApprovalClosed(asker.place, tool.label, held, WITHDRAWN))
            raise
        finally:
            self._approvals.forget(approval)
        deadlines = self._deadlines()
        if row["decision"] == APPROVED:
            used = approvals.use(held, wanted, deadlines)
            if (await self._recorder.record(used)).held:
                asker.now(f"calling {tool.label}")
                return None
        self._recorder.record_nowait(approvals.go_on(deadlines))
        return _refusal(tool, row)

    # -- the question --------------------------------------------------------------------------------------------------

    async def _asked_before(self, earlier: Sequence[Row], wanted: str) -> Row | None:
        """The question asked about a call before a restart, if it or its answer is still valid."""
        if not earlier or earlier[0]["used_at"] is not None:
            return None
        last = earlier[0]
        fresh = last["arguments_hash"] == wanted and last["expires_at"] > stamp()
        if fresh or last["decision"] not in (None, APPROVED):
            return last
        if last["decision"] is None:
            held = Held(last["id"], last["tool_call_id"], self._asker.place.id, self._asker.attempt)
            await self._recorder.record(facts.ApprovalClosed(self._asker.place, last["tool"], held, EXPIRED))
        return None

    def _question(self, held: Held, tool: Tool, wanted: str, kind: Kind) -> NewApproval:
        asker, now = self._asker, datetime.now(UTC)
        return NewApproval(
            id=held.approval,
            execution_id=asker.place.id,
            root_execution_id=asker.place.root_execution_id,
            tool_call_id=held.call,
            principal=asker.principal,
            kind=kind,
            tool=tool.label,
            arguments_hash=wanted,
            requested_at=stamp(now),
            expires_at=stamp(now + timedelta(seconds=asker.seconds)),
        )

    async def _ask(self, new: NewApproval, call: ToolCall) -> Row:
        asker = self._asker
        fact = ApprovalRequested(asker.place, asker.agent, asker.attempt, new, to_json(call.arguments).decode())
        await self._recorder.record_fenced(fact, asker.place.id)
        self._approvals.announce()
        return {**columns_of(new), "decision": None}

    # -- the answer ----------------------------------------------------------------------------------------------------

    async def _answer(self, held: Held, tool: Tool, row: Row, answered: Latch) -> Row:
        """The question once it is decided, or closed without a decision."""
        if row["decision"] is not None:
            return row
        seconds = (moment(row["expires_at"]) - datetime.now(UTC)).total_seconds()
        with self._asker.allowance.standing_still(), anyio.move_on_after(seconds) as waiting:
            await _first_of(answered.wait, self._asker.inbox.until_asked_to_wrap_up)
        self._asker.now(f"continuing after the question about {tool.label}")
        if not answered.is_set:
            end = EXPIRED if waiting.cancelled_caught else WITHDRAWN
            await self._recorder.record(facts.ApprovalClosed(self._asker.place, tool.label, held, end))
        [row] = await self._questions.those([held.approval])  # an answer that was committed first stands
        return row

    def _deadlines(self) -> dict[str, str]:
        """The new deadlines of the execution and its ancestors; those whose clocks are still stopped have none."""
        now = datetime.now(UTC)
        return {
            execution: stamp(now + timedelta(seconds=allowance.seconds_left))
            for execution, allowance in self._asker.lineage
            if not allowance.stands
        }


async def _first_of(*waits: Callable[[], Awaitable[None]]) -> None:
    async with anyio.create_task_group() as group:

        async def wait(each: Callable[[], Awaitable[None]]) -> None:
            await each()
            group.cancel_scope.cancel()

        for each in waits:
            group.start_soon(wait, each, name="wait for approval")


def _refusal(tool: Tool, row: Row) -> ToolResult:
    decision = row["decision"] if row["decision"] in _WHY else EXPIRED
    why = _WHY[decision] + (f": {row['reason']}" if row.get("reason") else "")
    if row["kind"] == "repeat":
        happened = f"a restart interrupted `{tool.label}`, and it was not run again: {why}"
        return without_answer("interrupted", happened, tool.effect, "check what it did")
    return refuse(_ERROR_TYPES[decision], f"`{tool.label}` was not run: {why}", _HINTS[decision])
