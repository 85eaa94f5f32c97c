"""`outrider agents`: what can be run and dispatched, with strategy, servers and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.cli.terminal.options import ConfigOption, JsonOption, chosen_settings

if TYPE_CHECKING:
    from registry import AgentSpec, ChainSpec, Settings

SHOWN_LIMITS = ("timeout", "max_iterations", "max_concurrent_agents", "agent_timeout", "max_depth", "max_cost_usd")


def agents(as_json: JsonOption = False, config: ConfigOption = None) -> int:
    """List the agents and chains of the configuration."""
    from server.cli.terminal.output import note, put, put_json

    settings = chosen_settings(config)
    found = {
        "agents": [_agent(settings, agent) for agent in settings.agents.values()],
        "chains": [_chain(settings, chain) for chain in settings.chains.values()],
    }
    if as_json:
        put_json(found)
        return 0
    put("\n\n".join([*map(_agent_text, found["agents"]), *map(_chain_text, found["chains"])]))
    note(f"from {settings.source}")
    return 0


def _agent(settings: Settings, agent: AgentSpec) -> dict[str, Any]:
    limits = settings.limits_for(agent)
    return {
        "name": agent.name,
        "strategy": agent.strategy,
        "description": agent.description,
        "capabilities": list(agent.capabilities),
        "model": agent.model if agent.strategy != "function" else None,
        "function": agent.function or None,
        "input": list((agent.input_schema or {}).get("properties", {})),
        "commands": [command.usage for command in agent.route.commands.values()],
        "workspaces": [workspace.name for workspace in agent.workspaces],
        "mcp_servers": list(agent.mcp_servers),
        "sub_agents": [entry.name for entry in settings.catalogue(agent)],
        "limits": {name: getattr(limits, name) for name in SHOWN_LIMITS},
    }


def _chain(settings: Settings, chain: ChainSpec) -> dict[str, Any]:
    limits = settings.limits_for_chain(chain)
    return {
        "name": chain.name,
        "strategy": "chain",
        "description": chain.description,
        "alert_types": list(chain.alert_types),
        "stages": [
            {"name": stage.name, "agents": [each.name for each in stage.agents for _ in range(each.replicas)]}
            for stage in chain.stages
        ],
        "limits": {name: getattr(limits, name) for name in SHOWN_LIMITS},
    }


def _agent_text(agent: dict[str, Any]) -> str:
    lines = [
        f"servers     {', '.join(agent['mcp_servers']) or 'none'}",
        f"dispatches  {', '.join(agent['sub_agents']) or 'none'}",
        f"limits      {_limits(agent['limits'])}",
    ]
    more = (("can", "capabilities"), ("takes", "input"), ("commands", "commands"), ("files", "workspaces"))
    lines = [*(f"{name:<12}{', '.join(agent[key])}" for name, key in more if agent[key]), *lines]
    return _block(agent, f"{agent['strategy']}, {agent['function'] or agent['model']}", lines)


def _chain_text(chain: dict[str, Any]) -> str:
    stages = " → ".join(f"{stage['name']} ({', '.join(stage['agents'])})" for stage in chain["stages"])
    lines = [f"stages      {stages}"]
    if chain["alert_types"]:
        lines.append(f"alerts      {', '.join(chain['alert_types'])}")
    return _block(chain, "chain", [*lines, f"limits      {_limits(chain['limits'])}"])


def _block(entry: dict[str, Any], kind: str, lines: list[str]) -> str:
    from server.cli.terminal.output import one_line

    described = [one_line(entry["description"])] if entry["description"] else []
    return "\n".join([f"{entry['name']} ({kind})", *(f"    {line}" for line in [*described, *lines])])


def _limits(limits: dict[str, Any]) -> str:
    from server.wording import count, duration

    parts = [
        duration(limits["timeout"]),
        count(limits["max_iterations"], "turn"),
        f"{count(limits['max_concurrent_agents'], 'agent')} at once for {duration(limits['agent_timeout'])} each",
        f"depth {limits['max_depth']}",
    ]
    if limits["max_cost_usd"] is not None:
        parts.append(f"${limits['max_cost_usd']:g}")
    return ", ".join(parts)
