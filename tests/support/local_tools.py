"""Tools that run inside the test, as a real executor of the composite: a test can gate, break and observe them.

Owns: an executor over plain functions. Must not know: any test. Invariant: it counts how often it was closed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio

from registry import AgentSpec
from runner.messages import Tool, ToolCall
from runner.tools.protocol import ToolExecutor, ToolResult

Function = Callable[[Mapping[str, Any]], Awaitable[str]]


class LocalTools:
    """A `ToolExecutor` over functions; `for_agents` hands it to some agents and an empty one to all others."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        effect: str = "at_most_once",
        effects: Mapping[str, str] | None = None,
        gate: str = "none",
    ) -> None:
        self._functions, self._effect, self._effects, self._gate = functions, effect, effects or {}, gate
        self.calls: list[ToolCall] = []
        self.closed = 0

    async def list_tools(self) -> Sequence[Tool]:
        """One tool for each function."""
        return [
            Tool(
                name,
                f"The tool {name}.",
                {"type": "object"},
                label=f"local.{name}",
                server="local",
                effect=self._effects.get(name, self._effect),
                gate=self._gate,
            )
            for name in self._functions
        ]

    async def call(self, call: ToolCall) -> ToolResult:
        """Run the function; its exceptions are passed on."""
        self.calls.append(call)
        return ToolResult(await self._functions[call.name](call.arguments))

    async def close(self) -> None:
        """Count, and yield to the event loop as a real connection does."""
        self.closed += 1
        await anyio.lowlevel.checkpoint()

    def for_agents(self, *names: str) -> list[Callable[[AgentSpec], ToolExecutor]]:
        """The `extra_tools` of a service that gives these agents the tools."""
        return [lambda agent: self if agent.name in names else LocalTools({})]


async def stubborn(until: anyio.Event) -> str:
    """Ignore cancellation until the event is set."""
    with anyio.CancelScope(shield=True):
        await until.wait()
    return "at last"
