"""Strategy: how an agent behaves, and the state it shows while it works."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from runner.core.history import History
from runner.core.verdict import Cause
from runner.result import Artifact, Result


class OpenTools(Protocol):
    """The tools of an execution, for its end."""

    async def close(self) -> None:
        """Release them; idempotent."""
        ...

    async def stop_servers(self) -> None:
        """Stop the servers that belong to this execution alone; shared ones keep running."""
        ...


@dataclass(slots=True)
class State:
    """The visible state of a strategy's work, for snapshots and the result."""

    prompt: str
    """The first user message; that of its rows for a resumed execution."""
    activity: str = "starting"
    asking: bool = False
    """Whether a model call is in flight."""
    rehearsed: bool = False
    final: Result | None = None
    """What `finish` reported."""
    warnings: list[str] = field(default_factory=list)
    """Warnings for the reader of the result."""
    artifacts: list[Artifact] = field(default_factory=list)
    """The files it has written."""
    tools: OpenTools | None = None

    def begin_again(self) -> None:
        """Reset for a retry: warnings stay, the rest is restored from rows."""
        self.activity, self.asking, self.final, self.artifacts, self.tools = "starting", False, None, [], None

    async def close(self) -> None:
        """Release its tools."""
        if self.tools is not None:
            await self.tools.close()


class Strategy(Protocol):
    """How an agent behaves. Re-entrant: `run` is called again when a delivery arrived after its answer, and `restore` comes
    before it when the execution is resumed or continues another.
    """

    def restore(self, history: History) -> None:
        """Restore its state from rows."""
        ...

    async def run(self) -> Result | Cause:
        """Work until there is an answer or the time is over."""
        ...

    @property
    def partial_output(self) -> str:
        """The findings so far, for an end without a conclusion."""
        ...
