"""The budget of one execution: the accounts it draws on, the reservation for its conclusion, and its grant.

Decides whether a call, a child or a conclusion can be paid; nothing here waits. An execution draws on one account for each
limit on or above it, up to a granted one. A grant was reserved in the accounts above when it was given, so nothing below
it touches them. Invariant: a call is admitted only with its worst case and that of a conclusion after it, so a conclusion
can always be paid. Unused reservations are freed when the call is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from registry import Limits, Rates
from runner.budget.accounts import NOTHING, Amount, Purse, Reservation, Unit
from runner.budget.estimate import Tariff

CONCLUSION_TOKENS = 1024
"""Length of the conclusion that stays affordable for every execution."""
USEFUL_TOKENS = 512
"""The shortest answer worth an ordinary call."""
LEAST_TOKENS = 128
"""The shortest conclusion, for prompts that were longer than estimated."""
REMARKS = 256
"""Tokens that Outrider adds to a prompt before a conclusion: the request itself, and notes on shortened results."""

REASONS: Mapping[Unit, Literal["token_budget", "cost_budget"]] = {"tokens": "token_budget", "usd": "cost_budget"}
"""The `reason` of a result when an account runs out."""

_EACH_TOKEN = Rates(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Shortage:
    """An amount that cannot be paid."""

    unit: Unit
    needed: float
    left: float

    @property
    def reason(self) -> str:
        """The reason in the result."""
        return REASONS[self.unit]


class Leave(Reservation):
    """Permission to make one call; its worst case is reserved until the call is over."""

    __slots__ = ("answer",)

    def __init__(self, purses: Sequence[Purse], worst: Amount, answer: int) -> None:
        super().__init__(purses)
        self.answer = answer
        """Tokens its answer may have."""
        self.keep(worst)
        for purse in purses:
            purse.calls += 1

    def over(self) -> None:
        """The call ended or was lost. Its usage was paid; the rest of its reservation is free."""
        for purse in self.purses:
            purse.calls -= 1
        self.release()


class Budget:
    """The accounts of one execution; only executions with a limit on or above them have a budget."""

    __slots__ = ("_conclusion", "_grant", "_own", "_parent", "grants", "purses")

    def __init__(self, limits: Limits, parent: Budget | None, holder: str, *, granted: bool) -> None:
        above: tuple[Purse, ...] = parent.purses if parent is not None else ()
        money = [purse for purse in above if purse.unit == "usd"]
        self._parent = parent
        self._grant: Reservation | None = None
        self.grants = 0
        """Descendants whose budget is reserved in its accounts."""
        if granted and limits.max_cost_usd is not None and money:
            self._grant = Reservation(money)
            self._grant.keep(Amount(usd=limits.max_cost_usd))
            self._count_grant(1)
            above = tuple(purse for purse in above if purse.unit == "tokens")
        own: list[Purse] = []
        if limits.max_cost_usd is not None:
            own.append(Purse("usd", limits.max_cost_usd, holder, self._grant))
        if limits.max_tokens is not None:
            own.append(Purse("tokens", limits.max_tokens, holder))
        self.purses: tuple[Purse, ...] = (*own, *above)
        self._own = len(own)
        self._conclusion = Reservation(self.purses)

    def _count_grant(self, change: int) -> None:
        holder = self._parent
        while holder is not None:
            holder.grants += change
            holder = holder._parent if holder._grant is None else None

    @property
    def granted_from(self) -> str | None:
        """The execution whose account funds the grant: the nearest ancestor with a limit."""
        return self._grant.purses[0].holder if self._grant is not None else None

    @property
    def shown(self) -> dict[str, float]:
        """Its own limits, and the amounts spent of them in its subtree."""
        shown: dict[str, float] = {}
        for purse in self.purses[: self._own]:
            spent = round(purse.spent) if purse.unit == "tokens" else round(purse.spent, 6)
            shown |= {purse.unit: purse.limit, f"spent_{purse.unit}": spent}
        return shown

    @property
    def kept(self) -> Amount:
        """The amount reserved for its conclusion."""
        return self._conclusion.amount

    def left(self, unit: Unit) -> float:
        """Neither spent nor reserved; infinite without a limit."""
        return max(0.0, min((purse.left for purse in self.purses if purse.unit == unit), default=float("inf")))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def reserve(self, tariff: Tariff, prompt: int, *, concluding: bool = False) -> Leave | None:
        """Reserve a call with this prompt; its answer is as long as can be paid. None if that is too short to be useful."""
        answer = min(tariff.longest, *(self._room(purse, tariff, prompt, concluding=concluding) for purse in self.purses))
        if answer < _least(tariff, concluding=concluding):
            return None
        length = int(answer)
        self._conclusion.keep(NOTHING if concluding else _conclusion(tariff, prompt + length))
        return Leave(self.purses, tariff.worst(prompt, length), length)

    def short_of(self, tariff: Tariff, prompt: int, *, concluding: bool = False) -> list[Purse]:
        """The accounts that cannot pay for a useful answer."""
        least = _least(tariff, concluding=concluding)
        return [purse for purse in self.purses if self._room(purse, tariff, prompt, concluding=concluding) < least]

    def _room(self, purse: Purse, tariff: Tariff, prompt: int, *, concluding: bool = False) -> float:
        """The tokens of an answer that an account pays for; unless concluding, a conclusion after it is included."""
        later = prompt + tariff.longest + REMARKS
        rates = _rates(tariff, prompt if concluding else later, purse)
        free = purse.left + self._conclusion.amount.of(purse.unit)
        fixed, each = prompt * rates.prompt, rates.answer
        if not concluding:
            fixed += (prompt + REMARKS) * rates.prompt + min(tariff.longest, CONCLUSION_TOKENS) * rates.answer
            each += rates.prompt  # the answer becomes part of the conclusion's prompt
        if not each:
            return float("inf") if fixed <= free else 0.0
        return (free - fixed) / each

    def pay(self, used: Amount) -> None:
        for purse in self.purses:
            purse.pay(used.of(purse.unit))

    def remember(self, used: Amount) -> None:
        """Restore the amounts spent before a crash, in its own accounts only: ancestors restore theirs."""
        for purse in self.purses[: self._own]:
            purse.spent = used.of(purse.unit)
        if self._grant is not None:
            self._grant.keep(Amount(usd=max(0.0, self._grant.amount.usd - used.usd)))

    # -- the conclusion ------------------------------------------------------------------------------------------------

    def keep_for_conclusion(self, tariff: Tariff, prompt: int) -> Shortage | None:
        """Reserve the cost of concluding a conversation of that length; if it cannot, return the shortage."""
        amount, before = _conclusion(tariff, prompt), self._conclusion.amount
        for purse in self.purses:
            needed, left = amount.of(purse.unit), max(0.0, purse.left) + before.of(purse.unit)
            if needed > left:
                return Shortage(purse.unit, needed, left)
        self._conclusion.keep(amount)
        return None

    def free_conclusion(self) -> None:
        """Free the reservation for the conclusion: another execution holds one for it."""
        self._conclusion.release()

    def longest_prompt(self, tariff: Tariff, prompt: int) -> float:
        """The longest prompt, up to the given one, with which a conclusion can still be paid."""
        longest = float(prompt)
        for purse in self.purses:
            rates = _rates(tariff, prompt, purse)
            answer = min(tariff.longest, CONCLUSION_TOKENS) * rates.answer
            free = purse.left + self._conclusion.amount.of(purse.unit) - answer
            if rates.prompt:
                longest = min(longest, free / rates.prompt)
        return longest

    def close(self) -> None:
        """Free all its reservations, at its end or when its spawn failed; harmless when repeated."""
        self._conclusion.release()
        if self._grant is not None:
            self._grant.release()
            self._count_grant(-1)
            self._grant = None


def _least(tariff: Tariff, *, concluding: bool) -> int:
    return min(tariff.longest, LEAST_TOKENS if concluding else USEFUL_TOKENS)


def _rates(tariff: Tariff, prompt: int, purse: Purse) -> Rates:
    return tariff.rates(prompt) if purse.unit == "usd" else _EACH_TOKEN


def _conclusion(tariff: Tariff, prompt: int) -> Amount:
    return tariff.worst(prompt + REMARKS, min(tariff.longest, CONCLUSION_TOKENS))
