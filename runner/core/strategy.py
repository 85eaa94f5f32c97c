"""Strategy: how an agent behaves, and the state it shows while it works."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from runner.core.history import Past
from runner.core.verdict import Cause
from runner.result import Artifact, Result


class OpenTools(Protocol):
    """The tools of an execution, as far as its end concerns them."""

    async def close(self) -> None:
        """Release them; harmless when called twice."""
        ...

    async def stop_servers(self) -> None:
        """End the servers that are this execution's own, whatever still uses the other tools."""
        ...


@dataclass(slots=True)
class State:
    """What a strategy tells of its work so far. Snapshots and the result of the execution show it."""

    prompt: str
    """The first user message; a resumed execution has the one of its rows."""
    activity: str = "starting"
    asking: bool = False
    """Whether its model is being asked."""
    rehearsed: bool = False
    final: Result | None = None
    """What `finish` reported."""
    warnings: list[str] = field(default_factory=list)
    """What the reader of the result should know about how it came about."""
    artifacts: list[Artifact] = field(default_factory=list)
    """The files it has written."""
    tools: OpenTools | None = None

    def begin_again(self) -> None:
        """Another attempt starts: warnings stay, the rest is restored from rows."""
        self.activity, self.asking, self.final, self.artifacts, self.tools = "starting", False, None, [], None

    async def close(self) -> None:
        """Release its tools."""
        if self.tools is not None:
            await self.tools.close()


class Strategy(Protocol):
    """How an agent behaves. Re-entrant: `run` is called again when something arrived after its answer, and `restore` before
    it where rows know how far the work had come.
    """

    def restore(self, past: Past) -> None:
        """Take up what those rows know."""
        ...

    async def run(self) -> Result | Cause:
        """Work until there is an answer, or until its time has run out."""
        ...

    @property
    def partial_output(self) -> str:
        """What there is to show so far."""
        ...
