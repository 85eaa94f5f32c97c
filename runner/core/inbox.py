"""The inbox of an execution: ends of children, messages and requests, each handed over exactly once.

Rows are the truth (`deliveries`); this is their image in memory and the place to wait. An item leaves only when the
transaction that shows it in the transcript has been committed, so a crash or a cancel in between loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json, to_json

from db.latch import Latch
from runner.messages import Delivered, clean
from runner.result import Result


@dataclass(frozen=True, slots=True)
class Item:
    """Something that waits to be shown."""

    id: str
    """The id of its delivery row."""
    kind: str
    """`result`, `message` or `wrap_up`."""
    text: str = ""
    by: str = ""
    """Who says it."""
    result: Delivered | None = None
    answer: Result | None = None
    """The whole result of a child, for strategies that work with more than its text."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Item:
        """A message or a request, as its delivery row has it."""
        said = from_json(row["payload"]) if row["payload"] else {}
        return cls(row["id"], row["kind"], said.get("text", ""), said.get("by", ""))

    def passed_on(self, child: str) -> Item:
        """The same for a child: however often it is passed on, that one has it once."""
        return replace(self, id=f"{self.id}.{child}")

    @property
    def payload(self) -> str | None:
        """What its delivery row says beside its kind."""
        return to_json({"by": clean(self.by), "text": clean(self.text)}).decode() if self.kind == "message" else None

    @property
    def urgent(self) -> bool:
        """Whether a parent that waits for all its children should look at it at once."""
        return self.kind != "result" or (self.result is not None and self.result.status in ("failed", "timed_out"))


class Inbox:
    """What has arrived and how many children are still out."""

    __slots__ = ("_changed", "_ends", "_items", "_open", "_spoken", "_taken", "_urgent", "_wake_on_any")

    def __init__(self, wake_on_any: bool) -> None:
        self._wake_on_any = wake_on_any
        self._items: dict[str, Item] = {}
        self._ends: dict[str, str] = {}
        """The items that tell of the ends of children, by child."""
        self._taken: set[str] = set()
        self._open: set[str] = set()
        self._urgent = 0
        """How many of the items a waiting parent should look at at once."""
        self._spoken = 0
        self._changed = Latch()

    # -- filled by children, other executions and other processes -----------------------------------------------------

    def expect(self, child: str) -> None:
        """A child was started: its end will come here."""
        self._open.add(child)

    def put(self, item: Item) -> None:
        """Something arrived. Putting the same item twice, or one that was already shown, changes nothing."""
        if item.result is not None:
            self._open.discard(item.result.execution_id)
            self._ends[item.result.execution_id] = item.id
        if item.id not in self._taken and item.id not in self._items:
            self._items[item.id] = item
            self._urgent += item.urgent
            self._spoken += item.kind == "message"
        self._changed.set()
        self._changed = Latch()

    # -- read by the strategy ------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[Item]:
        """What has arrived and not been shown, in order of arrival."""
        return list(self._items.values())

    @property
    def arrived(self) -> int:
        """How much has arrived and not been shown."""
        return len(self._items)

    @property
    def spoken(self) -> int:
        """How many messages are among it: each is for a model to answer, also one that had given its answer."""
        return self._spoken

    @property
    def pending(self) -> int:
        """How many children have not ended."""
        return len(self._open)

    @property
    def ready(self) -> bool:
        """Whether a parent with nothing else to do should go on: 500 children must not cost 500 turns."""
        if not self._items:
            return not self._open
        return not self._open or self._wake_on_any or self._urgent > 0

    def find(self, child: str) -> Item | None:
        """The unread end of a child."""
        return self._items.get(self._ends.get(child, ""))

    def claim(self, child: str) -> str | None:
        """The delivery of a child's end, for somebody who will hand it over now; asking again gives None."""
        item = self.find(child)
        if item is None:
            return None
        self.took(item.id)
        return item.id

    def took(self, *ids: str) -> None:
        """These were shown, and the transaction that says so is committed."""
        for identifier in ids:
            self._taken.add(identifier)
            item = self._items.pop(identifier, None)
            if item is not None:
                self._urgent -= item.urgent
                self._spoken -= item.kind == "message"

    def any_open(self, children: Iterable[str]) -> bool:
        """Whether one of these has not ended."""
        return not self._open.isdisjoint(children)

    async def until_ready(self) -> None:
        """Wait until `ready`."""
        while not self.ready:
            await self._changed.wait()

    async def until_all_ended(self) -> None:
        """Wait until no child is open."""
        while self._open:
            await self._changed.wait()

    async def until_ended(self, children: Iterable[str], *, one: bool = False) -> None:
        """Wait until none of these is open, or `one` no longer is, or something came that should be looked at at once."""
        asked = self._open.intersection(children)
        while asked and not self._urgent and not asked.isdisjoint(self._open) and not (one and not asked <= self._open):
            await self._changed.wait()

    async def until_asked_to_wrap_up(self) -> None:
        """Wait until somebody wants a conclusion."""
        while not any(item.kind == "wrap_up" for item in self._items.values()):
            await self._changed.wait()

    async def until_one_of(self, children: Iterable[str]) -> None:
        """Wait until one of these, if any is open, has ended."""
        asked = self._open.intersection(children)
        while asked and asked <= self._open:
            await self._changed.wait()
