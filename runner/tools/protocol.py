"""The tool executor protocol: list tools, call one, close. Layers stack because they all implement it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from runner.messages import Tool, ToolCall


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call: text for the model, and a structured form for rows and rehearsals where there is one."""

    text: str
    is_error: bool = False
    structured: Any = None
    error_type: str | None = None
    """From a closed set: `unknown_tool`, `invalid_arguments`, `timeout`, `unavailable`, `not_found`, `tool_error` …"""
    ran: bool = True
    """Whether it counts as a tool call: a tool ran and answered, if only with its own error. Refused calls, unknown
    tools, calls without an answer and `finish` do not count.
    """
    uncertain: bool = False
    """Whether it is unknown if the call took effect; `runner/tools/effects.py` decides."""
    consumed: tuple[str, ...] = ()
    """Deliveries in this result; they are consumed in the transaction that stores it."""
    recorded: bool = False
    """Whether the result is stored already: a dispatch stores it in the transaction that creates the child."""
    full_text: str | None = None
    """The uncut text if `text` was cut to the cap; stored, and served by `read_result`."""
    seams: tuple[int, ...] = field(default=(), compare=False)
    """Offsets in `text` of line breaks between two blocks, until it is masked: a secret may continue across one."""
    mark: str = ""
    """The mark of Outrider's at the end of `text`; all before it is from outside."""


class ToolExecutor(Protocol):
    """A source of tools. An error is a result the model can act on; only cancellation is raised."""

    async def list_tools(self) -> Sequence[Tool]:
        """The tools, in a stable order."""
        ...

    async def call(self, call: ToolCall) -> ToolResult: ...

    async def close(self) -> None:
        """Release what this executor owns; harmless when called twice."""
        ...
