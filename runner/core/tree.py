"""The tree of live executions, in memory.

Why a tree, and what it promises
--------------------------------
Everything that runs is an execution, and every execution but the top-level ones lives inside its parent: its task runs in
the parent's task group, its time ends before the parent's wrap-up begins, its slot is one of the parent's. From this shape
follow the properties that matter:

* **No orphans.** A task group does not exit before its tasks have. An execution cannot end while a child's task is alive,
  and its last write closes whatever row below it is still open, in the same transaction.
* **A cancel reaches everything.** Cancelling an execution cancels its scope; the scopes of its children lie inside. Each
  writes its own end, deepest first, because a parent's group waits for its children before the parent's own end.
* **A failure stays where it is.** The body of an execution never raises: its end, of any kind, becomes a row and an item in
  its parent's inbox. So a crash cancels neither siblings nor parent.
* **No deadlock.** Slots are counted per parent. A parent that waits for its children holds no slot they need.

Rows are the truth and come first: a child's row is committed before its task starts, and its end before its parent's inbox
gets it. Between the two facts of a cancel, the request on the rows and the scopes, no execution can start: every start is
guarded by the request. This module only knows the live executions of this process, so that a cancel finds its scope; all
others are found in rows.
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
from runner.snapshot import Snapshot

NO_KEYS: Mapping[str, str] = MappingProxyType({})

BACKGROUND = 2
"""Concurrent background roots, for which no caller waits; they do not count against the other roots."""

RETURNING = 4
"""Executions of one level that are restored at the same time: as many as there are read connections."""


@dataclass(frozen=True, slots=True)
class Node:
    """The position of an execution in its tree."""

    place: Place
    name: str
    path: tuple[str, ...]
    """The agents from the root down to itself."""
    delegation_path: tuple[str, ...]
    """The same with commands as labels, as the registry of delegations shows it."""
    depth: int
    """Agent-to-agent hops above it; a chain is a label, not a hop."""
    stage: str | None
    position: int
    """Among the children of its parent, from 1."""
    origin: Origin
    limits: Limits

    @property
    def id(self) -> str:
        return self.place.id


class Live(Protocol):
    """What the tree needs of an execution."""

    @property
    def id(self) -> ExecutionId: ...

    @property
    def children(self) -> Children[Any]: ...


E_co = TypeVar("E_co", bound=Live)


class Children(Generic[E_co]):
    """The children of one execution, alive and ended, with the task group, slots and inbox they share."""

    __slots__ = ("alive", "ended", "group", "inbox", "keys", "slots", "spawned")

    def __init__(self, limits: Limits) -> None:
        self.alive: dict[str, E_co] = {}
        """Children with a task, or about to get one."""
        self.ended: dict[str, Snapshot] = {}
        self.keys: Mapping[str, str] = NO_KEYS
        """Ids of children dispatched with an idempotency key, by key."""
        self.spawned = 0
        """Number of spawn attempts: positions never repeat, even if a row was refused."""
        self.group: TaskGroup | None = None
        self.slots = Slots(limits.max_concurrent_agents)
        self.inbox = Inbox(wake_on_any=limits.wake == "any")

    def leave(self, snapshot: Snapshot, end: Item) -> None:
        """Move a child to `ended` and deliver its end. Called without an await after the commit of its end, so no task sees
        an end that is not delivered."""
        self.alive.pop(snapshot.id, None)
        self.ended[snapshot.id] = snapshot
        self.inbox.put(end)


class Tree(Generic[E_co]):
    """The live executions of this process."""

    def __init__(self, max_concurrent_roots: int) -> None:
        self.root_slots = Slots(max_concurrent_roots)
        self.background_slots = Slots(BACKGROUND)
        """For extractions: they never make a user's message wait for a slot."""
        self.returning: dict[int, Slots] = defaultdict(lambda: Slots(RETURNING))
        """For resumed executions, by level. Thousands are restored a few at a time: the first work while the last wait, and
        the roots of other trees do not block the levels of one tree."""
        self._alive: dict[str, E_co] = {}

    def add(self, execution: E_co) -> None:
        """Register an execution whose row is committed and whose task is about to start."""
        self._alive[execution.id] = execution

    def remove(self, execution: E_co) -> None:
        """Remove an execution whose end is written."""
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
