"""What a tool executor is: it lists tools, calls them, and is closed. Layers stack because all have this one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from runner.messages import Tool, ToolCall


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call returned: text for the model and, where there is any, the structured form for rows and rehearsals."""

    text: str
    is_error: bool = False
    structured: Any = None
    error_type: str | None = None
    """From a closed set: `unknown_tool`, `invalid_arguments`, `timeout`, `unavailable`, `not_found`, `tool_error` …"""
    ran: bool = True
    """Whether it counts as a tool call: a tool carried it out and answered, be it with an error of its own. Not so what was
    refused, what no tool has, what never came back, and a report by `finish`.
    """
    uncertain: bool = False
    """Whether nobody can tell if it took effect; `runner/tools/effects.py` decides."""
    consumed: tuple[str, ...] = ()
    """Deliveries this result hands over; they are consumed in the transaction that stores it."""
    recorded: bool = False
    """Whether the result is stored already, as a dispatch's is: in the transaction that made the child."""
    full_text: str | None = None
    """The uncut text when `text` was cut to the cap; stored, and served by `read_result`."""
    seams: tuple[int, ...] = field(default=(), compare=False)
    """Where in `text` a line break stands between two blocks, until it is masked: secrets may go on beyond it."""
    mark: str = ""
    """What `text` ends with that is a mark of ours; all before it comes from outside."""


class ToolExecutor(Protocol):
    """A source of tools. An error is a result the model can act on; only cancellation is raised."""

    async def list_tools(self) -> Sequence[Tool]:
        """The tools, in a stable order."""
        ...

    async def call(self, call: ToolCall) -> ToolResult:
        """Carry out one call."""
        ...

    async def close(self) -> None:
        """End what this executor owns; harmless when called twice."""
        ...
