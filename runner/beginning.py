"""The beginning of an execution: its model, its tools, what it may ask for, and its strategy, put together in one place."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from pydantic_core import to_json

from db.clock import stamp
from db.rows.plans import SameStep
from db.rows.reads import Record
from db.rows.work_items import Author
from registry import AgentSpec
from runner import facts
from runner.allowance import Allowance
from runner.background import Wanted, layers_of, load_background
from runner.board import Board
from runner.cancellation import Cancellation
from runner.error_log import ErrorLog
from runner.execution import Execution
from runner.family import ExecutionFamily
from runner.files import files_for
from runner.function_context import Context
from runner.functions import Call
from runner.own_tools import own_tools
from runner.people import People
from runner.permission import Asker, Permission
from runner.personal import Personal, in_language, personal, view_of
from runner.roles import STAFF
from runner.skills import skills_of
from runner.strategies import STRATEGIES
from runner.toolbox import Needs, build_toolbox
from runner.transcript import clean
from runner.work import Strategy, Work


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
