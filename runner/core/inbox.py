"""The inbox of an execution: ends of children, messages and requests, each delivered exactly once.

How a delivery happens exactly once
-----------------------------------
The rows in `deliveries` are the truth; this class mirrors them in memory and is the place to wait. Two transactions bound
the life of a delivery, and each closes one race:

* **Created with its cause.** A child's terminal status and the delivery to its parent are one transaction. A crash leaves
  both or neither, so an end can be neither lost nor delivered for a child that is still running.
* **Consumed with its display.** The row is marked consumed in the transaction that stores the message or tool result
  showing it. Until that commit it stays unread, whatever a crash does to this mirror.

The same delivery may reach `put` several times: from the child's task, from a poll of other processes' rows, from a
restore. An item has the id of its row, and `put` ignores an id that is waiting or was shown. Success is refused while a
delivery is unread (`runner/core/ending.py`), so a message that arrives after the last drain gets another turn. No lock is
needed: every method but the waits runs without an await, and a waiter checks its condition again after each change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json, to_json

from db.latch import Latch
from runner.messages import Delivered, clean
from runner.result import Result


@dataclass(frozen=True, slots=True)
class Item:
    """One delivery."""

    id: str
    """The id of its delivery row."""
    kind: str
    """`result`, `message` or `wrap_up`."""
    text: str = ""
    by: str = ""
    """The sender of a message."""
    result: Delivered | None = None
    answer: Result | None = None
    """The full result of a child, for strategies that need more than its text."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Item:
        """A message or request from its delivery row."""
        said = from_json(row["payload"]) if row["payload"] else {}
        return cls(row["id"], row["kind"], said.get("text", ""), said.get("by", ""))

    def passed_on(self, child: str) -> Item:
        """The same item for a child. Its id depends on both, so forwarding it twice delivers it once."""
        return replace(self, id=f"{self.id}.{child}")

    @property
    def payload(self) -> str | None:
        """The payload of its delivery row."""
        return to_json({"by": clean(self.by), "text": clean(self.text)}).decode() if self.kind == "message" else None

    @property
    def urgent(self) -> bool:
        """Whether it wakes a parent that waits for all its children."""
        return self.kind != "result" or (self.result is not None and self.result.status in ("failed", "timed_out"))


class Inbox:
    """The unread deliveries of one execution and its open children."""

    __slots__ = ("_ends", "_items", "_open", "_spoken", "_taken", "_urgent", "_waits", "_wake_on_any")

    def __init__(self, wake_on_any: bool) -> None:
        self._wake_on_any = wake_on_any
        self._items: dict[str, Item] = {}
        self._ends: dict[str, str] = {}
        """Delivery ids of children's ends, by child."""
        self._taken: set[str] = set()
        self._open: set[str] = set()
        self._urgent = 0
        """Number of urgent items."""
        self._spoken = 0
        self._waits: list[tuple[Callable[[], bool], Latch]] = []
        """What each waiter waits for: it is woken when that is true, and not by each of its children."""

    # -- filled by children, other executions and other processes -----------------------------------------------------

    def expect(self, child: str) -> None:
        """Register an open child."""
        self._open.add(child)

    def put(self, item: Item) -> None:
        """Add a delivery and wake the waiters that have what they wait for. Idempotent, also for an item that was already
        shown.
        """
        if item.result is not None:
            self._open.discard(item.result.execution_id)
            self._ends[item.result.execution_id] = item.id
        if item.id not in self._taken and item.id not in self._items:
            self._items[item.id] = item
            self._urgent += item.urgent
            self._spoken += item.kind == "message"
        for come, latch in self._waits:
            if come():
                latch.set()

    # -- read by the strategy ------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[Item]:
        """The unread deliveries, in order of arrival."""
        return list(self._items.values())

    @property
    def arrived(self) -> int:
        """The number of unread deliveries."""
        return len(self._items)

    @property
    def spoken(self) -> int:
        """The number of unread messages: the model must answer each, even after it has given its answer."""
        return self._spoken

    @property
    def pending(self) -> int:
        """The number of open children."""
        return len(self._open)

    @property
    def ready(self) -> bool:
        """Whether an idle parent should take a turn: 500 children must not cost 500 turns."""
        if not self._items:
            return not self._open
        return not self._open or self._wake_on_any or self._urgent > 0

    def find(self, child: str) -> Item | None:
        """The unread end of a child."""
        return self._items.get(self._ends.get(child, ""))

    def claim(self, child: str) -> str | None:
        """Take the unread end of a child: its delivery id. None if there is none, also on a second call."""
        item = self.find(child)
        if item is None:
            return None
        self.took(item.id)
        return item.id

    def took(self, *ids: str) -> None:
        """Remove consumed deliveries, after the commit of the transaction that shows them."""
        for identifier in ids:
            self._taken.add(identifier)
            item = self._items.pop(identifier, None)
            if item is not None:
                self._urgent -= item.urgent
                self._spoken -= item.kind == "message"

    def any_open(self, children: Iterable[str]) -> bool:
        """Whether one of these children is open."""
        return not self._open.isdisjoint(children)

    async def until_ready(self) -> None:
        """Wait until `ready`."""
        await self._until(lambda: self.ready)

    async def until_all_ended(self) -> None:
        """Wait until no child is open."""
        await self._until(lambda: not self._open)

    async def until_ended(self, children: Iterable[str], *, one: bool = False) -> None:
        """Wait until none of these is open (with `one`: until one has ended), or an urgent item arrives."""
        asked = self._open.intersection(children)
        await self._until(
            lambda: not asked or bool(self._urgent) or asked.isdisjoint(self._open) or (one and not asked <= self._open)
        )

    async def until_asked_to_wrap_up(self) -> None:
        """Wait for a wrap-up request."""
        await self._until(lambda: any(item.kind == "wrap_up" for item in self._items.values()))

    async def until_one_of(self, children: Iterable[str]) -> None:
        """Wait until one of the open children among these has ended."""
        asked = self._open.intersection(children)
        await self._until(lambda: not asked or not asked <= self._open)

    async def _until(self, come: Callable[[], bool]) -> None:
        while not come():
            wait = come, Latch()
            self._waits.append(wait)
            try:
                await wait[1].wait()
            finally:
                self._waits.remove(wait)
