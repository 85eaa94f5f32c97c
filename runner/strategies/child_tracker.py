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
from runner.core.history import History, end_of
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
from runner.strategies.context import StrategyContext


class ChildTracker:
    """Tracks children by step: which child carries out each step, and how each child ended."""

    def __init__(self, context: StrategyContext, name_of: Callable[[Record], str]) -> None:
        self._context = context
        self._name_of = name_of
        """Reads the step id from a child's row."""
        self._reader = InboxReader(context)
        self.child_ids: dict[str, str] = {}
        """Child ids by step id."""
        self.ends: dict[str, Item] = {}
        """Deliveries of the children that have ended, by child id."""
        self._said: list[Item] = []
        """Messages to this execution; every child gets them, also one that is spawned later."""
        self.unpaid: str | None = None
        """The reason a spawn was refused for lack of budget, if one was."""
        self.asked = False
        """Whether this execution was asked to conclude."""

    def restore(self, history: History) -> None:
        """Restore children and messages from rows. Of an execution that this one continues only successful children count.
        Its final answer does not: the answer is composed again from all results.
        """
        self._reader.restore(history)
        for row in history.children:
            status = ExecutionStatus(row["status"])
            if row["parent_execution_id"] in history.earlier and not _stands(row):
                continue
            self.child_ids[self._name_of(row)] = row["id"]
            if status.is_terminal:
                self.ends[row["id"]] = end_of(row)
            if status is ExecutionStatus.SKIPPED and row["reason"] in BUDGETS:
                self.unpaid = row["reason"]
        read = {row["id"] for row in history.own.deliveries if row["consumed_at"] is not None}
        self._said = [*_first_message(history), *(item for item in history.was("message") if item.id in read)]
        self.asked = any(item.id in read for item in history.was("wrap_up"))

    @property
    def why_stop(self) -> str | None:
        """Why no further child may be spawned; None if one may."""
        return self._context.allowance.wrap_up or ("asked" if self.asked else None) or self.unpaid

    async def reapply_wrap_up(self) -> None:
        """Repeat a request to conclude after a restart: some running children may not have received it."""
        if self.asked:
            await self._context.children.settle(cancel=False)

    def end_of_step(self, step_id: str) -> Item | None:
        """How the child of a step ended; None while it runs or if there is none."""
        return self.ends.get(self.child_ids.get(step_id, ""))

    def text_of(self, step_id: str) -> str:
        """The output of a step's child; empty if it has none."""
        child = self._context.children.ended.get(self.child_ids.get(step_id, ""))
        return child.result.text if child is not None and child.result is not None and child.result.output else ""

    async def spawn_step(self, step_id: str, request: SpawnRequest) -> str:
        """Spawn a child for a step, unless the step has one; returns the child's id. Raises Refusal.

        If the budget does not cover the child, it gets a skipped row with that reason.
        """
        if step_id not in self.child_ids:
            told = request
            if request.start.status == ExecutionStatus.PENDING:
                told = replace(request, messages=tuple(self._said))
            try:
                child = await self._context.children.spawn(told)
            except Refusal as refusal:
                if refusal.kind != "budget":
                    raise
                self.unpaid = refusal.context["reason"]
                child = await self._context.children.spawn(
                    request.starting(gated=False, status="skipped", reason=self.unpaid)
                )
            self.child_ids[step_id] = child.id
        return self.child_ids[step_id]

    async def result_of_step(self, step_id: str) -> Result:
        """Wait for the child of a step and return its result. The child receives all messages to this execution."""
        await self.repeat_messages()
        await self.until_ended([step_id])
        end = self.end_of_step(step_id)
        if end is None or end.result is None:
            return partial("", self.unpaid or "nobody_answered")
        status, answer = end.result.status, end.answer
        if answer is None or status in ("cancelled", "blocked", "skipped"):
            known = answer.errors if answer is not None else ()
            problem = known[0] if known else Problem(status, f"{end.result.agent} ended {status}")
            return failed(problem, answer.text if answer is not None and answer.output else "")
        return replace(answer, metadata={key: value for key, value in answer.metadata.items() if key == "warnings"})

    async def deny(self, step_id: str, request: SpawnRequest, refusal: Refusal) -> None:
        """Give a step to an agent that is not permitted: a blocked row with the reason."""
        child = await self.spawn_step(step_id, request.starting(gated=True))
        problem = Problem(refusal.kind, str(refusal), recoverable=False, context=refusal.context)
        self._context.children.dismiss(child, Dismissal("blocked", problem))

    async def repeat_messages(self) -> None:
        """Pass on all messages; a child that has a message already does not get it again."""
        for item in self._said:
            await self._context.children.pass_on(item)

    async def until_ended(self, step_ids: Iterable[str], *, one: bool = False) -> None:
        """Wait until the children of all these steps have ended, or one; messages are passed on meanwhile."""
        context, children = self._context, [self.child_ids[step_id] for step_id in step_ids]
        await self.read()
        if not (waits := context.inbox.any_open(children)):
            return
        context.recorder.record_nowait(facts.Waiting(context.place, "children"))
        while waits:
            await context.inbox.until_ended(children, one=one)
            await self.read()
            waits = context.inbox.any_open(children) and not (one and any(child in self.ends for child in children))
        await self.read()  # deliveries that arrived during the last read
        context.recorder.record_nowait(facts.Waiting(context.place, None))

    async def read(self) -> None:
        """Consume the inbox."""
        for item in await self._reader.read():
            await self._heed(item)

    async def _heed(self, item: Item) -> None:
        if item.result is not None:
            self.ends[item.result.execution_id] = item
        elif item.kind == "message":
            self._said.append(item)
            await self._context.children.pass_on(item)
        elif item.kind == "wrap_up" and not self.asked:
            self.asked = True
            await self._context.children.settle(cancel=False)


def _stands(row: Record) -> bool:
    """Whether the work of an earlier execution's child still counts for the execution that continues it."""
    again = row["role"] in CONCLUDING or (row["role"] == STEP and row["outcome"] == Outcome.BLOCKED)
    return row["status"] == ExecutionStatus.COMPLETED and not again


def _first_message(history: History) -> Iterator[Item]:
    """The message given when this execution was told to continue another one, if any; children receive it."""
    if history.earlier:
        first = history.own.messages[0]
        if not data_of(first).get("carry_on"):
            text = from_json(first["content"])[0]["text"]
            yield Item(first["id"], "message", text, by="its caller")


class InboxReader:
    """The stored messages of an execution after its first one."""

    def __init__(self, context: StrategyContext) -> None:
        self._context = context
        self._position = 1

    def restore(self, history: History) -> None:
        """Continue after the last stored message."""
        self._position = max((row["position"] for row in history.own.messages), default=0) + 1

    async def read(self) -> Sequence[Item]:
        """Drain the inbox; the deliveries are consumed in the transaction that stores the message."""
        context, items = self._context, self._context.inbox.waiting
        if not items:
            return items
        message = delivery_message(items, context.inbox.pending)
        content = clean(to_json(message.content).decode())
        data = to_json(message.data).decode()
        draft = MessageDraft(new_id(), context.place.id, self._position, message.role, message.kind, content, data)
        consumed = [item.id for item in items]
        fact = turn_facts.Said(context.place, context.epoch, draft, consumed)
        await context.recorder.record_fenced(fact, context.place.id, shielded=True)
        self._position += 1
        context.inbox.took(*consumed)
        return items
