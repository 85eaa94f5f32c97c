"""Catalogues: which agents one agent may dispatch.

Owns: the sub-agent registry and the rule that selects a catalogue. Must not know: what a dispatch does.
Invariant: entries are immutable and in a fixed order: as listed, else as configured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from registry.specs.agents import NO_OVERRIDES, AgentOverrides, AgentReference, AgentSpec, Requires
from registry.specs.builtin_agents import SYNTHESIZER
from registry.specs.strategies import ROUTING_OR_PLAN


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One agent as a caller sees it, with the overrides of this use applied."""

    name: str
    description: str
    mcp_servers: tuple[str, ...] = ()
    overrides: AgentOverrides = NO_OVERRIDES
    requires: Requires = Requires()  # noqa: RUF009 - frozen
    capabilities: tuple[str, ...] = ()
    input_schema: Mapping[str, Any] | None = None
    """Its named inputs, besides the task."""


def sub_agent_registry(agents: Iterable[AgentSpec]) -> tuple[CatalogueEntry, ...]:
    """Return every agent that can be dispatched without being named: it has a description and cannot itself dispatch."""
    return tuple(_entry(agent) for agent in agents if agent.dispatchable and not agent.can_dispatch)


def offered_agents(agents: Mapping[str, AgentSpec], names: tuple[str, ...] | None) -> tuple[CatalogueEntry, ...]:
    """Return the agents clients of the service may dispatch: those named, else all that have a description."""
    chosen = [agent.name for agent in agents.values() if agent.dispatchable] if names is None else names
    return tuple(_entry(agents[name]) for name in chosen)


def resolve_catalogue(
    agents: Mapping[str, AgentSpec], agent: AgentSpec, *lists: tuple[AgentReference, ...] | None
) -> tuple[CatalogueEntry, ...]:
    """Return the catalogue of `agent`, given the `sub_agents` lists over its own, most specific first.

    The first given list decides, also an empty one. Without a list an orchestrator, and an agent that plans or routes,
    has the whole registry, any other agent nothing. The latter have no Synthesizer: a composer merges results.
    `agents` is keyed by configured names.
    """
    decisive = next((each for each in (*lists, agent.sub_agents) if each is not None), None)
    if decisive is not None:
        return tuple(_entry(agents[reference.name], reference.overrides) for reference in decisive)
    registered = sub_agent_registry(agents.values()) if agent.has_whole_registry else ()
    return tuple(entry for entry in registered if agent.strategy not in ROUTING_OR_PLAN or entry.name != SYNTHESIZER)


def commanded_agents(agents: Mapping[str, AgentSpec], agent: AgentSpec) -> tuple[CatalogueEntry, ...]:
    """Return the agents that the commands of a route may start, apart from those its other messages may go to."""
    return tuple(_entry(agents[name]) for name in agent.route.commanded) if agent.strategy == "route" else ()


def _entry(agent: AgentSpec, overrides: AgentOverrides = NO_OVERRIDES) -> CatalogueEntry:
    used = agent.overridden(overrides)
    return CatalogueEntry(
        name=agent.name,
        description=agent.description.strip(),
        mcp_servers=used.mcp_servers,
        overrides=overrides,
        requires=agent.requires,
        capabilities=agent.capabilities,
        input_schema=agent.input_schema,
    )
