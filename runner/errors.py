"""The errors of the runner.

RunnerError            anything below; has a `hint`
├── Refusal            a spawn that was not admitted; typed, the hint says what is allowed
├── FactRefused        a refused change of memory: no such fact, or a duplicate
├── ItemRefused        a refused change of a work item: no such item, or an invalid title
├── InvalidInput       arguments that a function does not take
├── NoModel            a model with neither a key nor a rehearsal
│   ├── BrokenRehearsal   a model whose rehearsal cannot be read
│   └── NoEndpoint     a model of another provider without a base URL
├── ServerMissing      a required MCP server is unavailable
├── ValidationError    an invalid standard return
│   └── SessionMismatchError   a return with the id of another session
├── Unready            an interrupted tree with a need that this process lacks: `runner/resume/readiness.py`
├── Interrupted        an execution of a dead process that is not resumed
└── Fenced             another process has taken over the execution
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

RefusalKind = Literal[
    "unknown_agent",
    "unknown_user",
    "not_in_catalogue",
    "permission_denied",
    "delegation_cycle",
    "max_depth_exceeded",
    "limit",
    "budget",
    "wrapping_up",
    "stopping",
    "unavailable",
    "invalid_input",
    "key_reused",
    "no_model",
    "running",
    "busy",
    "no_assistant",
    "ended",
    "invalid_input",
    "unknown_command",
    "usage",
]

UNSAFE: frozenset[RefusalKind] = frozenset(("delegation_cycle", "max_depth_exceeded"))
"""Unbounded recursion among agents: a fault of the configuration, not a missing permission."""


class RunnerError(Exception):
    """An error for people: a message that says what failed and why, and a hint that says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Refusal(RunnerError):
    """A spawn was not admitted. No execution was started and no row written."""

    def __init__(self, kind: RefusalKind, message: str, hint: str, context: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint)
        self.kind: RefusalKind = kind
        self.context = context or {}


class FactRefused(RunnerError):
    """A change of a user's memory was refused. Nothing was changed."""

    def __init__(self, kind: Literal["unknown_fact", "known_fact"], message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.kind = kind


class ItemRefused(RunnerError):
    """A change of a work item was refused. Nothing was changed."""

    def __init__(self, kind: Literal["unknown_item", "no_title", "long_title"], message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.kind = kind


class InvalidInput(RunnerError):
    """Arguments that a function does not take. It was not called."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults), "pass the fields it takes, as `--input NAME=VALUE` or as a JSON object")


class Interrupted(RunnerError):
    """The process of an execution died, and the execution is not resumed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"its process ended before it finished, and {why}", "start it again, or continue it")


class ValidationError(RunnerError):
    """An agent's answer violates the standard return."""


class SessionMismatchError(ValidationError):
    """An agent's answer has the id of another session."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"Session ID mismatch: expected {expected}, got {found}")


class NoModel(RunnerError):
    """A model without a key and without a rehearsal."""

    def __init__(self, model: str, variable: str) -> None:
        super().__init__(
            f"the model `{model}` has no API key and no rehearsal",
            f"set `{variable}`, or give the model a `rehearsal:` in the configuration; `outrider demo` needs neither",
        )


class BrokenRehearsal(NoModel):
    """A model whose rehearsal cannot be read."""

    def __init__(self, message: str, hint: str) -> None:
        RunnerError.__init__(self, message, hint)


class NoEndpoint(NoModel):
    """A model of another provider without a base URL: Anthropic's endpoint does not know it."""

    def __init__(self, message: str, hint: str) -> None:
        RunnerError.__init__(self, message, hint)


class ServerMissing(RunnerError):
    """A required server of an agent is unavailable. No model was called."""

    def __init__(self, agent: str, server: str, why: str) -> None:
        super().__init__(
            f"`{agent}` cannot work without the server `{server}`, which {why}",
            f"check `mcp_servers.{server}`, or set `required: false` there to let its agents work without it",
        )
        self.server = server


def first_cause(error: Exception) -> Exception:
    """The first error inside nested exception groups."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


class Fenced(RunnerError):
    """Another process owns the execution; this one must stop writing."""

    def __init__(self, execution: str) -> None:
        super().__init__(f"execution `{execution}` was taken over by another process", "inspect it with `outrider show`")
