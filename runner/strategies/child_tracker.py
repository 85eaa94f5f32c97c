"""The children of a strategy that asks no model itself: which step each one carries out, and how each ended.

Owns reading the inbox of such an execution, storing what was read as messages, and passing messages on to children. A step
is spawned once: rows know which child carries out which step, so a resumed execution finds every child. It decides
nothing; strategies do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from pydantic_core import from_json, to_json

from db.ids import new_id
from db.rows.reads import Record
from db.rows.transcript import MessageDraft
from db.status import ExecutionStatus
from runner.core.history import Past, end_of
from runner.core.inbox import Item
from runner.core.spawn import SpawnRequest
from runner.core.verdict import Dismissal
from runner.errors import Refusal
from runner.messages import clean
from runner.prompt.deliveries import delivery_message
from runner.record import facts, turn_facts
from runner.record.old_messages import data_of
from runner.result import BUDGETS, Outcome, Problem, Result, failed, partial
from runner.roles import CONCLUDING, STEP
from runner.strategies.context import Work


class Seating:
    """Tracks children by step: which child carries out each step, and how each child ended."""

    def __init__(self, work: Work, name_of: Callable[[Record], str]) -> None:
        self._work = work
        self._name_of = name_of
        """Reads the step id from a child's row."""
        self._notebook = Notebook(work)
        self.taken: dict[str, str] = {}
        """Child ids by step id."""
        self.ends: dict[str, Item] = {}
        """Deliveries of the children that have ended, by child id."""
        self._said: list[Item] = []
        """Messages to this execution; every child gets them, also one that is spawned later."""
        self.unpaid: str | None = None
        """The reason a spawn was refused for lack of budget, if one was."""
        self.asked = False
        """Whether this execution was asked to conclude."""

    def restore(self, past: Past) -> None:
        """Restore children and messages from rows. Of an execution that this one continues only successful children count.
        Its final answer does not: the answer is composed again from all results.
        """
        self._notebook.restore(past)
        for row in past.children:
            status = ExecutionStatus(row["status"])
            if row["parent_execution_id"] in past.earlier and not _stands(row):
                continue
            self.taken[self._name_of(row)] = row["id"]
            if status.is_terminal:
                self.ends[row["id"]] = end_of(row)
            if status is ExecutionStatus.SKIPPED and row["reason"] in BUDGETS:
                self.unpaid = row["reason"]
        read = {row["id"] for row in past.own.deliveries if row["consumed_at"] is not None}
        self._said = [*_wish(past), *(item for item in past.was("message") if item.id in read)]
        self.asked = any(item.id in read for item in past.was("wrap_up"))

    @property
    def why_stop(self) -> str | None:
        """Why no further child may be spawned; None if one may."""
        return self._work.allowance.wrap_up or ("asked" if self.asked else None) or self.unpaid

    async def heed_again(self) -> None:
        """Repeat a request to conclude after a restart: some running children may not have received it."""
        if self.asked:
            await self._work.children.settle(cancel=False)

    def end_in(self, seat: str) -> Item | None:
        """How the child of a step ended; None while it runs or if there is none."""
        return self.ends.get(self.taken.get(seat, ""))

    def text_of(self, seat: str) -> str:
        """The output of a step's child; empty if it has none."""
        child = self._work.children.ended.get(self.taken.get(seat, ""))
        return child.result.text if child is not None and child.result is not None and child.result.output else ""

    async def give(self, seat: str, request: SpawnRequest) -> str:
        """Spawn a child for a step, unless the step has one; returns the child's id. Raises Refusal.

        If the budget does not cover the child, it gets a skipped row with that reason.
        """
        if seat not in self.taken:
            told = request
            if request.start.status == ExecutionStatus.PENDING:
                told = replace(request, messages=tuple(self._said))
            try:
                child = await self._work.children.spawn(told)
            except Refusal as refusal:
                if refusal.kind != "budget":
                    raise
                self.unpaid = refusal.context["reason"]
                child = await self._work.children.spawn(request.starting(gated=False, status="skipped", reason=self.unpaid))
            self.taken[seat] = child.id
        return self.taken[seat]

    async def result_in(self, seat: str) -> Result:
        """Wait for the child of a step and return its result. The child receives all messages to this execution."""
        await self.repeat_what_was_said()
        await self.until_ended([seat])
        end = self.end_in(seat)
        if end is None or end.result is None:
            return partial("", self.unpaid or "nobody_answered")
        status, answer = end.result.status, end.answer
        if answer is None or status in ("cancelled", "blocked", "skipped"):
            known = answer.errors if answer is not None else ()
            problem = known[0] if known else Problem(status, f"{end.result.agent} ended {status}")
            return failed(problem, answer.text if answer is not None and answer.output else "")
        return replace(answer, metadata={key: value for key, value in answer.metadata.items() if key == "warnings"})

    async def deny(self, seat: str, request: SpawnRequest, refusal: Refusal) -> None:
        """Give a step to an agent that is not permitted: a blocked row with the reason."""
        child = await self.give(seat, request.starting(gated=True))
        problem = Problem(refusal.kind, str(refusal), recoverable=False, context=refusal.context)
        self._work.children.dismiss(child, Dismissal("blocked", problem))

    async def repeat_what_was_said(self) -> None:
        """Pass on all messages; a child that has a message already does not get it again."""
        for item in self._said:
            await self._work.children.pass_on(item)

    async def until_ended(self, seats: Iterable[str], *, one: bool = False) -> None:
        """Wait until the children of all these steps have ended, or one; messages are passed on meanwhile."""
        work, children = self._work, [self.taken[seat] for seat in seats]
        await self.read()
        if not (waits := work.inbox.any_open(children)):
            return
        work.recorder.record_nowait(facts.Waiting(work.place, "children"))
        while waits:
            await work.inbox.until_ended(children, one=one)
            await self.read()
            waits = work.inbox.any_open(children) and not (one and any(child in self.ends for child in children))
        await self.read()  # deliveries that arrived during the last read
        work.recorder.record_nowait(facts.Waiting(work.place, None))

    async def read(self) -> None:
        """Consume the inbox."""
        for item in await self._notebook.read():
            await self._heed(item)

    async def _heed(self, item: Item) -> None:
        if item.result is not None:
            self.ends[item.result.execution_id] = item
        elif item.kind == "message":
            self._said.append(item)
            await self._work.children.pass_on(item)
        elif item.kind == "wrap_up" and not self.asked:
            self.asked = True
            await self._work.children.settle(cancel=False)


