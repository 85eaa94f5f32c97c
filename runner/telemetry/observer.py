"""Observers: told of every execution, model call, tool call and MCP request, when it begins and how it ended.

Owns what they are told, and their isolation: an observer that raises is logged, and the work goes on as if it had not been
there. Must not know: spans, metrics. Invariant: each beginning is followed by at most one end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from db.rows.executions import Place
from registry import Cost
from runner.llm.protocol import Reply, Request
from runner.messages import Tool, ToolCall
from runner.tools.protocol import ToolResult

log = logging.getLogger("outrider.telemetry")


@dataclass(frozen=True, slots=True)
class ObservedExecution:
    """An execution that begins here, or goes on here."""

    place: Place
    agent: str
    """Its name in the configuration."""
    name: str
    """Its display name."""
    description: str
    is_chain: bool
    role: str
    attempt: int
    """Above 1 where it was taken over from another process."""
    model: str | None
    provider: str
    trace: Mapping[str, str]
    """The trace context that its tree was started with."""
    dispatched: Mapping[str, str] | None
    """The trace context of the tool call that dispatched it."""


@dataclass(frozen=True, slots=True)
class ExecutionOutcome:
    """The stored end of an execution."""

    status: str
    outcome: str
    reason: str | None
    error_type: str | None
    """None for an end that is no error: an answer, a cancel, a step that was not needed."""
    seconds: float
    cost_usd: float


@dataclass(frozen=True, slots=True)
class ObservedModelCall:
    """A call of a model, over all its attempts."""

    request: Request
    rehearses: bool


@dataclass(frozen=True, slots=True)
class ModelCallOutcome:
    """How a model call ended: with a reply, with an error, or cancelled if there is neither."""

    seconds: float
    reply: Reply | None = None
    cost: Cost | None = None
    error: Exception | None = None
    first_chunk: float | None = None
    """Seconds until the first text came."""


@dataclass(frozen=True, slots=True)
class ObservedToolCall:
    """A call of a tool."""

    execution_id: str
    agent: str
    call: ToolCall
    tool: Tool | None
    """None for a tool that does not exist."""
    target: str | None = None
    """The agent that it dispatches."""
    transport: str | None = None
    """How its MCP server is reached."""


@dataclass(frozen=True, slots=True)
class ToolCallOutcome:
    """How a tool call ended; without a result it was cancelled."""

    seconds: float
    result: ToolResult | None = None


@dataclass(frozen=True, slots=True)
class ObservedRequest:
    """A request of an MCP client."""

    method: str
    target: str | None
    """The tool that is called, if it exists."""
    id: str
    protocol: str
    transport: str
    session: str | None
    meta: Mapping[str, Any]
    carried: dict[str, str] = field(default_factory=dict)
    """Filled by an observer: the trace context for what the request starts."""


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """How a request ended."""

    seconds: float
    error_type: str | None = None
    code: int | None = None


T = TypeVar("T")
U = TypeVar("U")
End = Callable[[T], None]


class Observer(Protocol):
    """Told of a beginning, it returns what is told of the end. It runs in the event loop and must not block."""

    def execution(self, about: ObservedExecution) -> End[ExecutionOutcome | None]:
        """The end is None for an execution that another process continues."""
        ...

    def model_call(self, about: ObservedModelCall) -> End[ModelCallOutcome]: ...

    def tool_call(self, about: ObservedToolCall) -> End[ToolCallOutcome]: ...

    def request(self, about: ObservedRequest) -> End[RequestOutcome]: ...

    def close(self) -> None:
        """Send what is left, in a bounded time. Called in a thread."""
        ...


class Observers:
    """The observers of a service as one."""

    def __init__(self, each: Sequence[Observer]) -> None:
        self.each = each

    def execution(self, about: ObservedExecution) -> End[ExecutionOutcome | None]:
        """Tell all of an execution; the end is None if another process continues it."""
        return self._begin([each.execution for each in self.each], about)

    def model_call(self, about: ObservedModelCall) -> End[ModelCallOutcome]:
        """Tell all of a model call."""
        return self._begin([each.model_call for each in self.each], about)

    def tool_call(self, about: ObservedToolCall) -> End[ToolCallOutcome]:
        """Tell all of a tool call."""
        return self._begin([each.tool_call for each in self.each], about)

    def request(self, about: ObservedRequest) -> End[RequestOutcome]:
        """Tell all of a request."""
        return self._begin([each.request for each in self.each], about)

    def close(self) -> None:
        """Close all."""
        for each in self.each:
            try:
                each.close()
            except Exception:
                log.exception("an observer could not be closed")

    def _begin(self, begins: Sequence[Callable[[T], End[U]]], about: T) -> End[U]:
        ends = [end for begin in begins if (end := _guarded(begin, about)) is not None]
        return partial(_end, ends)


def _end(ends: Sequence[End[U]], outcome: U) -> None:
    for end in ends:
        _guarded(end, outcome)


def _guarded(tell: Callable[[T], U], about: T) -> U | None:
    try:
        return tell(about)
    except Exception:
        log.exception("an observer failed")
        return None
