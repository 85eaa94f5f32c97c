"""Purses: an amount of money or of tokens that executions draw on together, and what is set aside in it.

Owns the sums and who waits for them to change; decides nothing. Invariant: what is reserved is what the open holds hold,
and what is paid out of a purse is paid out of every purse that it was filled from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from db.latch import Latch

Unit = Literal["tokens", "usd"]


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens, and the US dollars they cost."""

    tokens: int = 0
    usd: float = 0.0

    def of(self, unit: Unit) -> float:
        """One of the two."""
        return self.tokens if unit == "tokens" else self.usd


NOTHING = Amount()


class Purse:
    """The limit of one execution on its whole subtree, in one unit."""

    __slots__ = ("_freed", "calls", "granted", "holder", "limit", "reserved", "spent", "unit")

    def __init__(self, unit: Unit, limit: float, holder: str, granted: Hold | None = None) -> None:
        self.unit: Unit = unit
        self.limit = limit
        self.holder = holder
        """The execution whose limit it is."""
        self.granted = granted
        """Where its whole content is set aside, if it was taken out of other purses in advance."""
        self.spent = 0.0
        self.reserved = 0.0
        self.calls = 0
        """Model calls in flight that have something set aside here."""
        self._freed = Latch()

    @property
    def left(self) -> float:
        """What nobody has spent or set aside; below zero where prompts were longer than estimated."""
        return self.limit - self.spent - self.reserved

    def set_aside(self, change: float) -> None:
        """Reserve that much more, or less: then whoever waits looks again."""
        self.reserved += change
        if change < 0:
            self._freed.set()
            self._freed = Latch()

    def pay(self, amount: float) -> None:
        """It is spent, here and where this purse was filled from."""
        self.spent += amount
        if self.granted is not None:
            self.granted.draw(amount)

    async def until_freed(self) -> None:
        """Wait until something is set free here."""
        await self._freed.wait()


class Hold:
    """An amount set aside in several purses at once: for a call, a conclusion, an agent with a budget of its own."""

    __slots__ = ("amount", "purses")

    def __init__(self, purses: Sequence[Purse]) -> None:
        self.purses = purses
        self.amount = NOTHING

    def keep(self, amount: Amount) -> None:
        """Set aside that much instead of what is."""
        before, self.amount = self.amount, amount
        for purse in self.purses:
            if change := amount.of(purse.unit) - before.of(purse.unit):
                purse.set_aside(change)

    def release(self) -> None:
        """Set nothing aside any more; harmless when repeated."""
        self.keep(NOTHING)

    def draw(self, usd: float) -> None:
        """So much of what is set aside is spent now; more than is set aside is spent all the same."""
        taken = min(usd, self.amount.usd)
        self.amount = Amount(usd=self.amount.usd - taken)
        for purse in self.purses:
            purse.reserved -= taken  # nothing becomes free: it is paid at the same time
            purse.pay(usd)
