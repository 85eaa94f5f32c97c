"""The ledger of a trial: what clients asked for and were told, what the model server and the tools saw, in that order.

Owns: the entries, and waiting for one of them. Must not know: rows. Invariant: it is kept outside the process that is
killed, so whatever it says was told really was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio

What = Literal["dispatch", "turn", "tool", "result", "cancel", "message", "question", "kill", "rest"]
Stage = Literal["invoke", "ok", "fail"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: of a dispatch, a turn, a tool call …, that it was asked for, was done, or came to nothing."""

    what: What
    stage: Stage
    label: str = ""
    """Which one: the task of an execution, which is unique in a trial."""
    more: dict[str, Any] = field(default_factory=dict)


class Ledger:
    """The entries so far."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._news = anyio.Event()

    def add(self, what: What, stage: Stage, label: str = "", **more: Any) -> None:
        """Write a line."""
        self.entries.append(Entry(what, stage, label, more))
        self._news.set()
        self._news = anyio.Event()

    def of(self, what: What, stage: Stage) -> Iterator[Entry]:
        """The lines of one kind."""
        return (entry for entry in self.entries if (entry.what, entry.stage) == (what, stage))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that only a new line can change."""
        while not holds():
            await self._news.wait()

    @property
    def happenings(self) -> int:
        """Requests that reached the model server, and runs of tools: how far a tree has come."""
        return sum(1 for entry in self.entries if entry.stage == "invoke" and entry.what in ("turn", "tool"))

    def save(self, path: Path) -> None:
        """Keep it as lines of JSON."""
        path.write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in self.entries), encoding="utf-8")
