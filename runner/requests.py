"""Requests: what an execution is born from, for each way of coming into the world, and once more from its row.

Pure. Owns how settings, an order or a row become a `SpawnRequest`; whether it may start is the guard's question.
Invariant: the request made again from a row is the one the row was made from, under the same settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from db.rows.reads import Record
from registry import CHOOSERS, AgentSpec, CatalogueEntry, ChainSpec, LimitOverrides, Place, Settings, StageSpec
from runner.commands.call import call_in
from runner.commissions import Commissioner, name_of
from runner.components import PARTS, Components
from runner.context import first_message
from runner.errors import Refusal
from runner.guard import entry_of, permit
from runner.inert import inert
from runner.inputs import accepted_input
from runner.origin import Origin
from runner.user import User
from runner.work import SpawnRequest

SYNTHESIS = "synthesis"
"""The step of a stage that merges its results."""
SYNTHESIS_TASK = "Merge these reports about one task into a single answer.\n\nThe task was:\n{task}"


@dataclass(frozen=True, slots=True)
class Seat:
    """One agent of a stage."""

    place: Place
    step: str
    """Its number in the stage, from 1."""
    replica: int | None
    """Which of several like it."""


def seats(chain: ChainSpec, stage: StageSpec) -> Iterator[Seat]:
    """The agents of a stage, in order."""
    number = 0
    for agent in stage.agents:
        for replica in range(1, agent.replicas + 1):
            number += 1
            yield Seat(Place(chain, stage, agent), str(number), replica if agent.replicas > 1 else None)


@dataclass(frozen=True, slots=True)
class Brief:
    """What a chain tells an agent of one of its stages."""

    task: str
    input: Any
    earlier: Sequence[tuple[str, str]] = ()
    """The outputs of the stages before, by name."""


def top_level(settings: Settings, name: str, task: str, data: Any, timeout: float | None = None) -> SpawnRequest:
    """A top-level execution; raises UnknownName, and Refusal for a command that is written wrong."""
    subject = settings.agent_or_chain(name)
    call = LimitOverrides(timeout=timeout) if timeout is not None else None
    if isinstance(subject, ChainSpec):
        return SpawnRequest(subject, task, settings.limits_for_chain(subject, call), role="root", input=data)
    catalogue, prompt = settings.catalogue(subject), first_message(task, data)
    command = call_in(subject, task)
    limits = settings.limits_for(subject, None, call)
    if command is not None and call is None:
        limits = replace(limits, timeout=command.seconds(limits.wrap_up_reserve))
    return SpawnRequest(subject, task, limits, role="root", catalogue=catalogue, prompt=prompt, input=data)


def first_agents(settings: Settings, subject: AgentSpec | ChainSpec, task: str = "") -> Iterator[AgentSpec]:
    """The agents that a chain, or whoever has a staff, needs for a task, whatever happens."""
    command = call_in(subject, task)
    if command is not None:
        yield from map(settings.agent, command.command.agents)
    elif isinstance(subject, ChainSpec):
        yield from (
            settings.stage_agent(Place(subject, stage, agent)) for stage in subject.stages for agent in stage.agents
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
        yield from map(Components(settings, subject, (), "").who, PARTS)


def dispatched(settings: Settings, entry: CatalogueEntry, task: str, data: Any = None) -> SpawnRequest:
    """An agent that another one sends, with input if it takes any; raises Refusal where that does not fit."""
    agent = settings.agent(entry.name).overridden(entry.overrides)
    given = accepted_input(agent, data)
    made = SpawnRequest(agent, task, settings.limits_for(agent), catalogue=settings.catalogue(agent))
    return made if given is None else replace(made, input=given, prompt=first_message(task, given))


def seated(settings: Settings, seat: Seat, brief: Brief) -> SpawnRequest:
    """An agent of a stage."""
    agent = settings.stage_agent(seat.place)
    return SpawnRequest(
        agent=agent,
        task=brief.task,
        limits=settings.limits_for(settings.agent(seat.place.agent.name), seat.place),
        role="stage",
        catalogue=settings.catalogue(agent, seat.place),
        input=brief.input,
        stage=seat.place.stage.name,
        step=seat.step,
        name=f"{agent.name}-{seat.replica}" if seat.replica is not None else None,
        prompt=first_message(brief.task, brief.input, brief.earlier),
    )


def merging(settings: Settings, stage: StageSpec, brief: Brief) -> SpawnRequest:
    """The agent that merges the results of a stage; `earlier` are its reports."""
    agent, task = settings.agent(stage.synthesis), SYNTHESIS_TASK.format(task=brief.task)
    return SpawnRequest(
        agent=agent,
        task=task,
        limits=settings.limits_for(agent),
        role="synthesis",
        stage=stage.name,
        step=SYNTHESIS,
        input=brief.input,
        prompt=first_message(task, None, brief.earlier),
    )


def again(settings: Settings, row: Record, above: SpawnRequest | None, user: User | None = None) -> SpawnRequest:
    """The request a row was made from; raises UnknownName or Refusal where the settings no longer have its agent, or the
    user may no longer use it.

    Its first message is not made again: it is stored. `user` is whom it works for.
    """
    made = _of_role(settings, row, above)
    if isinstance(made.agent, AgentSpec) and not made.held:  # what is held is asked when it begins
        permit(made.agent.name, made.agent.requires, user)
    limits = made.limits if row["budget_usd"] is None else made.limits.capped(row["budget_usd"])
    return replace(
        made,
        limits=limits,
        granted=row["budget_from_execution_id"] is not None,
        timeout=row["timeout_seconds"],
        key=row["idempotency_key"],
        origin=Origin(row["principal"], row["session_id"], user=user),
        continues=row["continues_execution_id"],
    )


def _of_role(settings: Settings, row: Record, above: SpawnRequest | None) -> SpawnRequest:
    name, task = name_of(row), row["task"] or ""
    if above is None:
        top = top_level(settings, name, task, from_json(row["input"]) if row["input"] else None)
        return replace(top, role=row["role"])
    if not isinstance(above.agent, ChainSpec) and above.agent.strategy == "iterate":
        return Components(settings, above.agent, above.catalogue, above.task, above.history).again(row)
    if not isinstance(above.agent, ChainSpec) and above.agent.strategy in CHOOSERS:
        return Commissioner(settings, above.agent, above.catalogue, above.task, above.history).again(row)
    if not isinstance(above.agent, ChainSpec):
        given = from_json(row["input"]) if row["input"] else None
        return dispatched(settings, entry_of(above.catalogue, name, settings.agents), task, given)
    brief = Brief(above.task, above.input)
    for stage in above.agent.stages:
        if stage.name == row["stage"]:
            if row["role"] == SYNTHESIS:
                return merging(settings, stage, brief)
            for seat in seats(above.agent, stage):
                if seat.step == row["step_id"]:
                    return seated(settings, seat, brief)
    raise Refusal("unknown_agent", f"`{above.agent.name}` has no such agent in a stage `{row['stage']}`", "start it anew")


def continued(settings: Settings, row: Record, text: str, asker: Origin) -> SpawnRequest:
    """A new execution that goes on from one that has ended, with fresh limits; raises UnknownName.

    It belongs to whom the old one belongs to, and lives in the session of whoever asks for it.
    """
    made = top_level(settings, name_of(row), row["task"] or "", None)
    data = from_json(row["input"]) if row["input"] else None
    origin = replace(asker, principal=row["principal"])
    return replace(made, input=data, prompt=inert(text), origin=origin, continues=row["id"])
