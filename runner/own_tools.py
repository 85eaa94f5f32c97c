"""Which of our own tools an execution has: `finish` always, and the others where its agent or its role asks for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from db.memory import Keeper
from registry import AgentSpec
from runner.execution import Execution
from runner.memory import Memory
from runner.result import Result
from runner.roles import PLANNER, STEP
from runner.tools.finish import finish_tool
from runner.tools.memory import memory_tools
from runner.tools.own import OwnTool
from runner.tools.read_result import read_result_tool
from runner.user import User
from runner.work import Work

NOT_YET = "error: not finished: {count} of your agents are still at work\nhint: wait for their results, or cancel them"
SHOWN_STEPS = frozenset({STEP, PLANNER})
"""The roles that are shown results of steps, which may be cut."""


def own_tools(execution: Execution, work: Work) -> list[OwnTool[Any]]:
    """The tools of an agent that works in a loop."""
    assert isinstance(work.subject, AgentSpec)

    def accept(result: Result) -> str | None:
        if work.inbox.pending and execution.limits.on_finish == "wait":
            return NOT_YET.format(count=work.inbox.pending)
        work.final = result
        return None

    own: list[OwnTool[Any]] = [finish_tool(accept)]
    if work.subject.memory:
        own += memory_tools(_memory(execution))
    if work.subject.utilities:
        own += _utilities(work.user)
    if work.catalogue or work.subject.mcp_servers or work.role in SHOWN_STEPS:
        own.append(read_result_tool(lambda identifier: _full_text(execution, identifier)))
    return own


def _memory(execution: Execution) -> Memory | None:
    user, services = execution.origin.user, execution.services
    if user is None:
        return None
    return Memory(Keeper(user.id, execution.place, execution.attempt), services.database.reads.facts, services.recorder)


def _utilities(user: User | None) -> list[OwnTool[Any]]:
    from runner.tools.utilities import utility_tools  # with the dates of every language: only where they are wanted

    zone, locale = (user.zone, user.locale) if user is not None else (UTC, "en")
    return utility_tools(lambda: datetime.now(zone), locale)


async def _full_text(execution: Execution, identifier: str) -> str | None:
    """The whole text behind an id: of a child, of a step it was shown, or of a call of its own."""
    child = execution.ended.get(identifier)
    if child is not None:
        return child.result.text if child.result is not None else None
    reads = execution.services.database.reads
    if execution.parent is not None and execution.request.role in SHOWN_STEPS:
        for step in await reads.children(execution.parent.id):
            if step["step_id"] == identifier and step["role"] == STEP and step["result"]:
                return Result.of_json(step["result"]).text
    row = await reads.tool_call(execution.id, identifier)
    return (row["full_result"] or row["result"]) if row is not None else None
