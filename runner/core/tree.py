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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from anyio.abc import TaskGroup

from db.ids import ExecutionId
from db.rows.executions import Place
from registry import Limits
from runner.core.inbox import Inbox, Item
from runner.core.slots import Slots
from runner.origin import Origin
from runner.snapshot import Child

NO_KEYS: Mapping[str, str] = MappingProxyType({})

BACKGROUND = 2
"""Top-level executions for which no caller waits that run at once, besides all others."""

RETURNING = 4
"""Executions of one level that are read from their rows at the same time: as many as there are connections to read by."""


@dataclass(frozen=True, slots=True)
class Node:
    """Where an execution stands in its tree."""

    place: Place
    name: str
    path: tuple[str, ...]
    """The agents from the top to itself."""
    delegation_path: tuple[str, ...]
    """The same with commands as labels, as the registry of delegations shows it."""
    depth: int
    """How many agents dispatched one another down to here; a chain is a label and no hop."""
    stage: str | None
    position: int
    """Among the children of its parent, from 1."""
    origin: Origin
    limits: Limits

    @property
    def id(self) -> str:
        """Its id."""
        return self.place.id


class Live(Protocol):
    """An execution, as far as the tree knows it."""

    @property
    def id(self) -> ExecutionId: ...

    @property
    def children(self) -> Children[Any]: ...


E_co = TypeVar("E_co", bound=Live)


class Children(Generic[E_co]):
    """The children of one execution: those alive, those ended, and what they share: group, slots and the parent's inbox."""

    __slots__ = ("alive", "ended", "group", "inbox", "keys", "slots", "spawned")

    def __init__(self, limits: Limits) -> None:
        self.alive: dict[str, E_co] = {}
        """Those that have a task."""
        self.ended: dict[str, Child] = {}
        self.keys: Mapping[str, str] = NO_KEYS
        """Those that were dispatched with a key, by it."""
        self.spawned = 0
        """How many it ever tried to start: positions never repeat, even if a row could not be stored."""
        self.group: TaskGroup | None = None
        self.slots = Slots(limits.max_concurrent_agents)
        self.inbox = Inbox(wake_on_any=limits.wake == "any")

    def leave(self, snapshot: Child, end: Item) -> None:
        """A child has ended. No await between its row and this: an end is never seen undelivered."""
        self.alive.pop(snapshot.id, None)
        self.ended[snapshot.id] = snapshot
        self.inbox.put(end)


class Tree(Generic[E_co]):
    """The executions that have a task in this process."""

    def __init__(self, max_concurrent_roots: int) -> None:
        self.root_slots = Slots(max_concurrent_roots)
        self.background_slots = Slots(BACKGROUND)
        """For extractions from conversations: no message waits for a slot because of them."""
        self.returning: dict[int, Slots] = defaultdict(lambda: Slots(RETURNING))
        """For resumed executions, by their level: thousands are restored one after the other, so the first works while the
        last still waits, and the roots of other trees do not hold up a tree."""
        self._alive: dict[str, E_co] = {}

    def add(self, execution: E_co) -> None:
        """It has a row, and its task is about to start."""
        self._alive[execution.id] = execution

    def remove(self, execution: E_co) -> None:
        """Its end is written."""
        self._alive.pop(execution.id, None)

    def get(self, identifier: str) -> E_co | None:
        """The live execution with this id."""
        return self._alive.get(identifier)

    def __iter__(self) -> Iterator[E_co]:
        return iter(tuple(self._alive.values()))

    def below(self, top: E_co) -> Iterator[E_co]:
        """`top` and all live executions below it, parents before children."""
        yield top
        for child in tuple(top.children.alive.values()):
            yield from self.below(child)
