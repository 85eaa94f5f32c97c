"""Approvals: the questions to people that wait in this process, and the one way an answer reaches them.

Owns who waits here. Rows are the truth: an answer is a guarded write, from whichever process, and whoever waits is told of
it afterwards; an answer nobody was told of is found in the rows. Must not know: how a person is asked, or what is at stake.
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
    """What became of a question, for a person who answers it too late: what was decided, who decided it and when."""
    if row["decision"] is None:
        expired = row["expires_at"] <= stamp()
        return f"approval `{row['id']}` " + (f"expired at {row['expires_at']}" if expired else "is not waited for any more")
    by = f" by {row['decided_by']}" if row["decided_by"] else ""
    why = f": {row['reason']}" if row["reason"] else ""
    return f"approval `{row['id']}` was {row['decision']}{by} at {row['decided_at']}{why}"


@dataclass(frozen=True, slots=True)
class Word:
    """What a person says to a question."""

    approved: bool
    by: str
    reason: str = ""
    principal: str | None = None
    """Whose word it is; None for somebody at this machine."""


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
        """None while nobody wants to hear of another question."""
        self._known: set[str] = set()
        """The questions that others put, when somebody last wanted to hear of them."""

    # -- asked by executions -------------------------------------------------------------------------------------------

    def expect(self, approval: str) -> Latch:
        """Be told when a question is decided. Before it is asked: then no answer can be missed."""
        return self._waiting.setdefault(approval, Latch())

    def forget(self, approval: str) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop(approval, None)

    def announce(self) -> None:
        """A question was put."""
        if self._news is not None:
            self._news.set()
            self._news = None

    # -- answered by people --------------------------------------------------------------------------------------------

    async def open(self, top: str | None = None) -> Sequence[Question]:
        """The open questions, everywhere or from one execution down, oldest first."""
        return [Question.of_row(row) for row in await self._questions.open(top)]

    async def decided(self, top: str) -> Sequence[Row]:
        """What became of the questions from one execution down that are over, the latest first."""
        return await self._questions.decided(top)

    @property
    def news(self) -> Latch:
        """Set when there is another question. Take it before looking, wait for it after."""
        if self._news is None:
            self._news = Latch()
        return self._news

    async def decide(self, question: Question, word: Word) -> bool:
        """Answer a question; False when it is answered, expired or void already, or not for this person to answer."""
        return await self.decide_shown(question, question.shown, word)

    async def decide_shown(self, question: Question, shown: str, word: Word) -> bool:
        """As `decide`, where the person saw the question earlier: what was seen must be what is asked."""
        parents = question.parent_execution_id, question.root_execution_id
        place = Place(question.execution_id, *parents, question.session_id)
        decision = ApprovalDecision(question.id, shown, word.approved, word.by, word.reason, word.principal)
        held = (await self._recorder.record(ApprovalDecided(place, question.tool, decision), shielded=True)).held
        if held and question.id in self._waiting:
            self._waiting[question.id].set()
        return held

    async def look(self) -> None:
        """Another process wrote: tell of questions it put, and those whose question it answered."""
        if self._news is not None:
            known, self._known = self._known, {row["id"] for row in await self._questions.open()}
            if not self._known <= known:
                self.announce()
        if self._waiting:
            for row in await self._questions.those(list(self._waiting)):
                if row["decision"] is not None and row["id"] in self._waiting:
                    self._waiting[row["id"]].set()
