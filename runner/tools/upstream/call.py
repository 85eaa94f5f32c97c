"""One call of an upstream tool, and its results when the server gives no usable answer.

Owns the error texts of a call, and whether it may have taken effect anyway. Must not know: connections, or retries.
Invariant: a call that may have been sent and has no readable answer is `unknown`, unless its effect makes that harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.messages import Flight, clean
from runner.tools.builtin import refuse
from runner.tools.effects import without_answer
from runner.tools.protocol import ToolResult
from runner.tools.upstream.framing import AWAY, CUT_OFF, NO_ANSWER, NO_MESSAGE, REASON, REFUSED, UNREADABLE

if TYPE_CHECKING:
    from mcp import MCPError

_USELESS = "continue without it, and say so; other arguments will not help"
_OUTCOME_OPEN = {UNREADABLE: "ask for less, or continue without it", NO_ANSWER: _USELESS}
"""Errors of our transport after which the outcome is open, with the hint for a call that may be repeated."""

logger = logging.getLogger("outrider.upstream")


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """One call, under the server's own name for the tool."""

    id: str
    server: str
    tool: str
    arguments: Mapping[str, Any]
    effect: str
    """Whether it may be repeated: `runner/tools/effects.py`."""
    timeout: float
    scope_id: str
    """The calling execution."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """Its trace context, sent to the server."""
    flight: Flight = field(default_factory=Flight)

    @property
    def label(self) -> str:
        """The tool's name for people."""
        return f"{self.server}.{self.tool}"

    def refused(self) -> ToolResult:
        """The configuration forbids the tool."""
        return failure("refused", f"`{self.label}` is not permitted by the configuration", "use one of the listed tools")

    def not_called(self, reason: str) -> ToolResult:
        """The server is unavailable."""
        message = f"`{self.label}` was not called: upstream `{self.server}` {reason}"
        return failure("unavailable", message, "continue without it, or try again later")

    def unknown(self) -> ToolResult:
        """The server does not, or no longer, have the tool."""
        return failure("unknown_tool", f"upstream `{self.server}` has no tool `{self.tool}`", "use a listed tool")

    def too_slow(self) -> ToolResult:
        """The timeout passed without an answer."""
        message = f"`{self.label}` did not answer within {self.timeout:g} s"
        return self._without_answer("timeout", message, "ask for less, or continue without it")

    def wants_input(self) -> ToolResult:
        """The server asked for input from a person."""
        message = f"`{self.label}` asked for input from a person, which is not supported"
        return failure("tool_error", message, "give everything it needs in the arguments", ran=True)

    def lost(self, reason: str) -> ToolResult:
        """The connection was lost during the call."""
        message = f"`{self.label}` was cut off: upstream `{self.server}` {reason}"
        return self._without_answer(
            "unavailable", message, "call it again, or continue without it; the next call reconnects"
        )

    def failed(self, error: Exception, gone: str | None) -> ToolResult:
        """The result for an exception of the SDK; `gone` is the reason if the connection was lost."""
        from mcp import MCPError

        if gone is not None:
            return self.lost(gone)
        if isinstance(error, MCPError):
            return self._answered(error)
        logger.warning("%s gave an unusable answer", self.label, exc_info=error)
        message = f"`{self.label}` gave an unusable answer ({type(error).__name__})"
        return self._without_answer("tool_error", message, "continue without it")

    def _answered(self, error: MCPError) -> ToolResult:
        """An error came as the answer: from the server, or from our transport in its place."""
        from mcp.types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND

        message = f"`{self.label}` failed: {error_text(error)}"
        if error.code == CUT_OFF:
            return self.lost(_reason(error))
        if (
            error.code == CONNECTION_CLOSED and error.message == "Connection closed"
        ):  # the SDK's message when we closed the connection
            return self.lost("was closed")
        if error.code in _OUTCOME_OPEN:
            return self._without_answer("tool_error", message, _OUTCOME_OPEN[error.code])
        kind = "invalid_arguments" if error.code == INVALID_PARAMS else "tool_error"
        refused = error.code in (REFUSED, METHOD_NOT_FOUND) or kind == "invalid_arguments"
        hint = _USELESS if error.code == REFUSED else "correct the arguments, or continue without it"
        return failure(kind, message, hint, ran=not refused)

    def _without_answer(self, kind: str, message: str, hint: str) -> ToolResult:
        return without_answer(kind, clean(message), self.effect if self.flight.sent else "read_only", hint)


def unreachable_reason(error: Exception) -> str | None:
    """The reason, if the error says that the server was not there to take the call."""
    from mcp import MCPError

    return _reason(error) if isinstance(error, MCPError) and error.code == AWAY else None


def _reason(error: MCPError) -> str:
    """The reason in the data of our transport's error; an error without one consists of its reason."""
    reason = error.data.get(REASON) if isinstance(error.data, Mapping) else None
    return reason if isinstance(reason, str) else error.message


def failure(kind: str, message: str, hint: str, *, ran: bool = False) -> ToolResult:
    """An error for a model; its text may be a server's, so it is cleaned."""
    return refuse(kind, clean(message), hint, ran=ran)


def error_text(error: Exception) -> str:
    """The text of an error, without a parser's internals."""
    from mcp import MCPError
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        return "it gave an unusable answer"
    if not isinstance(error, MCPError):
        return str(error).strip() or type(error).__name__
    # The SDK's own words, with a parser's internals after them; it gives no data by which to know them.
    if error.code == UNREADABLE and error.message.startswith("Failed to parse"):
        return NO_MESSAGE
    return error.message.strip() or f"error {error.code}"
