"""Restore: the start of an execution that was taken over, or that continues an ended one.

Owns the order, top-down: usage → history → open children, in its own task group → strategy. Resume needs no other
mechanism: rows hold the progress, and strategies are re-entrant.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from db.rows.adoption import had_waited
from db.rows.reads import Record
from registry import AgentSpec, Limits, UnknownName
from runner.core.execution import Environment, Execution, Start
from runner.core.history import History, TreeUsage, read_history
from runner.core.inbox import Item
from runner.core.spawn import SpawnRequest
from runner.core.verdict import Cause, End
from runner.core.views import snapshot_of_row
from runner.errors import Fenced, Interrupted, Refusal
from runner.record import facts
from runner.strategies.requests import again


class Continued(Start):
    """The start of a new execution that continues an ended one, from its transcript."""

    has_rows = True

    async def restore(self, execution: Execution) -> End | None:
        """Restore the history of the ended execution."""
        await restore_from(execution, waited=False)
        return None


class Resumed(Start):
    """The start of an execution that was taken over from a dead process."""

    has_rows = True

    def __init__(self, row: Record, usage: TreeUsage, unfit: str | None = None) -> None:
        self._row = row
        self._usage = usage
        """The usage of its tree so far."""
        self._unfit = unfit
        """Why it cannot be resumed, if it cannot."""
        self._restarted = False

    @property
    def row(self) -> Record:
        """Its row, as last read."""
        return self._row

    @property
    def needs_slot(self) -> bool:
        """Whether it will work: with a cancel request from before the takeover it only has to end."""
        return self.row["cancel_requested_at"] is None

    @asynccontextmanager
    async def turn(self, execution: Execution) -> AsyncIterator[None]:
        """Limits how many executions of its level are restored at once."""
        slot = execution.tree.returning[len(execution.node.path)].reserve()
        try:
            if slot.queue_position:
                await slot.wait()
            yield
        finally:
            slot.release()

    async def begin(self, execution: Execution) -> None:
        """Restore usage and clock; the time without a process does not count. Raises Fenced or Interrupted."""
        usage = self._usage
        await usage.read(execution.services.database.reads)
        execution.allowance.remember(*usage.spent(self.row))
        execution.life.created_at -= usage.lived(self.row)
        left = usage.remaining(self.row)
        if left is not None and self.needs_slot:  # with a cancel request it is not resumed
            execution.allowance.resume(left, usage.allowed(self.row))
            deadline = self.row["deadline_at"] if usage.stands(self.row) else execution.deadline()
            fact = facts.ExecutionResumed(execution.place, execution.name, execution.life.epoch, deadline)
            if not (await execution.services.recorder.record(fact)).held:
                await self._read_again(execution)
        if self._unfit is not None:
            raise Interrupted(self._unfit)

    async def _read_again(self, execution: Execution) -> None:
        """The resume was refused: raises Fenced if another process owns it; else a cancel was requested meanwhile."""
        row = await execution.services.database.reads.execution(execution.id)
        if row is None or row["attempt"] != execution.life.epoch or row["cancel_requested_at"] is None:
            raise Fenced(execution.id)
        self._row = row

    async def restore(self, execution: Execution) -> End | None:
        """Restore its history; its end, if it is not to be resumed."""
        await restore_from(execution, waited=had_waited(self.row))
        if self.row["cancel_requested_at"] is not None:
            return Cause("user", self.row["cancelled_by"] or "", self.row["cancel_reason"] or "")
        if self.row["started_at"] is not None and execution.request.agent.on_restart == "fail":
            return Interrupted("`on_restart: fail` forbids resuming it")
        return None

    def restart_children(self, execution: Execution) -> None:
        """Restart its open children in its task group, once, before its strategy."""
        if not self._restarted and execution.children.group is not None:
            for row in self._usage.open_children(self.row):
                execution.adopt(resumed(execution.environment, row, self._usage, execution))
        self._restarted = True


async def restore_from(execution: Execution, *, waited: bool) -> None:
    """Restore an execution and its strategy from its rows and those of the executions it continues."""
    request, children = execution.request, execution.children
    assert execution.strategy is not None
    history = await read_history(execution.services.database.reads, execution.id, request.continues)
    history = replace(history, waited=waited)
    ended = (child for child in history.children if child["finished_at"] is not None)
    children.ended.update({child["id"]: snapshot_of_row(child) for child in ended})
    own = (child["position"] for child in history.children if child["parent_execution_id"] == execution.id)
    children.spawned = max(own, default=0)
    children.keys = {child["idempotency_key"]: child["id"] for child in history.children if child["idempotency_key"]}
    execution.state.prompt = history.prompt
    execution.strategy.restore(history)
    for item in (*history.unread(), *await _inherited(execution, history)):
        execution.inbox.put(item)


async def _inherited(execution: Execution, history: History) -> Sequence[Item]:
    """Deliver the ends that the continued execution had not read."""
    items = history.unheard()
    if items:
        children = [item.result.execution_id for item in items if item.result is not None]
        fact = facts.ResultsPassedOn(execution.place, execution.life.epoch, children)
        await execution.services.recorder.record_fenced(fact, execution.id, shielded=True)
    return items


def resumed(
    environment: Environment, row: Record, usage: TreeUsage, parent: Execution | None = None, unfit: str | None = None
) -> Execution:
    """An execution built from its row, ready to run. If it cannot be resumed, it ends with the reason."""
    request = SpawnRequest(AgentSpec(name=row["agent"]), row["task"] or "", Limits())
    if unfit is None:
        try:
            above = parent.request if parent is not None else None
            request = again(environment.services.settings, row, above, usage.user)
        except (UnknownName, Refusal) as error:
            unfit = f"it cannot be resumed: {error}"
    return Execution(environment, request, parent, Resumed(row, usage, unfit))
