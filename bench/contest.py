"""The work of a contestant, and the interface of a contestant.

Owns: the task, the prompts, the options of one run. Must not know: any contestant, or what is measured.
Invariant: a run counts only if its final text is the fake model's reply after every result came back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SUPERVISOR_PROMPT = "You are a supervisor. Delegate every item of work to a sub-agent, then summarise."
WORKER_PROMPT = "You are a worker. Look up every key you need, then answer."
MODEL = "claude-sonnet-5-5"
CANCELLED = "CANCELLED"
"""The final text of a run that was cancelled."""

Tool = Literal["inproc", "mcp"]
"""Where `lookup` is: in the contestant's process, or behind an MCP server over stdio."""


@dataclass(frozen=True, slots=True)
class Options:
    """One run: the size of the work, the address of the fake model, and the variant of the contestant."""

    fanout: int
    turns: int
    base_url: str
    tool: Tool
    variant: str
    database: Path

    @property
    def directive(self) -> str:
        """The supervisor's task."""
        return f"FANOUT n={self.fanout} turns={self.turns}"

    @property
    def answer(self) -> str:
        """The final text of a successful run."""
        return f"DONE n={self.fanout} ok={self.fanout}"


@dataclass(frozen=True, slots=True)
class Entrant:
    """A contestant ready to run. Without its own `cancel` it is cancelled by cancelling `run`."""

    run: Callable[[], Awaitable[str]]
    cancel: Callable[[], Awaitable[None]] | None = None
    warm: Callable[[], Awaitable[None]] | None = None
    """Does the setup of the first request in advance; the clock starts after it."""


Contest = Callable[[Options], AbstractAsyncContextManager[Entrant]]
"""Entering it imports and builds everything; the entrant does the work and returns the supervisor's last text."""
