"""Components: what the three are born from that work for an iteration, and once more from their rows. Pure, as
`runner/strategies/staff.py`, and with the same invariant: a request made again from a row is the one the row was made from.
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
"""The three, and their roles."""


@dataclass(frozen=True, slots=True)
class Components:
    """An execution that three others work for."""

    settings: Settings
    agent: AgentSpec
    catalogue: Sequence[CatalogueEntry]
    task: str
    history: int | None = None
    """Messages of the conversation that a planner is shown, if it is shown any."""

    def planner(self, seat: str, prompt: str | None = None, given: Mapping[str, Any] | None = None) -> SpawnRequest:
        """Somebody who decides on the next task; a function reads no prompt, and is `given` what that says."""
        return replace(self._request("planner", seat, given, self.history), prompt=prompt)

    def worker(self, seat: str, task: str, *, gated: bool = True) -> SpawnRequest:
        """Somebody who carries a task out, once it may begin."""
        made, whole = self._request("worker", seat), self.settings.limits_for(self.agent)
        timeout = min(whole.agent_timeout, made.limits.timeout)
        catalogue = self._catalogue(self.who("worker"))
        return replace(made, task=task, timeout=timeout, catalogue=catalogue).starting(gated=gated)

    def completer(self, prompt: str | None = None, given: Mapping[str, Any] | None = None) -> SpawnRequest:
        """Somebody who answers in the end; a function is `given` what the prompt says."""
        return replace(self._request("completer", COMPLETER, given), prompt=prompt)

    def again(self, row: Record) -> SpawnRequest:
        """The request a row was made from; raises UnknownName or Refusal."""
        role, seat, given = row["role"], row["step_id"], from_json(row["input"]) if row["input"] else None
        if role == PLANNER:
            return self.planner(seat, given=given)
        if role == COMPLETER:
            return self.completer(given=given)
        if role == WORKER:
            return self.worker(seat, row["task"] or "", gated=row["status"] == ExecutionStatus.PENDING)
        raise Refusal("unknown_agent", f"`{self.agent.name}` has nobody in the role `{role}`", "start it anew")

    def who(self, part: Part) -> AgentSpec:
        """The agent that is one of the three."""
        return component_of(part, self.settings.agent(getattr(self.agent.iterate, part).agent), self.agent)

    def window(self, part: Part) -> int:
        """Tokens that the model of one of the three can read."""
        return self.settings.model_of(self.who(part)).context_window

    def skills(self) -> tuple[AgentSpec, Sequence[CatalogueEntry]]:
        """The worker, and the agents it may dispatch."""
        worker = self.who("worker")
        return worker, self._catalogue(worker)

    def _catalogue(self, worker: AgentSpec) -> Sequence[CatalogueEntry]:
        """A worker of ours may dispatch whom the agent may, also where a chain says so; any other one has its own."""
        return self.catalogue if is_component(worker.name, worker.description) else self.settings.catalogue(worker)

    def _request(
        self, part: Part, seat: str, given: Mapping[str, Any] | None = None, history: int | None = None
    ) -> SpawnRequest:
        agent = self.who(part)
        return SpawnRequest(
            agent=agent,
            task=self.task,
            limits=self.settings.limits_for(agent),
            role=PARTS[part],
            input=given if agent.strategy == "function" else None,
            step=StepInfo(seat),
            briefing=Briefing(instructions=self.agent.custom_instructions, history=history),
        )
