"""Skills: what a worker can do, by name, for whoever decides what it is to do: the agents it may send and its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from registry import AgentSpec, CatalogueEntry
from runner.execution import Execution
from runner.toolbox import permits
from runner.tools.upstreams import UpstreamCaller


async def skills_of(
    execution: Execution, worker: AgentSpec, catalogue: Sequence[CatalogueEntry]
) -> Sequence[Mapping[str, str]]:
    """The skills of a worker of this execution. A server that cannot be reached has none, which is told."""
    agents = [{"name": entry.name, "description": entry.description} for entry in catalogue]
    if not worker.mcp_servers:
        return agents
    caller = UpstreamCaller(execution.id, execution.limits.tool_timeout, execution.origin.trace)
    upstream = execution.services.upstreams.tools(worker.mcp_servers, caller)
    try:
        tools = await upstream.list_tools()
        allowed = permits(worker, execution.denied)
        assert execution.work is not None
        execution.work.warnings += [f"`{name}` could not be reached: {why}" for name, why in upstream.unavailable.items()]
    finally:
        await upstream.close()
    return [*agents, *({"name": tool.name, "description": tool.description} for tool in tools if allowed(tool))]
