"""What can go wrong in the runner.

RunnerError            anything below; has a `hint`
├── Refusal            a spawn the guard did not admit; typed, with what is allowed
├── FactRefused        a change of memory that cannot be: no such fact, or another one says the same
├── ItemRefused        a change of a work item that cannot be: there is none, or it has no title
├── InvalidInput       a function was to be called with values it does not take
├── NoModel            an agent whose model has neither a key nor a rehearsal
├── ServerMissing      an agent without an MCP server that it cannot work without
│   └── NoEndpoint     one whose model is another maker's and has no address
├── ValidationError    a standard return that is not one
│   └── SessionMismatchError   the return of somebody else's session
├── Unready            an interrupted tree that needs something this process lacks: `runner/resume/readiness.py`
├── Interrupted        an execution whose process is gone, and that does not go on
└── Fenced             another process has taken the execution over
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
"""Where agents call each other without end: nothing that a user could allow, but a fault of how they are put together."""


class RunnerError(Exception):
    """A problem in the runner, told for people: what happened, then what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Refusal(RunnerError):
    """A dispatch that was not admitted. Nothing was started and no row was written."""

    def __init__(self, kind: RefusalKind, message: str, hint: str, context: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint)
        self.kind: RefusalKind = kind
        self.context = context or {}


class FactRefused(RunnerError):
    """A change of what is remembered of a person, refused. Nothing was changed."""

    def __init__(self, kind: Literal["unknown_fact", "known_fact"], message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.kind = kind


class ItemRefused(RunnerError):
    """A change of a work item, refused. Nothing was changed."""

    def __init__(self, kind: Literal["unknown_item", "no_title", "long_title"], message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.kind = kind


class InvalidInput(RunnerError):
    """Values that a function does not take. It was not called."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults), "pass the fields it takes, as `--input NAME=VALUE` or as a JSON object")


class Interrupted(RunnerError):
    """The process that ran the execution ended before it did, and it does not go on."""

    def __init__(self, why: str) -> None:
        super().__init__(f"its process ended before it finished, and {why}", "start it again, or continue it")


class ValidationError(RunnerError):
    """What an agent returned does not keep to the standard return."""


class SessionMismatchError(ValidationError):
    """What an agent returned belongs to another session."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"Session ID mismatch: expected {expected}, got {found}")


class NoModel(RunnerError):
    """A model that nobody can ask."""

    def __init__(self, model: str, variable: str) -> None:
        super().__init__(
            f"the model `{model}` has no API key and no rehearsal",
            f"set `{variable}`, or give the model a `rehearsal:` in the configuration; `outrider demo` needs neither",
        )


class NoEndpoint(NoModel):
    """A model of another maker without an address: Anthropic's endpoint does not know it."""

    def __init__(self, message: str, hint: str) -> None:
        RunnerError.__init__(self, message, hint)


class ServerMissing(RunnerError):
    """An agent cannot work without a server that is not there. No model was asked."""

    def __init__(self, agent: str, server: str, why: str) -> None:
        super().__init__(
            f"`{agent}` cannot work without the server `{server}`, which {why}",
            f"check `mcp_servers.{server}`; with `required: false` there its agents work without it",
        )
        self.server = server


def first_cause(error: Exception) -> Exception:
    """The first error inside groups of errors: what a person wants to hear of."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


class Fenced(RunnerError):
    """The execution belongs to another process now; this one must not write any more."""

    def __init__(self, execution: str) -> None:
        super().__init__(f"execution `{execution}` was taken over by another process", "inspect it with `outrider show`")
