"""The requests of an iteration: for its planner, workers and completer, fresh and rebuilt from their rows. Pure.

Invariant, as in `runner/strategies/staff.py`: a request rebuilt from a row is the one that the row was made from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from db.rows.reads import Record
from db.status import ExecutionStatus
from registry import AgentSpec, CatalogueEntry, Part, Settings, component_of, is_component
from runner.core.spawn import Briefing, SpawnRequest, StepInfo
from runner.errors import Refusal
from runner.roles import COMPLETER, PLANNER, WORKER

PARTS: Mapping[Part, str] = {"planner": PLANNER, "worker": WORKER, "completer": COMPLETER}
"""The components and their roles."""


@dataclass(frozen=True, slots=True)
class IterateRequests:
    """Builds the requests for the three components of one execution."""

    settings: Settings
    agent: AgentSpec
    catalogue: Sequence[CatalogueEntry]
    task: str
    history: int | None = None
    """The number of conversation messages that a planner is shown, if any."""

    def planner(self, step_id: str, prompt: str | None = None, given: Mapping[str, Any] | None = None) -> SpawnRequest:
        """Request the planner of the next tasks; a function gets the same as `given`, because it reads no prompt."""
        return replace(self._request("planner", step_id, given, self.history), prompt=prompt)

    def worker(self, step_id: str, task: str, *, gated: bool = True) -> SpawnRequest:
        """Request a worker for one task; it is gated until released."""
        made, whole = self._request("worker", step_id), self.settings.limits_for(self.agent)
        timeout = min(whole.agent_timeout, made.limits.timeout)
        catalogue = self._catalogue(self.who("worker"))
        return replace(made, task=task, timeout=timeout, catalogue=catalogue).starting(gated=gated)

    def completer(self, prompt: str | None = None, given: Mapping[str, Any] | None = None) -> SpawnRequest:
        """Request the agent that gives the final answer; a function gets its prompt's data as `given`."""
        return replace(self._request("completer", COMPLETER, given), prompt=prompt)

    def again(self, row: Record) -> SpawnRequest:
        """Rebuild the request from a row; raises UnknownName or Refusal."""
        role, step_id, given = row["role"], row["step_id"], from_json(row["input"]) if row["input"] else None
        if role == PLANNER:
            return self.planner(step_id, given=given)
        if role == COMPLETER:
            return self.completer(given=given)
        if role == WORKER:
            return self.worker(step_id, row["task"] or "", gated=row["status"] == ExecutionStatus.PENDING)
        raise Refusal("unknown_agent", f"the iteration `{self.agent.name}` has no role `{role}`", "start it again")

    def who(self, part: Part) -> AgentSpec:
        """The agent of a component."""
        return component_of(part, self.settings.agent(getattr(self.agent.iterate, part).agent), self.agent)

    def window(self, part: Part) -> int:
        """The context window of a component's model, in tokens."""
        return self.settings.model_of(self.who(part)).context_window

    def skills(self) -> tuple[AgentSpec, Sequence[CatalogueEntry]]:
        worker = self.who("worker")
        return worker, self._catalogue(worker)

    def _catalogue(self, worker: AgentSpec) -> Sequence[CatalogueEntry]:
        """A built-in worker may dispatch the catalogue of the iterating agent; another worker has its own catalogue."""
        return self.catalogue if is_component(worker.name, worker.description) else self.settings.catalogue(worker)

    def _request(
        self, part: Part, step_id: str, given: Mapping[str, Any] | None = None, history: int | None = None
    ) -> SpawnRequest:
        agent = self.who(part)
        return SpawnRequest(
            agent=agent,
            task=self.task,
            limits=self.settings.limits_for(agent),
            role=PARTS[part],
            input=given if agent.strategy == "function" else None,
            step=StepInfo(step_id),
            briefing=Briefing(instructions=self.agent.custom_instructions, history=history),
        )
