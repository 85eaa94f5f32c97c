"""Slots: how many of a parent's children run at once. First come, first served; a waiting one knows its place.

Counting and taking happen without an await between them, so no burst of dispatches can take one slot twice.
"""

from __future__ import annotations

import anyio


class Slots:
    """The slots of one parent, or of the service for its top-level executions."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.taken = 0
        self._queue: list[anyio.Event] = []

    @property
    def full(self) -> bool:
        """Whether the next one has to wait."""
        return self.taken >= self.total

    def reserve(self) -> Slot:
        """A place in the queue, taken now; `Slot.wait` returns when it is its turn."""
        turn = anyio.Event()
        if self.full:
            self._queue.append(turn)
        else:
            self.taken += 1
            turn.set()
        return Slot(self, turn)

    def _place(self, turn: anyio.Event) -> int:
        return self._queue.index(turn) + 1 if turn in self._queue else 0

    def _leave(self, turn: anyio.Event) -> None:
        if turn in self._queue:
            self._queue.remove(turn)
        elif self._queue:
            self._queue.pop(0).set()  # handed over: `taken` stays
        else:
            self.taken -= 1


class Slot:
    """One reservation. Release it once, whether its turn came or not."""

    __slots__ = ("_released", "_slots", "_turn")

    def __init__(self, slots: Slots, turn: anyio.Event) -> None:
        self._slots, self._turn, self._released = slots, turn, False

    @property
    def queue_position(self) -> int:
        """1 for the next in line; 0 once it has its slot."""
        return self._slots._place(self._turn)

    async def wait(self) -> None:
        """Return when the slot is ours."""
        await self._turn.wait()

    def release(self) -> None:
        """Give the slot, or the place in the queue, to the next one; harmless when repeated."""
        if not self._released:
            self._released = True
            self._slots._leave(self._turn)
