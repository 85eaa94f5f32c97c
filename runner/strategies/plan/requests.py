"""The requests of a plan: for its planner and for its steps, fresh and rebuilt from their rows. Pure.

Invariant: a request rebuilt from a row is the one that the row was made from, under the same settings.
"""

from __future__ import annotations

from pydantic_core import from_json

from db.rows.reads import Record
from db.status import ExecutionStatus
from registry import COMPOSITE, AgentSpec, Limits
from runner.core.history import name_of
from runner.core.spawn import SpawnRequest, StartMode, StepInfo
from runner.errors import Refusal
from runner.prompt.user_parts import view_of
from runner.roles import COMPOSER, PLANNER, STEP
from runner.strategies.plan.parse import PlannedStep
from runner.strategies.staff import Staff


def planner_request(staff: Staff, step: str, prompt: str | None = None) -> SpawnRequest:
    """Request the agent that makes a plan."""
    return staff.request(staff.agent.plan.planner, PLANNER, step, prompt, staff.history)


def step_request(staff: Staff, step: PlannedStep, *, gated: bool = True) -> SpawnRequest:
    """Request an agent of the catalogue for one step; an unknown agent gets a request too, because every step has a row."""
    plan, settings = staff.agent.plan, staff.settings
    try:
        agent = staff.dispatchable(step.agent)
    except Refusal:
        missing = AgentSpec(step.agent, strategy="function")  # a function needs no model; it never runs
        return SpawnRequest(missing, step.task, Limits(), STEP, step=StepInfo(step.id), start=StartMode(gated=True))
    limits = settings.limits_for(agent)
    retries = plan.retries_of(step.max_retries)
    return SpawnRequest(
        agent=agent,
        task=step.task,
        limits=limits,
        role=STEP,
        catalogue=settings.catalogue(agent),
        timeout=min(step.timeout or plan.step_timeout, plan.step_timeout, limits.timeout),
        input={"max_retries": retries} if retries != plan.max_retries else None,
        step=StepInfo(step.id, depends_on=step.depends_on, retries=0 if agent.strategy in COMPOSITE else retries),
        start=StartMode(gated=gated),
    )


def rebuilt(staff: Staff, row: Record) -> SpawnRequest:
    """Rebuild the request of a child from its row; raises UnknownName or Refusal."""
    role, step = row["role"], row["step_id"]
    if role == PLANNER:
        return planner_request(staff, step)
    if role == COMPOSER:
        return staff.composer()
    if role == STEP:
        waits, given = row["status"] == ExecutionStatus.PENDING, from_json(row["input"] or "{}")
        planned = PlannedStep(step, name_of(row), row["task"] or "", max_retries=given.get("max_retries"))
        return step_request(staff, planned, gated=waits)
    raise Refusal("unknown_agent", f"the plan `{staff.agent.name}` has no role `{role}`", "start it again")


def planner_budget(staff: Staff) -> int:
    """Tokens that a planner is shown of the results so far."""
    return view_of(staff.member(staff.agent.plan.planner), PLANNER).budget


def step_budget(staff: Staff, step: PlannedStep) -> int:
    """Tokens that a step is shown of earlier results."""
    return view_of(staff.dispatchable(step.agent), STEP).budget
