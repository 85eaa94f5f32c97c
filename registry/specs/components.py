"""Components: the three agents that work for an agent that iterates.

Owns: which settings a component has of its own, and which from the agent it works for. Must not know: its tasks.
Invariant: a built-in component has the model and the workspaces of the agent it works for, and as worker also its tools
and agents; a named agent keeps its own settings and shares the workspaces.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from registry.specs.agents import AgentSpec
from registry.specs.iterate import ComponentSpec
from registry.specs.limits import LimitOverrides
from registry.specs.workspaces import WorkspaceSpec

_WHOLE = ("timeout", "max_tokens", "max_cost_usd")
"""Limits of an agent's whole work, which do not apply to its components."""


Part = Literal["planner", "worker", "completer"]


def component_of(role: Part, named: AgentSpec, agent: AgentSpec) -> AgentSpec:
    """Return the component of `agent` in a role: the agent `named` for it, with the overrides of `iterate`."""
    part: ComponentSpec = getattr(agent.iterate, role)
    whole = agent.output_schema if role == "completer" else None
    component = replace(
        named,
        model=part.model or (agent.model if named.is_component else named.model),
        thinking=named.thinking or (named.is_component and agent.thinking),
        custom_instructions=named.custom_instructions if part.instructions is None else "",
        workspaces=_both(named.workspaces, agent.workspaces),
        output_schema=_fits_both(part.output_schema or named.output_schema, whole),
        context=named.context.over(agent.context),
    )
    if not named.is_component:
        return component
    component = replace(component, limits=_parts_of(agent.limits), max_tokens=agent.max_tokens)
    if role != "worker":
        return component
    return replace(
        component,
        mcp_servers=agent.mcp_servers,
        sub_agents=agent.sub_agents,
        utilities=agent.utilities,
        require_tool_call=agent.require_tool_call,
    )


def _both(own: tuple[WorkspaceSpec, ...], shared: tuple[WorkspaceSpec, ...]) -> tuple[WorkspaceSpec, ...]:
    known = {each.name for each in own}
    return (*own, *(each for each in shared if each.name not in known))


def _fits_both(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if first is None or second is None or first == second:
        return first or second
    return {"allOf": [first, second]}


def _parts_of(limits: LimitOverrides) -> LimitOverrides:
    return limits.model_copy(update=dict.fromkeys(_WHOLE))
