"""The composite: several sources of tools as one. A strategy sees one list and makes calls; where they go is decided here.

Owns routing by name, the filter of the execution, and the promise that a call always has a result: whatever a layer raises
becomes an error the model can read; only cancellation passes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from runner.messages import Tool, ToolCall
from runner.tools.effects import without_answer
from runner.tools.naming import nearest, normalise
from runner.tools.protocol import ToolExecutor, ToolResult

log = logging.getLogger("outrider.tools")


class CompositeTools:
    """A `ToolExecutor` over other ones; their order is the order of the tools."""

    def __init__(
        self,
        layers: Sequence[ToolExecutor],
        permits: Callable[[Tool], bool] = lambda _tool: True,
        unavailable: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._layers = layers
        self._permits = permits
        self._unavailable = unavailable
        """Servers whose tools are missing, and why: a call of one gets that reason instead of a guess."""
        self._routes: dict[str, tuple[Tool, ToolExecutor]] | None = None
        self._closed = False

    async def list_tools(self) -> Sequence[Tool]:
        """The permitted tools of all layers; on a clash the earlier layer keeps the name."""
        routes: dict[str, tuple[Tool, ToolExecutor]] = {}
        for layer in self._layers:
            for tool in await layer.list_tools():
                if self._permits(tool):
                    routes.setdefault(tool.name, (tool, layer))
        self._routes = routes
        return [tool for tool, _ in routes.values()]

    def tool(self, name: str) -> Tool | None:
        """The tool a call of that name would reach, as far as listed."""
        route = (self._routes or {}).get(self._exact(name))
        return route[0] if route is not None else None

    def _exact(self, name: str) -> str:
        routes = self._routes or {}
        return name if name in routes else normalise(name, routes.keys()) or name

    async def call(self, call: ToolCall) -> ToolResult:
        """Carry out one call; never raises but cancellation."""
        tool: Tool | None = None
        try:
            if self._routes is None:
                await self.list_tools()
            name = self._exact(call.name)
            route = (self._routes or {}).get(name)
            if route is None:
                return self._unknown(call.name)
            if call.malformed is not None:
                message = f"error: the arguments of `{name}` are not a JSON object\nhint: send one object"
                return ToolResult(message, is_error=True, error_type="invalid_arguments", ran=False)
            tool, layer = route
            call.flight.sent = True  # as far as anybody here can tell; a layer may know better
            return await layer.call(call if name == call.name else replace(call, name=name))
        except Exception:
            log.exception("tool %s failed inside", call.name)
            effect = tool.effect if tool is not None and call.flight.sent else "read_only"
            return without_answer("internal", f"`{call.name}` failed inside Outrider", effect, "go on without it")

    async def close(self) -> None:
        """Close the layers, the first one first, each even if one before it failed; harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        for layer in self._layers:
            try:
                await layer.close()
            except Exception:
                log.exception("closing %s failed", type(layer).__name__)

    def _unknown(self, name: str) -> ToolResult:
        shown = name[:200]
        for server, reason in self._unavailable().items():
            if name.startswith((f"{server}__", f"{server}.")):
                message = f"error: `{shown}` was not called: upstream `{server}` {reason}"
                return ToolResult(f"{message}\nhint: go on without it", is_error=True, error_type="unavailable", ran=False)
        close = ", ".join(f"`{each}`" for each in nearest(shown, (self._routes or {}).keys()))
        hint = f"the nearest are {close}" if close else "you have no tools; answer with what you know"
        message = f"error: there is no tool `{shown}`\nhint: {hint}"
        return ToolResult(message, is_error=True, error_type="unknown_tool", ran=False)
