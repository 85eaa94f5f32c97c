"""The toolbox of an execution: the one place that combines its sources of tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry import AgentSpec, Limits, ToolFilter
from runner.core.services import Services
from runner.messages import Tool, ToolCall
from runner.snapshot import Subtree
from runner.tools.builtin import SERVER, OwnTool, OwnTools
from runner.tools.composite import CompositeTools
from runner.tools.dispatch import dispatch_tools
from runner.tools.protocol import ToolExecutor, ToolResult
from runner.tools.secrets import Mask
from runner.tools.upstream.pool import UpstreamCaller, UpstreamTools


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one execution, and the state of their servers."""

    tools: CompositeTools
    upstream: UpstreamTools | None

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Servers that could not be reached, and why."""
        return self.upstream.unavailable if self.upstream is not None else {}

    async def close(self) -> None:
        """Release all tools."""
        await self.tools.close()

    async def stop_servers(self) -> None:
        """Stop the servers that belong to this execution, whether or not other tools are in use."""
        if self.upstream is not None:
            await self.upstream.close()


@dataclass(frozen=True, slots=True)
class Needs:
    """The parameters of a toolbox."""

    agent: AgentSpec
    limits: Limits
    scope_id: str
    denied_above: Sequence[ToolFilter]
    """Filters of the ancestors; their denials apply here too."""
    trace: Mapping[str, str]
    """Sent with every call of an upstream server."""


class _Masked:
    """Tools of an embedding program; secrets in their results are masked like those of upstream servers."""

    def __init__(self, tools: ToolExecutor, mask: Mask) -> None:
        self._tools, self._mask = tools, mask

    async def list_tools(self) -> Sequence[Tool]:
        return await self._tools.list_tools()

    async def call(self, call: ToolCall) -> ToolResult:
        return await self._mask.result(await self._tools.call(call))

    async def close(self) -> None:
        await self._tools.close()


def build_toolbox(services: Services, needs: Needs, family: Subtree, own: Sequence[OwnTool[Any]]) -> Toolbox:
    """Combine dispatch tools, if there is a catalogue, own tools, and those of upstream servers."""
    layers: list[ToolExecutor] = []
    if family.catalogue:
        layers.append(OwnTools(dispatch_tools(family, marked=False)))
    layers.append(OwnTools(own))
    layers.extend(_Masked(factory(needs.agent), services.upstreams.mask) for factory in services.extra_tools)
    upstream = None
    if needs.agent.mcp_servers:
        caller = UpstreamCaller(needs.scope_id, needs.limits.tool_timeout, needs.trace)
        upstream = services.upstreams.tools(needs.agent.mcp_servers, caller)
        layers.append(upstream)

    def unavailable() -> Mapping[str, str]:
        return upstream.unavailable if upstream is not None else {}

    permitted, observers = permits(needs.agent, needs.denied_above), services.observers
    if observers is None:
        return Toolbox(CompositeTools(layers, permitted, unavailable), upstream)
    from runner.telemetry.calls import ObservedTools, ToolObservation

    targets = frozenset(entry.name for entry in family.catalogue)
    seen = ToolObservation(needs.scope_id, needs.agent.name, targets, services.settings, observers)
    return Toolbox(ObservedTools(layers, permitted, unavailable, seen), upstream)


def permits(agent: AgentSpec, denied_above: Sequence[ToolFilter]) -> Callable[[Tool], bool]:
    """A predicate for the tools that an agent may use, below ancestors that denied some."""

    def permitted(tool: Tool) -> bool:
        server = None if tool.server == SERVER else tool.server
        name = tool.label.removeprefix(f"{tool.server}.") if server is not None else tool.label
        if any(above.denies(name, server) for above in denied_above):
            return False
        return agent.tools.permits(name, server) if server is not None else not agent.tools.denies(name)

    return permitted
