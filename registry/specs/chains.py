"""Chains: named lists of stages, each a set of agents that run at the same time.

Owns: the shape of an `agent_chains` entry, ChainSpec, StageSpec and StageAgent. Must not know: how stages are run.
Invariant: settings of a chain, stage or stage agent apply to its stage agents, not to agents that these dispatch.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from registry.specs.agents import (
    NO_OVERRIDES,
    AgentOverrides,
    AgentReference,
    OnRestart,
    Reference,
    Use,
    flat_limits,
    named,
    references,
    use_of,
)
from registry.specs.builtin_agents import SYNTHESIZER
from registry.specs.limits import LimitOverrides
from registry.text.entry import Count, Entry, Line, Text
from registry.text.names import Directories

SuccessPolicy = Literal["any", "all"]


class StageAgentEntry(Use):
    """One element of a stage's `agents` as written."""

    replicas: Count = Field(default=1, description="how many replicas run at the same time")
    sub_agents: tuple[Reference, ...] | None = Field(default=None, description="agents it may dispatch here; `[]`: none")
    limits: LimitOverrides | None = Field(default=None, description="its limits here")

    @model_validator(mode="after")
    def _one_meaning(self) -> Self:
        flat_limits(self)
        return self


class SynthesisEntry(Entry):
    """A stage's `synthesis` in its long form."""

    name: Line = Field(description="the agent that merges the results of the stage")


class StageEntry(Entry):
    """One element of a chain's `stages` as written."""

    name: Line = Field(description="the name of the stage")
    agents: tuple[Annotated[StageAgentEntry, BeforeValidator(named, json_schema_input_type=str | StageAgentEntry)], ...] = (
        Field(min_length=1, description="agents that run at the same time")
    )
    sub_agents: tuple[Reference, ...] | None = Field(default=None, description="agents its agents may dispatch; `[]`: none")
    limits: LimitOverrides | None = Field(default=None, description="limits of its agents")
    success_policy: SuccessPolicy = Field(default="any", description="how many agents must succeed")
    synthesis: Annotated[SynthesisEntry, BeforeValidator(named, json_schema_input_type=str | SynthesisEntry)] | None = (
        Field(default=None, description="agent that merges more than one result; absent: the built-in one")
    )


class ChainEntry(Entry):
    """One entry of `agent_chains` as written."""

    description: Text = Field(default="", description="the purpose of the chain")
    alert_types: tuple[Line, ...] = Field(default=(), description="types of alerts that start it")
    sub_agents: tuple[Reference, ...] | None = Field(default=None, description="agents its agents may dispatch; `[]`: none")
    limits: LimitOverrides | None = Field(default=None, description="limits of the chain and of its agents")
    on_restart: OnRestart = Field(default="resume", description="after a crash: `resume` it, or `fail` it")
    stages: tuple[StageEntry, ...] = Field(min_length=1, description="its stages, in order")


@dataclass(frozen=True, slots=True)
class StageAgent:
    """An agent of a stage, with the stage's overrides."""

    name: str
    replicas: int = 1
    sub_agents: tuple[AgentReference, ...] | None = None
    overrides: AgentOverrides = NO_OVERRIDES


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage. `synthesis` names the agent that merges its results when there is more than one."""

    name: str
    agents: tuple[StageAgent, ...]
    sub_agents: tuple[AgentReference, ...] | None = None
    limits: LimitOverrides = LimitOverrides()
    success_policy: SuccessPolicy = "any"
    synthesis: str = SYNTHESIZER


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """A chain of stages."""

    name: str
    stages: tuple[StageSpec, ...]
    description: str = ""
    alert_types: tuple[str, ...] = ()
    sub_agents: tuple[AgentReference, ...] | None = None
    limits: LimitOverrides = LimitOverrides()
    on_restart: OnRestart = "resume"


@dataclass(frozen=True, slots=True)
class StagePlace:
    """An agent's place in a chain: the chain, the stage and the stage agent, each of which may set limits."""

    chain: ChainSpec
    stage: StageSpec
    agent: StageAgent


def chain_spec(name: str, entry: ChainEntry, names: Directories) -> ChainSpec:
    """Return the spec of a checked entry."""
    return ChainSpec(
        name=name,
        stages=tuple(_stage(stage, names) for stage in entry.stages),
        description=entry.description,
        alert_types=entry.alert_types,
        sub_agents=references(entry.sub_agents, names),
        limits=entry.limits or LimitOverrides(),
        on_restart=entry.on_restart,
    )


def _stage(entry: StageEntry, names: Directories) -> StageSpec:
    return StageSpec(
        name=entry.name,
        agents=tuple(_stage_agent(agent, names) for agent in entry.agents),
        sub_agents=references(entry.sub_agents, names),
        limits=entry.limits or LimitOverrides(),
        success_policy=entry.success_policy,
        synthesis=names.agents.canonical(SYNTHESIZER if entry.synthesis is None else entry.synthesis.name),
    )


def _stage_agent(entry: StageAgentEntry, names: Directories) -> StageAgent:
    return StageAgent(
        name=names.agents.canonical(entry.name),
        replicas=entry.replicas,
        sub_agents=references(entry.sub_agents, names),
        overrides=use_of(entry, names),
    )
