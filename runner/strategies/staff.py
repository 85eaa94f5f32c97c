"""Staff: the built-in agents that work for a strategy (planner, composer, classifier …), and the requests for them. Pure.

Staff agents are shown the catalogue but dispatch no agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from registry import AgentSpec, CatalogueEntry, Settings
from runner.core.guard import entry_of
from runner.core.spawn import Briefing, SpawnRequest, StepInfo
from runner.prompt.user_parts import view_of
from runner.roles import COMPOSER
from runner.strategies.context import StrategyContext


@dataclass(frozen=True, slots=True)
class Staff:
    """The staff of one execution."""

    settings: Settings
    agent: AgentSpec
    """The agent it works for."""
    catalogue: Sequence[CatalogueEntry]
    task: str
    history: int | None = None
    """The number of conversation messages that a planner is shown, if any."""

    @classmethod
    def of(cls, context: StrategyContext) -> Staff:
        """The staff of the execution that runs a strategy."""
        assert isinstance(context.subject, AgentSpec)
        return cls(context.settings, context.subject, context.catalogue, context.task, context.history)

    def request(self, name: str, role: str, step: str, prompt: str | None, history: int | None = None) -> SpawnRequest:
        """Request a staff agent for one step of the strategy."""
        agent = self.member(name)
        return SpawnRequest(
            agent=agent,
            task=self.task,
            limits=self.settings.limits_for(agent),
            role=role,
            prompt=prompt,
            step=StepInfo(step),
            briefing=Briefing(self.catalogue, self.agent.custom_instructions, history),
        )

    def composer(self, prompt: str | None = None) -> SpawnRequest:
        """Request the agent that words the answer."""
        return self.request(self.agent.plan.composer, COMPOSER, COMPOSER, prompt)

    @property
    def composer_budget(self) -> int:
        """Tokens that a composer is shown of the results."""
        return view_of(self.member(self.agent.plan.composer), COMPOSER).budget

    def dispatchable(self, name: str) -> AgentSpec:
        """An agent of the catalogue; raises Refusal."""
        entry = entry_of(self.catalogue, name, self.settings.agents)
        return self.settings.agent(entry.name).overridden(entry.overrides)

    def member(self, name: str) -> AgentSpec:
        """A staff agent; it is shown as much as the agent it works for, unless its own `context` says otherwise."""
        agent = self.settings.agent(name)
        return replace(agent, context=agent.context.over(self.agent.context))
