"""Which of our own tools an execution has: `finish` always, and the others where its agent or its role asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from db.rows.memories import Keeper
from db.rows.users import USER
from registry import AgentSpec
from runner.artifacts import file_artifact
from runner.execution import Execution
from runner.memory import Memory
from runner.rereading import SHOWN_STAGES, SHOWN_STEPS, full_text
from runner.result import Result
from runner.roles import EXTRACTOR
from runner.tools.finish import finish_tool
from runner.tools.learning import Lesson, learning_tool
from runner.tools.memory import memory_tools
from runner.tools.own import OwnTool
from runner.tools.read_result import read_result_tool
from runner.user import User
from runner.work import Work

NOT_YET = "error: not finished: {count} of your agents are still at work\nhint: wait for their results, or cancel them"


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
    if work.role == EXTRACTOR and (lesson := _lesson(execution, work)) is not None:
        own.append(learning_tool(lesson))
    if work.subject.utilities:
        own += _utilities(work.user)
    if work.subject.workspaces:
        own += _workspaces(execution, work)
    shown = work.role in SHOWN_STEPS | SHOWN_STAGES or work.subject.context.level is not None
    if work.catalogue or work.subject.mcp_servers or work.subject.workspaces or shown:
        own.append(read_result_tool(partial(full_text, execution)))
    return own


def _memory(execution: Execution) -> Memory | None:
    user, services = execution.origin.user, execution.services
    if user is None:
        return None
    return Memory(Keeper(user.id, execution.place, execution.attempt), services.database.reads.facts, services.recorder)


def _lesson(execution: Execution, work: Work) -> Lesson | None:
    memory, chat = _memory(execution), execution.services.settings.chat
    if memory is None or chat is None or chat.memory is None or not isinstance(work.input, Mapping):
        return None
    people = execution.services.database.reads.people

    async def user_said() -> list[str]:
        return [row["content"] for row in await people.those(work.input["messages"]) if row["role"] == USER]

    def finish(result: Result) -> None:
        work.final = result

    return Lesson(memory, chat.memory.max_facts, user_said, finish)


def _workspaces(execution: Execution, work: Work) -> list[OwnTool[Any]]:
    from runner.tools.workspace import Desk, workspace_tools  # only on systems that have what it takes
    from runner.workspace import Workspace

    assert isinstance(work.subject, AgentSpec)
    settings, database = execution.services.settings, execution.services.database.path
    spared = (settings.source, *settings.parts)
    workspaces = [Workspace(spec, spared, database) for spec in work.subject.workspaces]
    wrote = partial(_note_file, work)
    return workspace_tools(Desk(workspaces, wrote, execution.services.upstreams.mask))


def _note_file(work: Work, path: str) -> None:
    work.artifacts.append(file_artifact(path))


def _utilities(user: User | None) -> list[OwnTool[Any]]:
    from runner.tools.utilities import utility_tools  # with the dates of every language: only where they are wanted

    zone, locale = (user.zone, user.locale) if user is not None else (UTC, "en")
    return utility_tools(lambda: datetime.now(zone), locale)
