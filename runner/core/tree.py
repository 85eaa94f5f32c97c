"""The tree of live executions, in memory.

Why a tree, and what it promises
--------------------------------
Everything that runs is an execution, and every execution but the top-level ones lives inside its parent: its task runs in
the parent's task group, its time ends before the parent's time for a conclusion begins, its slot is one of the parent's.
From this one shape follow the properties that matter:

* **No orphans.** A task group does not exit before its tasks have. An execution cannot end while a child's task is alive,
  and its last write closes whatever row below it is still open, in the same transaction.
* **Cancelling reaches everything.** Stopping an execution cancels its scope; the scopes of its children lie inside. Each of
  them writes its own end, deepest first, because a parent's group waits for its children before the parent's own end.
* **A failure stays where it is.** The body of an execution never raises: its end, whatever it is, becomes a row and an item
  in its parent's inbox. So a crash cancels neither siblings nor parent.
* **No deadlock.** Slots are counted per parent. A parent that waits for its children holds no slot they need.

Rows are the truth and come first: a child's row is committed before its task starts, and its end before its parent hears
of it. Between the two facts of a cancel, the wish on the rows and the scopes, nothing can start: every start is guarded by
the wish. This module only remembers who is alive in this process, so that a wish can find its scope; what is not here is
found in the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from runner.core.slots import Slots

if TYPE_CHECKING:
    from runner.core.execution import Execution


BACKGROUND = 2
"""Top-level executions for which no caller waits that run at once, besides all others."""

RETURNING = 4
"""Executions of one level that are read from their rows at the same time: as many as there are connections to read by."""


class Tree:
    """The executions that have a task in this process."""

    def __init__(self, max_concurrent_roots: int) -> None:
        self.root_slots = Slots(max_concurrent_roots)
        self.background_slots = Slots(BACKGROUND)
        """For what is learned from conversations: no message waits for a slot because of it."""
        self.returning: dict[int, Slots] = defaultdict(lambda: Slots(RETURNING))
        """For those that go on after their process went, by their level: thousands come back one after the other, so the
        first is at work while the last still waits, and a tree is not held up by the tops of all others."""
        self._alive: dict[str, Execution] = {}

    def add(self, execution: Execution) -> None:
        """It has a row, and its task is about to start."""
        self._alive[execution.id] = execution

    def remove(self, execution: Execution) -> None:
        """Its end is written."""
        self._alive.pop(execution.id, None)

    def get(self, identifier: str) -> Execution | None:
        """The live execution with this id."""
        return self._alive.get(identifier)

    def __iter__(self) -> Iterator[Execution]:
        return iter(tuple(self._alive.values()))

    def below(self, top: Execution) -> Iterator[Execution]:
        """`top` and all live executions below it, parents before children."""
        yield top
        for child in tuple(top.alive.values()):
            yield from self.below(child)
