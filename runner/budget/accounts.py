"""Accounts: amounts of money or tokens that executions share, and the reservations in them.

Owns the sums and the wake-up when something is freed; decides nothing. Invariants: `reserved` is the sum of the open
reservations; a payment from an account is also made from every account it was funded from.

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
        return self.tokens if unit == "tokens" else self.usd


NOTHING = Amount()


class Account:
    """The limit of one execution on its whole subtree, in one unit."""

    __slots__ = ("_freed", "calls", "granted", "holder", "limit", "reserved", "spent", "unit")

    def __init__(self, unit: Unit, limit: float, holder: str, granted: Reservation | None = None) -> None:
        self.unit: Unit = unit
        self.limit = limit
        self.holder = holder
        """The execution that has this limit."""
        self.granted = granted
        """The reservation that funds it, if its parent granted it in advance."""
        self.spent = 0.0
        self.reserved = 0.0
        self.calls = 0
        """Model calls in flight with a reservation here."""
        self._freed = Latch()

    @property
    def left(self) -> float:
        """Neither spent nor reserved; below zero if prompts were longer than estimated."""
        return self.limit - self.spent - self.reserved

    def set_aside(self, change: float) -> None:
        """Change the reserved amount; a decrease wakes the waiters."""
        self.reserved += change
        if change < 0:
            self._freed.set()
            self._freed = Latch()

    def pay(self, amount: float) -> None:
        """Spend an amount, here and in the accounts this one was funded from."""
        self.spent += amount
        if self.granted is not None:
            self.granted.draw(amount)

    async def until_freed(self) -> None:
        """Wait until a reservation here shrinks."""
        await self._freed.wait()


class Reservation:
    """An amount reserved in several accounts at once: for a call, a conclusion, or a child's own budget."""

    __slots__ = ("accounts", "amount")

    def __init__(self, accounts: Sequence[Account]) -> None:
        self.accounts = accounts
        self.amount = NOTHING

    def keep(self, amount: Amount) -> None:
        """Set the reserved amount."""
        before, self.amount = self.amount, amount
        for account in self.accounts:
            if change := amount.of(account.unit) - before.of(account.unit):
                account.set_aside(change)

    def release(self) -> None:
        """Free the whole reservation; harmless when repeated."""
        self.keep(NOTHING)

    def draw(self, usd: float) -> None:
        """Spend part of the reservation. A larger amount is spent too: the work was done."""
        taken = min(usd, self.amount.usd)
        self.amount = Amount(usd=self.amount.usd - taken)
        for account in self.accounts:
            account.reserved -= taken  # wakes no waiter: the same amount is paid at once
            account.pay(usd)
