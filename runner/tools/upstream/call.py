"""One call of an upstream tool, and the results it can come to without an answer of the server's.

Owns: the words for everything that can go wrong with a call, and whether it may have taken effect nevertheless. Must not
know: connections, or when to call again.
Invariant: a call that may have left and has no readable answer is certain only if its effect makes that unimportant.
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
from runner.tools.upstream.framing import AWAY, CUT_OFF, NO_ANSWER, NO_MESSAGE, REFUSED, UNREADABLE

if TYPE_CHECKING:
    from mcp import MCPError

_OF_NO_USE = "go on without it, and say so; other arguments will not help"
_SAYS_NOTHING = {UNREADABLE: "ask for less, or go on without it", NO_ANSWER: _OF_NO_USE}
"""Errors of our transport that leave open what became of the call, and the hint for one that may be repeated."""

logger = logging.getLogger("outrider.upstream")


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """One call, under the server's own name for the tool."""

    id: str
    server: str
    tool: str
    arguments: Mapping[str, Any]
    effect: str
    """Whether it may be made again: `runner/tools/effects.py`."""
    timeout: float
    scope_id: str
    """The execution that calls."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """The trace it belongs to, for the server to go on with."""
    flight: Flight = field(default_factory=Flight)

    @property
    def label(self) -> str:
        """How people call the tool."""
        return f"{self.server}.{self.tool}"

    def refused(self) -> ToolResult:
        """It is not to be made."""
        return failure("refused", f"`{self.label}` is not permitted by the configuration", "use one of the listed tools")

    def not_called(self, reason: str) -> ToolResult:
        """The server cannot be used now."""
        message = f"`{self.label}` was not called: upstream `{self.server}` {reason}"
        return failure("unavailable", message, "go on without it, or try again later")

    def unknown(self) -> ToolResult:
        """The server has no such tool, or has it no longer."""
        return failure("unknown_tool", f"upstream `{self.server}` has no tool `{self.tool}`", "use a listed one")

    def too_slow(self) -> ToolResult:
        """No answer came in time."""
        message = f"`{self.label}` did not answer within {self.timeout:g} s"
        return self._without_answer("timeout", message, "ask for less, or go on without it")

    def wants_input(self) -> ToolResult:
        """The server wants to ask somebody something first."""
        message = f"`{self.label}` asked for input from a person, which it cannot have here"
        return failure("tool_error", message, "give all it needs in the arguments", ran=True)

    def lost(self, reason: str) -> ToolResult:
        """The server went away in the middle of it."""
        message = f"`{self.label}` was cut off: upstream `{self.server}` {reason}"
        return self._without_answer("unavailable", message, "call it again, or go on without it; the next call reconnects")

    def failed(self, error: Exception, gone: str | None) -> ToolResult:
        """The result for whatever the SDK raised; `gone` says how the server went away, if it has."""
        from mcp import MCPError

        if gone is not None:
            return self.lost(gone)
        if isinstance(error, MCPError):
            return self._answered(error)
        logger.warning("%s gave an answer that cannot be used", self.label, exc_info=error)
        message = f"`{self.label}` gave an answer that cannot be used ({type(error).__name__})"
        return self._without_answer("tool_error", message, "go on without it")

    def _answered(self, error: MCPError) -> ToolResult:
        """An error came as the answer, from the server or from our transport in its place."""
        from mcp.types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND

        message = f"`{self.label}` failed: {said(error)}"
        if error.code == CUT_OFF:
            return self.lost(error.message.removeprefix("the server "))
        if error.code == CONNECTION_CLOSED and error.message == "Connection closed":  # the SDK's word for our own end
            return self.lost("was closed")
        if error.code in _SAYS_NOTHING:
            return self._without_answer("tool_error", message, _SAYS_NOTHING[error.code])
        kind = "invalid_arguments" if error.code == INVALID_PARAMS else "tool_error"
        refused = error.code in (REFUSED, METHOD_NOT_FOUND) or kind == "invalid_arguments"
        hint = _OF_NO_USE if error.code == REFUSED else "correct the arguments, or go on without it"
        return failure(kind, message, hint, ran=not refused)

    def _without_answer(self, kind: str, message: str, hint: str) -> ToolResult:
        return without_answer(kind, clean(message), self.effect if self.flight.sent else "read_only", hint)


def away(error: Exception) -> str | None:
    """Why a server was not there to take the call, if that is what an error says."""
    from mcp import MCPError

    return error.message.removeprefix("the server ") if isinstance(error, MCPError) and error.code == AWAY else None


def failure(kind: str, message: str, hint: str, *, ran: bool = False) -> ToolResult:
    """An error for a model; the words may be a server's, so they are cleaned."""
    return refuse(kind, clean(message), hint, ran=ran)


def said(error: Exception) -> str:
    """What went wrong with an answer, without the inner words of a parser."""
    from mcp import MCPError
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        return "it gave an answer that cannot be used"
    if not isinstance(error, MCPError):
        return str(error).strip() or type(error).__name__
    if error.code == UNREADABLE and error.message.startswith("Failed to parse"):
        return NO_MESSAGE
    return error.message.strip() or f"error {error.code}"
