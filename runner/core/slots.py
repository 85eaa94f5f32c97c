"""Slots: how many of a parent's children run at once. First in, first out; a waiting child knows its queue position.

The check and the reservation have no await between them, so concurrent dispatches cannot take one slot twice.
"""

from __future__ import annotations

from bisect import bisect_left

from db.latch import Latch
from runner.core.verdict import Dismissal


class Slots:
    """The slots of one parent, or of the service for its roots."""

    __slots__ = ("_next", "_numbers", "_turns", "taken", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.taken = 0
        self._numbers: list[int] = []
        """The waiting numbers, in order; numbers only grow, so a position is found by bisection."""
        self._turns: dict[int, Latch] = {}
        self._next = 0

    @property
    def full(self) -> bool:
        """Whether the next reservation must wait."""
        return self.taken >= self.total

    def reserve(self) -> Slot:
        """Reserve a slot or a place in the queue; `Slot.wait` returns once it is its turn."""
        number, turn = self._next, Latch(is_set=not self.full)
        self._next += 1
        if self.full:
            self._numbers.append(number)
            self._turns[number] = turn
        else:
            self.taken += 1
        return Slot(self, number, turn)

    def none(self) -> Slot:
        """No reservation, for a gated execution."""
        slot = Slot(self, -1, Latch(is_set=True))
        slot.released = True
        return slot

    def place(self, number: int) -> int:
        """The queue position: 1 for the next in line, 0 if it does not wait."""
        return bisect_left(self._numbers, number) + 1 if number in self._turns else 0

    def leave(self, number: int) -> None:
        """Leave the queue, or pass a held slot to the next in line."""
        if number in self._turns:
            del self._turns[number]
            del self._numbers[bisect_left(self._numbers, number)]
        elif self._numbers:
            self._turns.pop(self._numbers.pop(0)).set()  # passed on: `taken` stays
        else:
            self.taken -= 1


class Slot:
    """One reservation. Release it once, whether or not its turn came."""

    __slots__ = ("_number", "_slots", "_turn", "released")

    def __init__(self, slots: Slots, number: int, turn: Latch) -> None:
        self._slots, self._number, self._turn, self.released = slots, number, turn, False

    @property
    def queue_position(self) -> int:
        """The queue position: 1 for the next in line, 0 once it has its slot."""
        return self._slots.place(self._number)

    async def wait(self) -> None:
        """Return once the slot is available."""
        await self._turn.wait()

    def release(self) -> None:
        """Release the slot or leave the queue; idempotent."""
        if not self.released:
            self.released = True
            self._slots.leave(self._number)


class StartGate:
    """Keeps a stored execution from starting until its parent releases or dismisses it; the first call counts."""

    __slots__ = ("_dismissal", "_opened")

    def __init__(self) -> None:
        self._opened = Latch()
        self._dismissal: Dismissal | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the parent has neither released nor dismissed it."""
        return not self._opened.is_set

    def release(self) -> None:
        """Let it start."""
        self._opened.set()

    def dismiss(self, dismissal: Dismissal) -> None:
        """End it without a start."""
        if self.is_closed:
            self._dismissal = dismissal
            self._opened.set()

    async def wait(self) -> Dismissal | None:
        """Wait for the parent: None when released, else the dismissal."""
        await self._opened.wait()
        return self._dismissal
