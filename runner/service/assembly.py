"""Assembly: the model, the tools, the callables and the strategy of an execution, put together in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pydantic_core import to_json

from db.clock import stamp
from db.rows.memories import Keeper
from db.rows.plans import SameStep
from db.rows.reads import Record
from db.rows.users import USER
from db.rows.work_items import Author
from registry import AgentSpec, CatalogueEntry
from runner.approvals.gate import Asker, Permission
from runner.core import facts
from runner.core.allowance import Allowance
from runner.core.cancel import Cancellation
from runner.core.children import ExecutionFamily
from runner.core.execution import Execution
from runner.core.strategy import Strategy
from runner.error_log import ErrorLog
from runner.functions.callables import Call
from runner.functions.context import Context
from runner.messages import clean
from runner.origin import User
from runner.prompt.files import files_for
from runner.prompt.read_back import SHOWN_STAGES, SHOWN_STEPS, full_text
from runner.prompt.user_parts import Personal, in_language, personal, view_of
from runner.result import Result, file_artifact
from runner.roles import EXTRACTOR, STAFF
from runner.strategies.chain import Chain
from runner.strategies.context import Work
from runner.strategies.function import Function
from runner.strategies.iterate.strategy import Iterate
from runner.strategies.loop.strategy import Loop
from runner.strategies.loop.toolset import Needs, build_toolbox, permits
from runner.strategies.plan.strategy import Plan
from runner.strategies.route.strategy import Route
from runner.strategies.synthesis import Synthesis
from runner.tools.builtin import OwnTool
from runner.tools.finish import finish_tool
from runner.tools.read_result import read_result_tool
from runner.tools.upstream.pool import UpstreamCaller
from runner.users.extraction_tool import Lesson, learning_tool
from runner.users.memory import Memory
from runner.users.memory_tools import memory_tools
from runner.users.profile import Wanted, layers_of, load_background
from runner.users.users import People
from runner.work_items.board import Board

STRATEGIES: dict[str, Callable[[Work], Strategy]] = {
    "loop": Loop,
    "chain": Chain,
    "synthesis": Synthesis,
    "plan": Plan,
    "route": Route,
    "iterate": Iterate,
    "function": Function,
}


def begin(execution: Execution, cancellation: Cancellation) -> tuple[Work, Strategy]:
    """Resolve the model, the tools and the strategy of an execution."""
    family = ExecutionFamily(execution, cancellation)
    services, request, subject = execution.services, execution.request, execution.request.agent
    agent = subject if isinstance(subject, AgentSpec) else None
    work = Work(
        place=execution.place,
        path=execution.path,
        delegation_path=execution.delegation_path,
        depth=execution.depth,
        name=execution.name,
        subject=subject,
        task=request.task,
        prompt=execution.prompt,
        input=request.input,
        role=request.role,
        attempt=execution.attempt,
        limits=execution.limits,
        allowance=execution.allowance,
        inbox=execution.inbox,
        ended=execution.ended,
        user=execution.origin.user,
        session=execution.origin.session or "",
        catalogue=request.catalogue,
        roster=request.roster,
        brief=request.brief,
        history=request.history,
        settings=services.settings,
        recorder=services.recorder,
        draining=services.draining,
        toolbox=None,
        model=services.model_for(subject),
        function=None,
        spawn=family.spawn,
        admit=family.admit,
        release=family.release,
        dismiss=family.dismiss,
        settle_children=family.settle_children,
        children=family.children,
        pass_on=family.pass_on,
        personal=partial(_personal, execution),
        files=partial(files_for, execution),
        server_instructions=partial(_server_instructions, execution),
        goes_on_elsewhere=execution.goes_on_elsewhere,
        permission=partial(_permission, execution),
        asked_before=partial(services.database.reads.tool_call, execution.id),
        skills=partial(skills_of, execution),
        board=partial(_board, execution),
        same_step=partial(_same_step, execution),
        clear=services.upstreams.mask.text,
    )
    if agent is not None and agent.strategy == "loop":
        needs = Needs(agent, execution.limits, execution.id, execution.denied, execution.origin.trace)
        work.toolbox = build_toolbox(services, needs, family, own_tools(execution, work))
    if agent is not None and agent.strategy == "function":
        call = Call(request.task, request.input, partial(_context, execution, work))
        work.function = partial(services.functions[agent.name], call)
    return work, STRATEGIES[agent.strategy if agent is not None else "chain"](work)


def _context(execution: Execution, work: Work) -> Context:
    """What the function of an execution may know of it."""
    return Context(
        execution_id=execution.id,
        session_id=execution.origin.session,
        depth=execution.depth,
        path=execution.path,
        delegation_path=execution.delegation_path,
        deadline=datetime.now(UTC) + timedelta(seconds=execution.allowance.seconds_left),
        user=execution.origin.user,
        board=work.board(),
        errors=ErrorLog(execution.services.database.reads.error_records),
        _tell=work.now,
    )


def _board(execution: Execution) -> Board:
    services = execution.services
    author = Author(execution.place, execution.attempt)
    return Board(services.settings.work_items.board, services.database.reads.work_items, services.recorder, author)


async def _server_instructions(execution: Execution) -> Mapping[str, str]:
    agent = execution.request.agent
    servers = agent.mcp_servers if isinstance(agent, AgentSpec) else ()
    return await execution.services.upstreams.instructions(servers, execution.id) if servers else {}


async def _same_step(execution: Execution, agent: str, prompt: str, seconds: float) -> Record | None:
    user, services = execution.origin.user, execution.services
    since = stamp(datetime.now(UTC) - timedelta(seconds=seconds))
    first = to_json([{"type": "text", "text": clean(prompt)}]).decode()
    like = SameStep(
        agent=agent,
        user_id=user.id if user is not None else None,
        principal=execution.origin.principal,
        config_hash=services.settings.hash,
        first=first,
        since=since,
    )
    return await services.database.reads.plans.same_step(like)


async def _personal(execution: Execution) -> Personal:
    """What its prompt says of the user it works for, told in an event where something did not fit."""
    agent, user, work = execution.request.agent, execution.origin.user, execution.work
    assert isinstance(agent, AgentSpec)
    assert work is not None
    language = work.locale if work.role in STAFF else ""
    if user is None:
        return in_language(language)
    view = view_of(agent, work.role, execution.roles_above, execution.request.history, language)
    services, reads = execution.services, execution.services.database.reads
    layers = layers_of(People(services.settings, reads), reads, Wanted(view.memory, view.history, work.task))
    background = await load_background(layers, user, execution.place, services.recorder)
    work.warnings += background.warnings
    shown = personal(background, view)
    if shown.left_out:
        told = {"left_out": shown.left_out, "budget": view.share}
        services.recorder.record_nowait(facts.Noticed(execution.place, "context.trimmed", told))
    return shown


def _permission(execution: Execution) -> Permission:
    services = execution.services

    def now(activity: str) -> None:
        if execution.work is not None:
            execution.work.now(activity)

    lineage: list[tuple[str, Allowance]] = []
    each: Execution | None = execution
    while each is not None:
        lineage.append((each.id, each.allowance))
        each = each.parent
    asker = Asker(
        place=execution.place,
        agent=execution.name,
        attempt=execution.attempt,
        principal=execution.origin.principal,
        seconds=execution.limits.approval_timeout,
        lineage=lineage,
        inbox=execution.inbox,
        now=now,
        goes_on_elsewhere=execution.goes_on_elsewhere,
    )
    return Permission(services.approvals, services.recorder, services.database.reads.questions, asker)


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
    from runner.workspace.tools import Desk, workspace_tools  # only on systems that have what it takes
    from runner.workspace.workspace import Workspace

    assert isinstance(work.subject, AgentSpec)
    settings, database = execution.services.settings, execution.services.database.path
    spared = (settings.source, *settings.parts)
    workspaces = [Workspace(spec, spared, database) for spec in work.subject.workspaces]
    wrote = partial(_note_file, work)
    return workspace_tools(Desk(workspaces, wrote, execution.services.upstreams.mask))


def _note_file(work: Work, path: str) -> None:
    work.artifacts.append(file_artifact(path))


def _utilities(user: User | None) -> list[OwnTool[Any]]:
    from runner.dates.tools import utility_tools  # with the dates of every language: only where they are wanted

    zone, locale = (user.zone, user.locale) if user is not None else (UTC, "en")
    return utility_tools(lambda: datetime.now(zone), locale)


async def skills_of(
    execution: Execution, worker: AgentSpec, catalogue: Sequence[CatalogueEntry]
) -> Sequence[Mapping[str, str]]:
    """The skills of a worker of this execution. A server that cannot be reached has none, which is told."""
    agents = [{"name": entry.name, "description": entry.description} for entry in catalogue]
    if not worker.mcp_servers:
        return agents
    caller = UpstreamCaller(execution.id, execution.limits.tool_timeout, execution.origin.trace)
    upstream = execution.services.upstreams.tools(worker.mcp_servers, caller)
    try:
        tools = await upstream.list_tools()
        allowed = permits(worker, execution.denied)
        assert execution.work is not None
        execution.work.warnings += [f"`{name}` could not be reached: {why}" for name, why in upstream.unavailable.items()]
    finally:
        await upstream.close()
    return [*agents, *({"name": tool.name, "description": tool.description} for tool in tools if allowed(tool))]
