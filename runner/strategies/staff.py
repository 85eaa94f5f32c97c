"""The requests for the agents that work for a plan or a route, fresh and rebuilt from their rows.

Pure. The staff (planner, composer, classifier …) is shown the agents of the catalogue and dispatches none. Invariant: a
request rebuilt from a row is the one that the row was made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic_core import from_json

from db.rows.reads import Record
from db.status import ExecutionStatus
from registry import CALLERS, AgentSpec, CatalogueEntry, Limits, Settings
from runner.core.guard import entry_of
from runner.core.history import name_of
from runner.core.spawn import SpawnRequest
from runner.errors import Refusal
from runner.prompt.user_parts import view_of
from runner.roles import ANSWER, CLASSIFIER, COMPOSER, DIRECT, PLAN, PLANNER, STEP
from runner.strategies.plan.parse import PlannedStep
from runner.strategies.route.commands.task import commissioned_again, is_errand


@dataclass(frozen=True, slots=True)
class Commissioner:
    """An execution that has others work for it."""

    settings: Settings
    agent: AgentSpec
    catalogue: Sequence[CatalogueEntry]
    task: str
    history: int | None = None
    """Messages of the conversation that a planner is shown, if it is shown any."""

    def planner(self, seat: str, prompt: str | None = None) -> SpawnRequest:
        """Somebody who makes a plan."""
        return self._staff(self.agent.plan.planner, PLANNER, seat, prompt, self.history)

    def composer(self, prompt: str | None = None) -> SpawnRequest:
        """Somebody who words the answer."""
        return self._staff(self.agent.plan.composer, COMPOSER, COMPOSER, prompt)

    def classifier(self, prompt: str | None = None) -> SpawnRequest:
        """Somebody who judges a message."""
        return self._staff(self.agent.route.classifier, CLASSIFIER, CLASSIFIER, prompt, self.agent.route.history)

    def respondent(self, prompt: str | None = None) -> SpawnRequest:
        """Somebody who answers a message in words."""
        return self._staff(self.agent.route.respondent, ANSWER, ANSWER, prompt)

    def plan(self, agents: Sequence[str], prompt: str | None = None) -> SpawnRequest:
        """Somebody who carries a message out by a plan, with these agents only."""
        planner = self.settings.agent(self.agent.route.planner)
        chosen = [entry for entry in self.catalogue if entry.name in agents]
        brief = "\n\n".join(filter(None, (self.agent.custom_instructions, planner.custom_instructions)))
        return SpawnRequest(
            agent=replace(planner, custom_instructions=brief),
            task=self.task,
            limits=self.settings.limits_for(planner),
            role=PLAN,
            catalogue=chosen,
            step=PLAN,
            input={"agents": list(agents)},
            prompt=prompt,
            history=self.agent.route.history,
        )

    def direct(self, name: str, prompt: str | None = None) -> SpawnRequest:
        """An agent of the catalogue that handles a message alone."""
        agent = self._agent(name)
        return SpawnRequest(
            agent=agent,
            task=self.task,
            limits=self.settings.limits_for(agent),
            role=DIRECT,
            catalogue=self.settings.catalogue(agent),
            step=DIRECT,
            prompt=prompt,
        )

    def step(self, step: PlannedStep, *, held: bool = True) -> SpawnRequest:
        """An agent of the catalogue, to carry out one step; one that does not exist gets a row all the same."""
        plan = self.agent.plan
        try:
            agent = self._agent(step.agent)
        except Refusal:
            nobody = AgentSpec(step.agent, strategy="function")  # which asks no model, as nobody will
            return SpawnRequest(nobody, step.task, Limits(), role=STEP, step=step.id, held=True)
        limits = self.settings.limits_for(agent)
        retries = plan.retries_of(step.max_retries)
        return SpawnRequest(
            agent=agent,
            task=step.task,
            limits=limits,
            role=STEP,
            catalogue=self.settings.catalogue(agent),
            timeout=min(step.timeout or plan.step_timeout, plan.step_timeout, limits.timeout),
            step=step.id,
            depends_on=step.depends_on,
            retries=0 if agent.strategy in CALLERS else retries,
            input={"max_retries": retries} if retries != plan.max_retries else None,
            held=held,
        )

    @property
    def planner_budget(self) -> int:
        """Tokens of what a planner is told of the steps so far."""
        return view_of(self._employee(self.agent.plan.planner), PLANNER).budget

    @property
    def composer_budget(self) -> int:
        """Tokens of what a composer is told of the steps."""
        return view_of(self._employee(self.agent.plan.composer), COMPOSER).budget

    def budget_of(self, step: PlannedStep) -> int:
        """Tokens of what a step is told of those before it."""
        return view_of(self._agent(step.agent), STEP).budget

    def again(self, row: Record) -> SpawnRequest:
        """The request a row was made from; raises UnknownName or Refusal."""
        role, seat = row["role"], row["step_id"]
        if role == PLANNER:
            return self.planner(seat)
        if role == COMPOSER:
            return self.composer()
        if role == CLASSIFIER:
            return self.classifier()
        if role == ANSWER:
            return self.respondent()
        if role == PLAN:
            return self.plan(from_json(row["input"])["agents"])
        if is_errand(row):
            return commissioned_again(self.settings, row, name_of(row))
        if role == DIRECT:
            if seat != DIRECT:  # of somebody who may not work for the user: it never begins
                raise Refusal("permission_denied", f"`{name_of(row)}` was not allowed", "start it anew")
            return self.direct(name_of(row))
        if role == STEP:
            waits, given = row["status"] == ExecutionStatus.PENDING, from_json(row["input"] or "{}")
            planned = PlannedStep(seat, name_of(row), row["task"] or "", max_retries=given.get("max_retries"))
            return self.step(planned, held=waits)
        raise Refusal("unknown_agent", f"`{self.agent.name}` has nobody in the role `{role}`", "start it anew")

    def _agent(self, name: str) -> AgentSpec:
        entry = entry_of(self.catalogue, name, self.settings.agents)
        return self.settings.agent(entry.name).overridden(entry.overrides)

    def _staff(self, name: str, role: str, seat: str, prompt: str | None, history: int | None = None) -> SpawnRequest:
        agent = self._employee(name)
        return SpawnRequest(
            agent=agent,
            task=self.task,
            limits=self.settings.limits_for(agent),
            role=role,
            step=seat,
            prompt=prompt,
            roster=self.catalogue,
            brief=self.agent.custom_instructions,
            history=history,
        )

    def _employee(self, name: str) -> AgentSpec:
        """Somebody of the staff: told as much as whoever it works for may be, unless its own `context` says otherwise."""
        agent = self.settings.agent(name)
        return replace(agent, context=agent.context.over(self.agent.context))
