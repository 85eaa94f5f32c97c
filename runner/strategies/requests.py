"""Builds a SpawnRequest from an order, a dispatch or a chain stage, or rebuilds it from an execution row.

Pure. Whether the request may start is decided by the guard. Invariant: the request rebuilt from a row is the one that the
row was made from, under the same settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import from_json

from db.rows.reads import Record
from db.status import ExecutionStatus
from registry import (
    COMPOSITE,
    AgentSpec,
    CatalogueEntry,
    ChainSpec,
    LimitOverrides,
    Settings,
    StagePlace,
)
from runner.core.guard import entry_of, permit
from runner.core.history import name_of
from runner.core.spawn import DispatchInfo, RootInfo, SpawnRequest
from runner.errors import Refusal
from runner.inputs import accepted_input
from runner.origin import Origin, User
from runner.prompt.system import first_message
from runner.roles import HANDLERS
from runner.snapshot import DispatchOrder
from runner.strategies.chain import SYNTHESIS, StageBriefing, stage_members, stage_request, synthesis_request
from runner.strategies.iterate.requests import PARTS, IterateRequests
from runner.strategies.plan import requests as plan_requests
from runner.strategies.route import requests as route_requests
from runner.strategies.route.commands.parse import CommandCall, call_in
from runner.strategies.route.commands.task import is_command_task
from runner.strategies.staff import Staff
from runner.text import escape_blocks
from runner.trace_context import trace_context


def top_level(settings: Settings, name: str, task: str, data: Any, timeout: float | None = None) -> SpawnRequest:
    """Request a top-level execution; raises UnknownName, and Refusal for a malformed command."""
    subject = settings.agent_or_chain(name)
    call = LimitOverrides(timeout=timeout) if timeout is not None else None
    if isinstance(subject, ChainSpec):
        return SpawnRequest(subject, task, settings.limits_for_chain(subject, call), role="root", input=data)
    catalogue, prompt = settings.catalogue(subject), first_message(task, data)
    command = call_in(subject, task)
    limits = settings.limits_for(subject, None, call)
    if command is not None and call is None:
        limits = replace(limits, timeout=command.seconds(limits.wrap_up_reserve))
    root = RootInfo(command=command)
    return SpawnRequest(subject, task, limits, role="root", catalogue=catalogue, prompt=prompt, input=data, root=root)


def first_agents(
    settings: Settings, subject: AgentSpec | ChainSpec, command: CommandCall | None = None
) -> Iterator[AgentSpec]:
    """The agents that a chain, or an agent with staff, needs for a task in any case."""
    if command is not None:
        yield from map(settings.agent, command.command.agents)
    elif isinstance(subject, ChainSpec):
        yield from (
            settings.stage_agent(StagePlace(subject, stage, agent)) for stage in subject.stages for agent in stage.agents
        )
    elif subject.strategy == "plan":
        yield settings.agent(subject.plan.planner)
        if subject.plan.compose not in ("concat", "never"):
            yield settings.agent(subject.plan.composer)
    elif subject.strategy == "route":
        yield settings.agent(subject.route.respondent)
        if subject.sub_agents != ():
            yield settings.agent(subject.route.classifier)
            yield from first_agents(settings, settings.agent(subject.route.planner))
    elif subject.strategy == "iterate":
        yield from map(IterateRequests(settings, subject, (), "").who, PARTS)


def dispatched(settings: Settings, entry: CatalogueEntry, order: DispatchOrder) -> SpawnRequest:
    """Request an agent that another one dispatches; raises Refusal if the agent does not accept the input."""
    made = _sub_agent(settings, entry, order.task, order.input)
    return replace(made, timeout=order.timeout, dispatch=DispatchInfo(order.call, order.answer, order.key))


def _sub_agent(settings: Settings, entry: CatalogueEntry, task: str, data: Any) -> SpawnRequest:
    agent = settings.agent(entry.name).overridden(entry.overrides)
    given = accepted_input(agent, data)
    made = SpawnRequest(agent, task, settings.limits_for(agent), catalogue=settings.catalogue(agent))
    return made if given is None else replace(made, input=given, prompt=first_message(task, given))


def again(settings: Settings, row: Record, above: SpawnRequest | None, user: User | None = None) -> SpawnRequest:
    """Rebuild the request from a row, for `user`. Its first message is not rebuilt: it is stored.

    Raises UnknownName or Refusal if the settings no longer have its agent, or the user may no longer use it.
    """
    made = _of_role(settings, row, above)
    if isinstance(made.agent, AgentSpec) and not made.start.gated:  # a gated one is checked when it starts
        permit(made.agent.name, made.agent.requires, user)
    limits = made.limits if row["budget_usd"] is None else made.limits.capped(row["budget_usd"])
    trace = trace_context(from_json(row["trace_context"])) if row["trace_context"] else {}
    return replace(
        made,
        limits=limits,
        timeout=row["timeout_seconds"],
        dispatch=DispatchInfo(key=row["idempotency_key"], granted=row["budget_from_execution_id"] is not None),
        root=replace(made.root, origin=Origin(row["principal"], row["session_id"], trace, user)),
        continues=row["continues_execution_id"],
    )


def _of_role(settings: Settings, row: Record, above: SpawnRequest | None) -> SpawnRequest:
    name, task = name_of(row), row["task"] or ""
    if above is None:
        top = top_level(settings, name, task, from_json(row["input"]) if row["input"] else None)
        return replace(top, role=row["role"])
    if not isinstance(above.agent, ChainSpec):
        return _of_agent(settings, row, above, above.agent)
    brief = StageBriefing(above.task, above.input)
    for stage in above.agent.stages:
        if stage.name == row["stage"]:
            if row["role"] == SYNTHESIS:
                return synthesis_request(settings, stage, brief)
            for member in stage_members(above.agent, stage):
                if member.step == row["step_id"]:
                    return stage_request(settings, member, brief)
    raise Refusal(
        "unknown_agent", f"the chain `{above.agent.name}` has no such agent in stage `{row['stage']}`", "start it again"
    )


def _of_agent(settings: Settings, row: Record, above: SpawnRequest, agent: AgentSpec) -> SpawnRequest:
    """Rebuild the request of an agent's child, by the agent's strategy."""
    staff = Staff(settings, agent, above.catalogue, above.task, above.briefing.history)
    if agent.strategy == "iterate":
        return IterateRequests(settings, agent, above.catalogue, above.task, above.briefing.history).again(row)
    if agent.strategy == "plan":
        return plan_requests.rebuilt(staff, row)
    if agent.strategy == "route":
        return route_requests.rebuilt(staff, row)
    given = from_json(row["input"]) if row["input"] else None
    return _sub_agent(settings, entry_of(above.catalogue, name_of(row), settings.agents), row["task"] or "", given)


def continued(settings: Settings, row: Record, text: str, asker: Origin) -> SpawnRequest:
    """Request a new execution that continues an ended one, with fresh limits; raises UnknownName.

    It keeps the principal of the old one, and gets the session of the caller who continues it.
    """
    made = top_level(settings, name_of(row), row["task"] or "", None)
    data = from_json(row["input"]) if row["input"] else None
    origin = replace(asker, principal=row["principal"])
    return replace(
        made,
        input=data,
        prompt=escape_blocks(text) if text else None,
        root=replace(made.root, origin=origin),
        continues=row["id"],
    )


def admit_continuation(subject: AgentSpec | ChainSpec, row: Record, children: Sequence[Record], text: str) -> None:
    """Refuse a continuation that would do nothing more, or whose `text` no model would read; raises Refusal."""
    if isinstance(subject, ChainSpec):
        skipped = any(each["status"] == ExecutionStatus.SKIPPED for each in children)
        if row["status"] == ExecutionStatus.COMPLETED and not skipped:
            last = children[-1]["id"] if children else row["continues_execution_id"]
            hint = f"continue the agent that gave its answer, `{last}`, or start the chain again"
            raise Refusal("ended", f"the chain `{subject.name}` has run all its stages", hint)
    elif subject.strategy == "route" and not _commanded(children) and (handler := _handler(row, children)) is not None:
        hint = f"continue the execution that handled it, `{handler}`, or start it again with the new task"
        raise Refusal("ended", f"`{subject.name}` has passed on the message it was given", hint)
    elif subject.strategy in COMPOSITE and row["outcome"] == "completed":
        hint = "start it again with the new task"
        raise Refusal("ended", f"`{subject.name}` has completed its task", hint)
    elif text and subject.strategy == "function":
        hint = "start it again, with everything it needs in its task"
        raise Refusal("ended", f"`{subject.name}` is a function: it reads no messages", hint)


def _commanded(children: Sequence[Record]) -> bool:
    """Whether the children work for a command, which can be continued."""
    return any(is_command_task(each) for each in children)


def _handler(row: Record, children: Sequence[Record]) -> str | None:
    """The id of the child that handled a route's message, if the route has completed."""
    done = [each["id"] for each in children if each["role"] in HANDLERS and each["status"] == ExecutionStatus.COMPLETED]
    return done[-1] if done and row["status"] == ExecutionStatus.COMPLETED else None
