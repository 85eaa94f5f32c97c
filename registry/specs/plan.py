"""The `plan` block: settings of an agent that plans.

Owns: the shape of an agent's `plan` block and PlanSpec. Must not know: how a plan is made or carried out.
Invariant: a spec is complete; the defaults here are the built-in ones.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, Strict

from registry.text.durations import Seconds, SecondsOrZero
from registry.text.entry import Count, Entry, Line
from registry.text.names import Directories, built_in

PLANNER, COMPOSER = "Planner", "Composer"
"""The built-in agents that make a plan, and write an answer from the results of its steps."""

PLAN_TIMEOUT = 300.0
"""Timeout of a whole plan, unless its agent sets one."""

OnStepFailure = Literal["replan", "continue"]
OnEmptyPlan = Literal["answer", "direct", "nothing"]
Compose = Literal["always", "auto", "concat", "never"]
Channel = Literal["chat", "sms", "report"]

Times = Annotated[int, Strict(), Field(ge=0)]


class PlanEntry(Entry):
    """`plan:` of an agent as written."""

    planner: Line | None = Field(default=None, description="the agent that makes plans; absent: the built-in one")
    composer: Line | None = Field(default=None, description="the agent that writes the answer; absent: the built-in one")
    max_steps: Count = Field(default=10, description="the most steps over all versions of a plan")
    max_replans: Times = Field(default=3, description="how often a plan may be revised")
    max_retries: Times = Field(default=2, description="retries of a failed step")
    step_timeout: Seconds = Field(default=120.0, description="time for one attempt of a step")
    max_concurrent: Count = Field(default=1, description="steps at once, where `depends_on` allows it")
    on_step_failure: OnStepFailure = Field(
        default="replan",
        description="`replan`, and stop if that is not possible; `continue` with the steps that do not depend on it",
    )
    on_empty_plan: OnEmptyPlan | None = Field(
        default=None, description="a plan without steps: `answer` in words, `direct` to the only agent, or `nothing`"
    )
    compose: Compose = Field(
        default="always", description="write an answer; `auto`: only for several agents; `concat`, `never`: without a model"
    )
    channel: Channel = Field(default="chat", description="where the answer is read")
    cache_ttl: SecondsOrZero = Field(default=0.0, description="how long the result of an equal step is reused")
    previous_results: Count = Field(default=12, description="which results of earlier steps a step is shown")


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """How an agent plans."""

    planner: str = PLANNER
    composer: str = COMPOSER
    max_steps: int = 10
    max_replans: int = 3
    max_retries: int = 2
    step_timeout: float = 120.0
    max_concurrent: int = 1
    on_step_failure: OnStepFailure = "replan"
    on_empty_plan: OnEmptyPlan | None = None
    compose: Compose = "always"
    channel: Channel = "chat"
    cache_ttl: float = 0.0
    previous_results: int = 12

    def retries_of(self, wanted: int | None) -> int:
        """Return how often a step is retried: a planner may ask for fewer retries, never for more."""
        return self.max_retries if wanted is None else min(wanted, self.max_retries)


def plan_spec(entry: PlanEntry | None, names: Directories) -> PlanSpec:
    """Return the spec of a checked entry; without one, all defaults."""
    written = (entry or PlanEntry()).model_dump(exclude={"planner", "composer"})
    planner = (
        built_in(PLANNER, names.agents) if entry is None or entry.planner is None else names.agents.canonical(entry.planner)
    )
    composer = (
        built_in(COMPOSER, names.agents)
        if entry is None or entry.composer is None
        else names.agents.canonical(entry.composer)
    )
    return PlanSpec(planner=planner, composer=composer, **written)
