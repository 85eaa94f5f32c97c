"""Context: what a function is told about its execution, and how it reports progress.

Public: functions annotate a parameter with it. The board and the errors are protocols, because their implementations are
above this layer. Invariant: safe in any thread, also in one whose call was cancelled, whose progress is then dropped; only
the board and the errors need the event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import anyio
import anyio.from_thread
import anyio.lowlevel

from runner.messages import clean
from runner.origin import User

SHOWN = 200
"""Characters of a progress message; the rest is cut."""


class BoardItem(Protocol):
    """A work item."""

    @property
    def number(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def language(self) -> str | None: ...
    @property
    def complexity(self) -> str | None: ...
    @property
    def plan(self) -> str | None:
        """The path of its plan, once it has one."""

    @property
    def depends_on(self) -> Sequence[int]: ...
    @property
    def artifacts(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def execution_id(self) -> str | None:
        """The execution that added it; None for an item of the configuration."""


class WorkBoard(Protocol):
    """The work items of a configuration; `runner.work_items.board.Board` implements it."""

    async def find(self, number: int) -> BoardItem | None: ...
    async def all(self) -> Sequence[BoardItem]:
        """Every item, by number."""
        ...

    async def add(self, title: str, *, language: str | None = None, complexity: str | None = None) -> BoardItem: ...
    async def update(
        self,
        number: int,
        *,
        status: str | None = None,
        plan: str | None = None,
        artifacts: Sequence[Mapping[str, Any]] = (),
    ) -> BoardItem: ...


class RecordedErrors(Protocol):
    """The errors of this database; `runner.error_log.ErrorLog` implements it."""

    async def all(self, kind: str | None = None, *, only_open: bool = False) -> list[dict[str, Any]]:
        """Errors, last seen first; of one type, or only those that are not fixed."""
        ...


@dataclass(slots=True, kw_only=True)
class Context:
    """The execution that a function is called for."""

    execution_id: str
    session_id: str | None
    depth: int
    path: tuple[str, ...]
    """The agents from the root down to this one."""
    delegation_path: tuple[str, ...]
    """The same, with the commands that dispatched the agents, as `ps --registry` shows it."""
    deadline: datetime
    """In UTC."""
    user: User | None
    """The user the execution works for, if there is one."""
    board: WorkBoard
    """The work items; for `async` functions only."""
    errors: RecordedErrors
    """The errors recorded in this database; for `async` functions only."""
    cancelled: bool = False
    """Whether the call has ended or was cancelled: a blocking function should check this now and then, and return."""
    _tell: Callable[[str], None] = field(repr=False)
    _loop: anyio.lowlevel.EventLoopToken = field(default_factory=anyio.lowlevel.current_token, repr=False)
    _home: int = field(default_factory=threading.get_ident, repr=False)

    def progress(self, text: str) -> None:
        """Report the current activity; `watch` and `ps` show it."""
        if threading.get_ident() == self._home:
            self._report(text)
            return
        with suppress(anyio.RunFinishedError):
            anyio.from_thread.run_sync(self._report, text, token=self._loop)

    def _report(self, text: str) -> None:
        if not self.cancelled:
            self._tell(clean(text)[:SHOWN])