def _stands(row: Record) -> bool:
    """Whether the work of an earlier execution's child still counts for the execution that continues it."""
    again = row["role"] in CONCLUDING or (row["role"] == STEP and row["outcome"] == Outcome.BLOCKED)
    return row["status"] == ExecutionStatus.COMPLETED and not again


def _wish(past: Past) -> Iterator[Item]:
    """The message given when this execution was told to continue another one, if any; children receive it."""
    if past.earlier:
        first = past.own.messages[0]
        if not data_of(first).get("carry_on"):
            text = from_json(first["content"])[0]["text"]
            yield Item(first["id"], "message", text, by="its caller")


class Notebook:
    """The stored messages of an execution after its first one."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._position = 1

    def restore(self, past: Past) -> None:
        """Continue after the last stored message."""
        self._position = max((row["position"] for row in past.own.messages), default=0) + 1

    async def read(self) -> Sequence[Item]:
        """Drain the inbox; the deliveries are consumed in the transaction that stores the message."""
        work, items = self._work, self._work.inbox.waiting
        if not items:
            return items
        message = delivery_message(items, work.inbox.pending)
        content = clean(to_json(message.content).decode())
        data = to_json(message.data).decode()
        draft = MessageDraft(new_id(), work.place.id, self._position, message.role, message.kind, content, data)
        consumed = [item.id for item in items]
        fact = turn_facts.Said(work.place, work.epoch, draft, consumed)
        await work.recorder.record_fenced(fact, work.place.id, shielded=True)
        self._position += 1
        work.inbox.took(*consumed)
        return items
