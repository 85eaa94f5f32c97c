"""The contents of executions: messages, model calls, tool calls, questions and children, for many executions at once.

Owns these queries; `db/rows/reads.py` runs them. Invariant: the executions are one parameter, so the number of statements
does not depend on how many they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Executable, case, func, or_, select

from db.rows.overview import pricing_kind
from db.tables import approvals, each_of, events, executions, messages, model_calls, tool_calls

Row = Mapping[str, Any]


class Contents:
    """Queries for what is inside executions of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def model_times(self, of: Sequence[str]) -> list[Row]:
        """Each model call's time and kind of price."""
        names = ("id", "execution_id", "model", "started_at", "finished_at")
        query = select(*(model_calls.c[name] for name in names), pricing_kind())
        return await self._run(query.where(model_calls.c.execution_id.in_(_given(of))))

    async def tool_times(self, of: Sequence[str]) -> list[Row]:
        """Each tool call's time and state."""
        names = ("id", "execution_id", "tool", "server", "status", "is_error", "error_type", "started_at", "finished_at")
        query = select(*(tool_calls.c[name] for name in names))
        return await self._run(query.where(tool_calls.c.execution_id.in_(_given(of))))

    async def questions(self, roots: Sequence[str]) -> list[Row]:
        """The time of each question of these trees, decided or not."""
        names = ("id", "execution_id", "tool_call_id", "tool", "requested_at", "expires_at", "decided_at", "decision")
        query = select(*(approvals.c[name] for name in names))
        return await self._run(query.where(approvals.c.root_execution_id.in_(_given(roots))))

    async def children_times(self, of: Sequence[str]) -> list[Row]:
        """When these executions had children: stretches that do not overlap, whose end is `open` while one is."""
        begin, parent = executions.c.created_at.label("begin"), executions.c.parent_execution_id.label("parent")
        children = select(parent, begin, func.coalesce(executions.c.finished_at, "open").label("end"))
        child: Any = children.where(executions.c.parent_execution_id.in_(_given(of))).subquery("child")
        until = func.max(child.c.end).over(partition_by=child.c.parent, order_by=child.c.begin, rows=(None, -1))
        begins = case((child.c.begin <= until, 0), else_=1).label("begins")
        marked: Any = select(*child.c, begins).subquery("marked")
        number = func.sum(marked.c.begins).over(partition_by=marked.c.parent, order_by=marked.c.begin, rows=(None, 0))
        numbered: Any = select(*marked.c, number.label("number")).subquery("numbered")
        first, last = func.min(numbered.c.begin).label("begin"), func.max(numbered.c.end).label("end")
        return await self._run(
            select(numbered.c.parent, first, last).group_by(numbered.c.parent, numbered.c.number).order_by("begin")
        )

    async def texts(self, of: Sequence[str]) -> list[Row]:
        """The task, input and result of these executions."""
        names = ("id", "principal", "cancelled_by", "cancel_reason", "timeout_seconds", "task", "input", "result")
        query = select(*(executions.c[name] for name in names))
        return await self._run(query.where(executions.c.id.in_(_given(of))))

    async def messages(self, of: Sequence[str]) -> list[Row]:
        """The messages of these executions, each execution's in order."""
        query = select(messages).where(messages.c.execution_id.in_(_given(of)))
        return await self._run(query.order_by(messages.c.execution_id, messages.c.position))

    async def page_of_messages(self, execution: str, start: int, limit: int) -> list[Row]:
        """The messages of an execution from a position on."""
        query = select(messages).where(messages.c.execution_id == execution, messages.c.position >= start)
        return await self._run(query.order_by(messages.c.position).limit(limit))

    async def message_count(self, execution: str) -> int:
        """How many messages an execution has."""
        query = select(func.count().label("n")).where(messages.c.execution_id == execution)
        return int((await self._run(query))[0]["n"])

    async def tool_calls(self, of: Sequence[str], asked_in: Sequence[str] | None = None) -> list[Row]:
        """The tool calls of these executions in order, each with the execution that it started; of some messages only."""
        child = executions.alias("child")
        query = select(tool_calls, child.c.id.label("child_execution_id"))
        query = query.outerjoin(child, child.c.tool_call_id == tool_calls.c.id)
        query = query.where(tool_calls.c.execution_id.in_(_given(of)))
        if asked_in is not None:
            query = query.where(tool_calls.c.message_id.in_(_given(asked_in)))
        return await self._run(query.order_by(tool_calls.c.started_at, tool_calls.c.position))

    async def tool_call(self, identifier: str) -> Row | None:
        """One tool call by its row id, with the execution that it started."""
        child = executions.alias("child")
        query = select(tool_calls, child.c.id.label("child_execution_id"))
        query = query.outerjoin(child, child.c.tool_call_id == tool_calls.c.id)
        found = await self._run(query.where(tool_calls.c.id == identifier))
        return found[0] if found else None

    async def model_calls(self, of: Sequence[str]) -> list[Row]:
        """The model calls of these executions, in order."""
        query = select(model_calls).where(model_calls.c.execution_id.in_(_given(of)))
        return await self._run(query.order_by(model_calls.c.started_at))

    async def cited(self, roots: Sequence[str], handles: Sequence[str], least: int) -> list[Row]:
        """The calls in these trees that equal a handle, or begin with a handle of at least that length."""
        begins = [func.substr(tool_calls.c.call_id, 1, len(each)) == each for each in handles if len(each) >= least]
        names = ("id", "call_id", "execution_id", "tool")
        query = select(*(tool_calls.c[name] for name in names))
        query = query.join(executions, executions.c.id == tool_calls.c.execution_id)
        return await self._run(
            query.where(executions.c.root_execution_id.in_(roots), or_(tool_calls.c.call_id.in_(handles), *begins))
        )

    async def events(self, root: str, of: Sequence[str], after: int, limit: int) -> list[Row]:
        """The stored events of some executions of a tree after an event, in order."""
        query = select(events).where(events.c.root_execution_id == root, events.c.seq > after)
        query = query.where(events.c.execution_id.in_(_given(of)))
        return await self._run(query.order_by(events.c.seq).limit(limit))


def _given(identifiers: Sequence[str]) -> Any:
    return select(each_of(identifiers).c.value)
