"""Approvals: the open questions of this process, and the one way an answer reaches the execution that waits.

Rows are the truth: an answer is a guarded write, from any process, and the waiting execution is notified afterwards. A
missed notification is found in the rows. Must not know: how a person is asked, or what the question is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from db.clock import stamp
from db.latch import Latch
from db.rows import approvals
from db.rows.approvals import ApprovalDecision, NewApproval, Questions, Row
from db.rows.executions import Place, event
from db.store.unit import Write
from runner.record.facts import shown
from runner.record.recorder import Recorder
from runner.snapshot import Question


def outcome_of(row: Row) -> str:
    """How a question ended, for a person who answers too late: the decision, who made it and when."""
    if row["decision"] is None:
        expired = row["expires_at"] <= stamp()
        return f"approval `{row['id']}` " + (f"expired at {row['expires_at']}" if expired else "is no longer open")
    by = f" by {row['decided_by']}" if row["decided_by"] else ""
    why = f": {row['reason']}" if row["reason"] else ""
    return f"approval `{row['id']}` was {row['decision']}{by} at {row['decided_at']}{why}"


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """A person's answer to a question."""

    approved: bool
    by: str
    reason: str = ""
    principal: str | None = None
    """The principal who answers; None on this machine."""


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A call waits for a person."""

    place: Place
    agent: str
    attempt: int
    new: NewApproval
    arguments: str

    def write(self) -> Write:
        new = self.new
        payload = {
            "id": new.id,
            "call": new.tool_call_id,
            "kind": new.kind,
            "agent": self.agent,
            "tool": new.tool,
            "arguments": shown(self.arguments),
            "expires_at": new.expires_at,
        }
        return approvals.request(new, self.attempt, [event(self.place, "approval.requested", payload)])


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """A person decided whether a call may run."""

    place: Place
    tool: str
    decision: ApprovalDecision

    def write(self) -> Write:
        made = self.decision
        decision = approvals.APPROVED if made.approved else approvals.DENIED
        payload = {"id": made.approval, "tool": self.tool, "decision": decision, "by": made.by, "reason": made.reason}
        return approvals.decide(made, [event(self.place, "approval.decided", payload)])


class Approvals:
    """The questions of one service."""

    def __init__(self, recorder: Recorder, questions: Questions) -> None:
        self._recorder, self._questions = recorder, questions
        self._waiting: dict[str, Latch] = {}
        self._news: Latch | None = None
        """None while no caller waits for new questions."""
        self._known: set[str] = set()
        """The open questions of other processes at the last look."""

    # -- asked by executions -------------------------------------------------------------------------------------------

    def expect(self, approval: str) -> Latch:
        """Register a waiter for a decision. Call it before asking, so that no answer is missed."""
        return self._waiting.setdefault(approval, Latch())

    def forget(self, approval: str) -> None:
        """Remove the waiter."""
        self._waiting.pop(approval, None)

    def announce(self) -> None:
        """Notify that a question was asked."""
        if self._news is not None:
            self._news.set()
            self._news = None

    # -- answered by people --------------------------------------------------------------------------------------------

    async def open(self, top: str | None = None) -> Sequence[Question]:
        """The open questions, of all executions or of one subtree, oldest first."""
        return [Question.of_row(row) for row in await self._questions.open(top)]

    async def decided(self, top: str) -> Sequence[Row]:
        """The closed questions of one subtree, latest first."""
        return await self._questions.decided(top)

    @property
    def news(self) -> Latch:
        """Set when a question is asked. Take it before looking at the open ones, and wait for it afterwards."""
        if self._news is None:
            self._news = Latch()
        return self._news

    async def decide(self, question: Question, word: ApprovalAnswer) -> bool:
        """Answer a question; False if it is closed already, or this person may not answer it."""
        return await self.decide_shown(question, question.shown, word)

    async def decide_shown(self, question: Question, shown: str, word: ApprovalAnswer) -> bool:
        """Like `decide`, where the person saw the question earlier: the call must still be the one they saw."""
        parents = question.parent_execution_id, question.root_execution_id
        place = Place(question.execution_id, *parents, question.session_id)
        decision = ApprovalDecision(question.id, shown, word.approved, word.by, word.reason, word.principal)
        held = (await self._recorder.record(ApprovalDecided(place, question.tool, decision), shielded=True)).held
        if held and question.id in self._waiting:
            self._waiting[question.id].set()
        return held

    async def look(self) -> None:
        """Another process wrote: notify of questions it asked, and of questions it answered."""
        if self._news is not None:
            known, self._known = self._known, {row["id"] for row in await self._questions.open()}
            if not self._known <= known:
                self.announce()
        if self._waiting:
            for row in await self._questions.those(list(self._waiting)):
                if row["decision"] is not None and row["id"] in self._waiting:
                    self._waiting[row["id"]].set()
