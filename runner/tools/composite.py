"""The composite: several sources of tools as one. A strategy sees one list and makes calls; they are routed here.

Owns routing by name, the filter of the execution, and the guarantee that every call has a result: an exception of a layer
becomes an error for the model; only cancellation is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from runner.messages import Tool, ToolCall
from runner.tools.effects import without_answer
from runner.tools.naming import normalise, why_unknown
from runner.tools.protocol import ToolExecutor, ToolResult

log = logging.getLogger("outrider.tools")


class CompositeTools:
    """A `ToolExecutor` over several layers; their order is the order of the tools."""

    def __init__(
        self,
        layers: Sequence[ToolExecutor],
        permits: Callable[[Tool], bool] = lambda _tool: True,
        unavailable: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._layers = layers
        self._permits = permits
        self._unavailable = unavailable
        """Servers whose tools are missing, with the reason: a call of such a tool gets it."""
        self._routes: dict[str, tuple[Tool, ToolExecutor]] | None = None
        self._closed = False

    async def list_tools(self, wanted: Callable[[ToolExecutor], bool] | None = None) -> Sequence[Tool]:
        """The permitted tools of all layers, or of those wanted; on a clash the earlier layer keeps the name."""
        routes: dict[str, tuple[Tool, ToolExecutor]] = {}
        for layer in self._layers if wanted is None else filter(wanted, self._layers):
            for tool in await layer.list_tools():
                if self._permits(tool):
                    routes.setdefault(tool.name, (tool, layer))
        self._routes = routes
        return [tool for tool, _ in routes.values()]

    def tool(self, name: str) -> Tool | None:
        """The listed tool that a call of that name would reach."""
        route = (self._routes or {}).get(self._exact(name))
        return route[0] if route is not None else None

    def _exact(self, name: str) -> str:
        routes = self._routes or {}
        return name if name in routes else normalise(name, routes.keys()) or name

    async def call(self, call: ToolCall) -> ToolResult:
        """Make one call; raises nothing but cancellation."""
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
            call.flight.sent = True  # as far as known here; the layer may know better
            return await layer.call(call if name == call.name else replace(call, name=name))
        except Exception:
            log.exception("tool %s raised", call.name)
            effect = tool.effect if tool is not None and call.flight.sent else "read_only"
            return without_answer("internal", f"`{call.name}` failed inside Outrider", effect, "continue without it")

    async def close(self) -> None:
        """Close the layers in order, each also if one before it failed; harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        for layer in self._layers:
            try:
                await layer.close()
            except Exception:
                log.exception("closing %s failed", type(layer).__name__)

    def _unknown(self, name: str) -> ToolResult:
        kind, message, hint = why_unknown(name, (self._routes or {}).keys(), self._unavailable())
        return ToolResult(f"error: {message}\nhint: {hint}", is_error=True, error_type=kind, ran=False)
