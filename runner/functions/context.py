"""Context: what a function may know of the execution it is called for, and how it says what it is doing.

Public: programs annotate a parameter with it. Owns nothing of the execution. Invariant: safe to use in any thread, also in
one that was left behind, whose words reach nobody any more; the board and the errors alone want the event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
import anyio.lowlevel

from runner.messages import clean
from runner.origin import User

if TYPE_CHECKING:
    from runner.error_log import ErrorLog
    from runner.work_items.board import Board

SHOWN = 200
"""Characters of what a function says it is doing."""


@dataclass(slots=True, kw_only=True)
class Context:
    """The execution that a function is called for."""

    execution_id: str
    session_id: str | None
    depth: int
    path: tuple[str, ...]
    """The agents from the top down to this one."""
    delegation_path: tuple[str, ...]
    """The same with the commands that agents were sent for, as in the registry of delegations."""
    deadline: datetime
    """When it is stopped at the latest, in UTC."""
    user: User | None
    """The person it works for, if it works for one."""
    board: Board
    """The work items, for functions that are `async`."""
    errors: ErrorLog
    """What went wrong in this database, for functions that are `async`."""
    cancelled: bool = False
    """Whether nobody waits for it any more: a blocking function should look at this now and then, and return."""
    _tell: Callable[[str], None] = field(repr=False)
    _loop: anyio.lowlevel.EventLoopToken = field(default_factory=anyio.lowlevel.current_token, repr=False)
    _home: int = field(default_factory=threading.get_ident, repr=False)

    def progress(self, text: str) -> None:
        """Say what is being done at the moment; whoever watches the execution reads it."""
        if threading.get_ident() == self._home:
            self._say(text)
            return
        with suppress(anyio.RunFinishedError):
            anyio.from_thread.run_sync(self._say, text, token=self._loop)

    def _say(self, text: str) -> None:
        if not self.cancelled:
            self._tell(clean(text)[:SHOWN])
