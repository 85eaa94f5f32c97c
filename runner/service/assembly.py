"""Assembly: builds the model, tools, callables and strategy of an execution, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pydantic_core import to_json

from db.clock import stamp
from db.rows.memories import MemoryScope
from db.rows.plans import SameStep
from db.rows.reads import Record
from db.rows.users import USER
from db.rows.work_items import Author
from registry import AgentSpec, CatalogueEntry
from runner.approvals.approvals import Approvals
from runner.approvals.gate import ApprovalGate, ApprovalScope
from runner.core.allowance import Allowance
from runner.core.children import CancelChild, ExecutionSubtree
from runner.core.execution import Execution
from runner.core.history import read_history
from runner.core.strategy import Strategy
from runner.error_log import ErrorLog
from runner.functions.callables import Call
from runner.functions.context import Context
from runner.messages import clean
from runner.origin import User
from runner.prompt.files import files_for
from runner.prompt.read_back import SHOWN_STAGES, SHOWN_STEPS, full_text
from runner.prompt.user_parts import UserParts, in_language, personal, view_of
from runner.record import facts
from runner.result import Result, file_artifact
from runner.roles import EXTRACTOR, STAFF
from runner.strategies.chain import Chain
from runner.strategies.context import StrategyContext
from runner.strategies.function import Function
from runner.strategies.iterate.strategy import Iterate
from runner.strategies.loop.strategy import Loop
from runner.strategies.plan.strategy import Plan
from runner.strategies.retries import Retries
from runner.strategies.route.strategy import Route
from runner.strategies.synthesis import Synthesis
from runner.strategies.toolset import Needs, Toolbox, build_toolbox, permits
from runner.text import language_of
from runner.tools.builtin import OwnTool
from runner.tools.finish import finish_tool
from runner.tools.read_result import NAME as READ_RESULT
from runner.tools.read_result import read_result_tool
from runner.tools.upstream.pool import UpstreamCaller
from runner.users.extraction_tool import ExtractionScope, learning_tool
from runner.users.memory import Memory
from runner.users.memory_tools import memory_tools
from runner.users.profile import ProfileQuery, layers_of, load_profile
from runner.users.users import Users
from runner.work_items.board import Board

STRATEGIES: dict[str, Callable[[StrategyContext], Strategy]] = {
    "loop": Loop,
    "chain": Chain,
    "synthesis": Synthesis,
    "plan": Plan,
    "route": Route,
    "iterate": Iterate,
    "function": Function,
}


def assemble(execution: Execution, cancel: CancelChild, approvals: Approvals) -> Strategy:
    """The strategy of an execution with its model and tools, wrapped in `Retries` if it may be retried."""
    make = partial(_assembled, execution, cancel, approvals)
    if not execution.request.step.retries:
        return make()[1]
    parent, reads = execution.parent, execution.services.database.reads
    return Retries(
        make,
        read=lambda: read_history(reads, execution.id, None),
        deadline=execution.deadline,
        wanted=lambda: execution.life.cause is None and (parent is None or parent.allowance.wrap_up is None),
    )


def _assembled(execution: Execution, cancel: CancelChild, approvals: Approvals) -> tuple[StrategyContext, Strategy]:
    children = ExecutionSubtree(execution, cancel)
    services, request, agent = execution.services, execution.request, execution.request.agent
    toolbox = _toolbox(execution, agent, children) if isinstance(agent, AgentSpec) and agent.strategy == "loop" else None
    execution.state.tools = toolbox
    lookups = ExecutionLookups(execution, approvals, toolbox)
    work = StrategyContext(
        node=execution.node,
        request=request,
        state=execution.state,
        epoch=execution.life.epoch,
        allowance=execution.allowance,
        inbox=execution.inbox,
        children=children,
        settings=services.settings,
        recorder=services.recorder,
        shutdown=services.shutdown,
        sources=lookups,
        lookups=lookups,
        model=services.model_for(agent),
        toolbox=toolbox,
    )
    if services.playback is not None:
        work, recorded = services.playback.arranged(execution, work)
        if recorded is not None:
            return work, recorded
    if isinstance(agent, AgentSpec) and agent.strategy == "function":
        call = Call(request.task, request.input, partial(_context, execution, work))
        work = replace(work, function=partial(services.functions[agent.name], call))
    return work, STRATEGIES[agent.strategy if isinstance(agent, AgentSpec) else "chain"](work)


def _toolbox(execution: Execution, agent: AgentSpec, children: ExecutionSubtree) -> Toolbox:
    needs = Needs(agent, execution.limits, execution.id, execution.denied, execution.origin.trace)
    return build_toolbox(execution.services, needs, children, own_tools(execution, agent))


class ExecutionLookups:
    """Implements `PromptSources` and `Lookups` for one execution: one object instead of a closure for each method."""

    __slots__ = ("_approvals", "_execution", "_toolbox")

    def __init__(self, execution: Execution, approvals: Approvals, toolbox: Toolbox | None) -> None:
        self._execution, self._approvals, self._toolbox = execution, approvals, toolbox

    # -- for its prompt ------------------------------------------------------------------------------------------------

    async def personal(self) -> UserParts:
        return await _personal(self._execution)

    async def files(self, beside: UserParts) -> str:
        tool = self._toolbox.tools.tool(READ_RESULT) if self._toolbox is not None else None
        return await files_for(self._execution, beside, readable=tool is not None and tool.name == READ_RESULT)

    async def server_instructions(self) -> Mapping[str, str]:
        agent = self._execution.request.agent
        servers = agent.mcp_servers if isinstance(agent, AgentSpec) else ()
        return await self._execution.services.upstreams.instructions(servers, self._execution.id) if servers else {}

    def mask(self, text: str) -> str:
        return self._execution.services.upstreams.mask.text(text)

    # -- for its strategy ----------------------------------------------------------------------------------------------

    def gate(self) -> ApprovalGate:
        return _permission(self._execution, self._approvals)

    async def tool_call(self, row: str) -> Record | None:
        return await self._execution.services.database.reads.tool_call(self._execution.id, row)

    def board(self) -> Board:
        services = self._execution.services
        author = Author(self._execution.place, self._execution.life.epoch)
        return Board(services.settings.work_items.board, services.database.reads.work_items, services.recorder, author)

    async def skills(self, worker: AgentSpec, catalogue: Sequence[CatalogueEntry]) -> Sequence[Mapping[str, str]]:
        return await skills_of(self._execution, worker, catalogue)

    async def same_step(self, agent: str, prompt: str, seconds: float) -> Record | None:
        return await _same_step(self._execution, agent, prompt, seconds)

    def resumes_elsewhere(self) -> bool:
        return self._execution.resumes_elsewhere()


def _context(execution: Execution, work: StrategyContext) -> Context:
    """The context passed to the function of an execution."""
    return Context(
        execution_id=execution.id,
        session_id=execution.origin.session,
        depth=execution.node.depth,
        path=execution.node.path,
        delegation_path=execution.node.delegation_path,
        deadline=datetime.now(UTC) + timedelta(seconds=execution.allowance.seconds_left),
        user=execution.origin.user,
        board=work.lookups.board(),
        errors=ErrorLog(execution.services.database.reads.error_records),
        _tell=work.set_activity,
    )


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


async def _personal(execution: Execution) -> UserParts:
    """The user parts of its prompt; an event records what did not fit."""
    agent, user, request = execution.request.agent, execution.origin.user, execution.request
    assert isinstance(agent, AgentSpec)
    language = language_of(request.task, user.locale if user is not None else "en") if request.role in STAFF else ""
    if user is None:
        return in_language(language)
    view = view_of(agent, request.role, execution.roles_above, request.briefing.history, language)
    services, reads = execution.services, execution.services.database.reads
    layers = layers_of(Users(services.settings, reads), reads, ProfileQuery(view.memory, view.history, request.task))
    background = await load_profile(layers, user, execution.place, services.recorder)
    execution.state.warnings += background.warnings
    shown = personal(background, view)
    if shown.left_out:
        told = {"left_out": shown.left_out, "budget": view.share}
        services.recorder.record_nowait(facts.Noticed(execution.place, "context.trimmed", told))
    return shown


def _permission(execution: Execution, approvals: Approvals) -> ApprovalGate:
    services = execution.services

    def set_activity(activity: str) -> None:
        execution.state.activity = activity
        services.recorder.publish_unstored(execution.place, "execution.progress", {"action": activity})

    lineage: list[tuple[str, Allowance]] = []
    each: Execution | None = execution
    while each is not None:
        lineage.append((each.id, each.allowance))
        each = each.parent
    asker = ApprovalScope(
        place=execution.place,
        agent=execution.name,
        attempt=execution.life.epoch,
        principal=execution.origin.principal,
        seconds=execution.limits.approval_timeout,
        lineage=lineage,
        inbox=execution.inbox,
        now=set_activity,
        resumes_elsewhere=execution.resumes_elsewhere,
    )
    return ApprovalGate(approvals, services.recorder, services.database.reads.questions, asker)


NOT_YET = "error: not finished: {count} of your agents are still running\nhint: wait for their results, or cancel them"


def own_tools(execution: Execution, agent: AgentSpec) -> list[OwnTool[Any]]:
    """The built-in tools of a loop: `finish` always, others by agent settings and role."""
    inbox, state, request = execution.inbox, execution.state, execution.request

    def accept(result: Result) -> str | None:
        if inbox.pending and execution.limits.on_finish == "wait":
            return NOT_YET.format(count=inbox.pending)
        state.final = result
        return None

    own: list[OwnTool[Any]] = [finish_tool(accept)]
    if agent.memory:
        own += memory_tools(_memory(execution))
    if request.role == EXTRACTOR and (lesson := _lesson(execution)) is not None:
        own.append(learning_tool(lesson))
    if agent.utilities:
        own += _utilities(execution.origin.user)
    if agent.workspaces:
        own += _workspaces(execution, agent)
    shown = request.role in SHOWN_STEPS | SHOWN_STAGES or agent.context.level is not None
    if request.catalogue or agent.mcp_servers or agent.workspaces or shown:
        own.append(read_result_tool(partial(full_text, execution)))
    return own


def _memory(execution: Execution) -> Memory | None:
    user, services = execution.origin.user, execution.services
    if user is None:
        return None
    return Memory(
        MemoryScope(user.id, execution.place, execution.life.epoch), services.database.reads.facts, services.recorder
    )


def _lesson(execution: Execution) -> ExtractionScope | None:
    memory, chat, given = _memory(execution), execution.services.settings.chat, execution.request.input
    if memory is None or chat is None or chat.memory is None or not isinstance(given, Mapping):
        return None
    people = execution.services.database.reads.people

    async def user_said() -> list[str]:
        return [row["content"] for row in await people.those(given["messages"]) if row["role"] == USER]

    def finish(result: Result) -> None:
        execution.state.final = result

    return ExtractionScope(memory, chat.memory.max_facts, user_said, finish)


def _workspaces(execution: Execution, agent: AgentSpec) -> list[OwnTool[Any]]:
    from runner.workspace.tools import WorkspaceScope, workspace_tools  # imported late: not every system supports it
    from runner.workspace.workspace import Workspace

    settings, database = execution.services.settings, execution.services.database.path
    spared = (settings.source, *settings.parts)
    workspaces = [Workspace(spec, spared, database) for spec in agent.workspaces]

    def wrote(path: str) -> None:
        execution.state.artifacts.append(file_artifact(path))

    return workspace_tools(WorkspaceScope(workspaces, wrote, execution.services.upstreams.mask))


def _utilities(user: User | None) -> list[OwnTool[Any]]:
    from runner.dates.tools import utility_tools  # imported late: it loads the dates of every language

    zone, locale = (user.zone, user.locale) if user is not None else (UTC, "en")
    return utility_tools(lambda: datetime.now(zone), locale)


async def skills_of(
    execution: Execution, worker: AgentSpec, catalogue: Sequence[CatalogueEntry]
) -> Sequence[Mapping[str, str]]:
    """The skills of a worker of this execution: agents and tools. An unreachable server adds a warning instead."""
    agents = [{"name": entry.name, "description": entry.description} for entry in catalogue]
    if not worker.mcp_servers:
        return agents
    caller = UpstreamCaller(execution.id, execution.limits.tool_timeout, execution.origin.trace)
    upstream = execution.services.upstreams.tools(worker.mcp_servers, caller)
    try:
        tools = await upstream.list_tools()
        allowed = permits(worker, execution.denied)
        execution.state.warnings += [f"`{name}` could not be reached: {why}" for name, why in upstream.unavailable.items()]
    finally:
        await upstream.close()
    return [*agents, *({"name": tool.name, "description": tool.description} for tool in tools if allowed(tool))]
