"""The requests of a route: for its classifier and for the agent that handles the message, fresh and rebuilt. Pure.

Invariant: a request rebuilt from a row is the one that the row was made from, under the same settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic_core import from_json

from db.rows.reads import Record
from runner.core.history import name_of
from runner.core.spawn import Briefing, SpawnRequest, StepInfo
from runner.errors import Refusal
from runner.roles import ANSWER, CLASSIFIER, COMPOSER, DIRECT, PLAN
from runner.strategies.route.commands.task import is_command_task, rebuilt_task_request
from runner.strategies.staff import Staff


def classifier_request(staff: Staff, prompt: str | None = None) -> SpawnRequest:
    """Request the agent that decides which agents handle a message."""
    return staff.request(staff.agent.route.classifier, CLASSIFIER, CLASSIFIER, prompt, staff.agent.route.history)


def respondent_request(staff: Staff, prompt: str | None = None) -> SpawnRequest:
    """Request the agent that answers a message itself."""
    return staff.request(staff.agent.route.respondent, ANSWER, ANSWER, prompt)


def plan_request(staff: Staff, agents: Sequence[str], prompt: str | None = None) -> SpawnRequest:
    """Request the agent that handles a message by a plan, with these agents only."""
    planner = staff.settings.agent(staff.agent.route.planner)
    instructions = "\n\n".join(filter(None, (staff.agent.custom_instructions, planner.custom_instructions)))
    return SpawnRequest(
        agent=replace(planner, custom_instructions=instructions),
        task=staff.task,
        limits=staff.settings.limits_for(planner),
        role=PLAN,
        catalogue=[entry for entry in staff.catalogue if entry.name in agents],
        input={"agents": list(agents)},
        prompt=prompt,
        step=StepInfo(PLAN),
        briefing=Briefing(history=staff.agent.route.history),
    )


def direct_request(staff: Staff, name: str, prompt: str | None = None, step: str = DIRECT) -> SpawnRequest:
    """Request an agent of the catalogue that handles a message alone."""
    agent = staff.dispatchable(name)
    return SpawnRequest(
        agent=agent,
        task=staff.task,
        limits=staff.settings.limits_for(agent),
        role=DIRECT,
        catalogue=staff.settings.catalogue(agent),
        prompt=prompt,
        step=StepInfo(step),
    )


def rebuilt(staff: Staff, row: Record) -> SpawnRequest:
    """Rebuild the request of a child from its row; raises UnknownName or Refusal."""
    role = row["role"]
    if role == CLASSIFIER:
        return classifier_request(staff)
    if role == ANSWER:
        return respondent_request(staff)
    if role == COMPOSER:
        return staff.composer()
    if role == PLAN:
        return plan_request(staff, from_json(row["input"])["agents"])
    if is_command_task(row):
        return rebuilt_task_request(staff.settings, row, name_of(row))
    if role == DIRECT:
        if row["step_id"] != DIRECT:  # the user may not use this agent: it never starts
            raise Refusal("permission_denied", f"`{name_of(row)}` was not allowed", "start it again")
        return direct_request(staff, name_of(row))
    raise Refusal("unknown_agent", f"the route `{staff.agent.name}` has no role `{role}`", "start it again")
