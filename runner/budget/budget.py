"""The budget of one execution: the purses it draws on, what is kept in them for its conclusion, and what it was granted.

Owns the decision whether a call, an agent or a conclusion can be paid; nothing here waits. Every limit on money or
tokens on or above an execution is a purse it draws on, up to one that was granted: that was taken out of the purses
above when it was given, and nothing below it touches them. Invariant: a call is admitted with its worst case and the
worst case of a conclusion after it, so that a conclusion can always be paid; what it did not use is free when it is
over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from registry import Limits, Rates
from runner.budget.accounts import NOTHING, Amount, Hold, Purse, Unit
from runner.budget.estimate import Tariff

CONCLUSION_TOKENS = 1024
"""Of an answer that is kept affordable for every execution."""
USEFUL_TOKENS = 512
"""Of the shortest answer that an ordinary call is made for."""
LEAST_TOKENS = 128
"""Of a conclusion, if prompts were longer than estimated and there is no more left."""
REMARKS = 256
"""Tokens of what we add to a prompt on the way to a conclusion: the question itself, results that say they were cut."""

REASONS: Mapping[Unit, Literal["token_budget", "cost_budget"]] = {"tokens": "token_budget", "usd": "cost_budget"}
"""Why a result is not whole when one of them does not suffice."""

_EACH_TOKEN = Rates(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Shortage:
    """What cannot be paid."""

    unit: Unit
    needed: float
    left: float

    @property
    def reason(self) -> str:
        """What a result calls it."""
        return REASONS[self.unit]


class Leave:
    """The right to make one call; its worst case is set aside until it is over."""

    __slots__ = ("_hold", "answer")

    def __init__(self, hold: Hold, answer: int) -> None:
        self._hold = hold
        self.answer = answer
        """Tokens its answer may have."""
        for purse in hold.purses:
            purse.calls += 1

    def over(self) -> None:
        """The call came back, or never will. What it used was paid; what else was set aside is free."""
        for purse in self._hold.purses:
            purse.calls -= 1
        self._hold.release()


class Budget:
    """What one execution may still spend; only executions with a limit on or above them have one."""

    __slots__ = ("_conclusion", "_grant", "_own", "_parent", "grants", "purses")

    def __init__(self, limits: Limits, parent: Budget | None, holder: str, *, granted: bool) -> None:
        above: tuple[Purse, ...] = parent.purses if parent is not None else ()
        money = [purse for purse in above if purse.unit == "usd"]
        self._parent = parent
        self._grant: Hold | None = None
        self.grants = 0
        """Agents below it whose budget was taken out of its purses."""
        if granted and limits.max_cost_usd is not None and money:
            self._grant = Hold(money)
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
        self._conclusion = Hold(self.purses)

    def _count_grant(self, change: int) -> None:
        holder = self._parent
        while holder is not None:
            holder.grants += change
            holder = holder._parent if holder._grant is None else None

    @property
    def granted_from(self) -> str | None:
        """The execution whose money its own was taken out of: the nearest that has a limit."""
        return self._grant.purses[0].holder if self._grant is not None else None

    @property
    def shown(self) -> dict[str, float]:
        """Its own limits, and what was spent of them by it and everything below."""
        shown: dict[str, float] = {}
        for purse in self.purses[: self._own]:
            spent = round(purse.spent) if purse.unit == "tokens" else round(purse.spent, 6)
            shown |= {purse.unit: purse.limit, f"spent_{purse.unit}": spent}
        return shown

    @property
    def kept(self) -> Amount:
        """What is set aside for its conclusion."""
        return self._conclusion.amount

    def left(self, unit: Unit) -> float:
        """What is neither spent nor set aside; infinite without a limit."""
        return max(0.0, min((purse.left for purse in self.purses if purse.unit == unit), default=float("inf")))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def reserve(self, tariff: Tariff, prompt: int, *, concluding: bool = False) -> Leave | None:
        """Leave for a call with this prompt, its answer as long as can be paid; None when that would be too short."""
        answer = min(tariff.longest, *(self._room(purse, tariff, prompt, concluding=concluding) for purse in self.purses))
        if answer < _least(tariff, concluding=concluding):
            return None
        length = int(answer)
        self._conclusion.keep(NOTHING if concluding else _conclusion(tariff, prompt + length))
        hold = Hold(self.purses)
        hold.keep(tariff.worst(prompt, length))
        return Leave(hold, length)

    def short_of(self, tariff: Tariff, prompt: int, *, concluding: bool = False) -> list[Purse]:
        """The purses that do not pay for a useful answer."""
        least = _least(tariff, concluding=concluding)
        return [purse for purse in self.purses if self._room(purse, tariff, prompt, concluding=concluding) < least]

    def _room(self, purse: Purse, tariff: Tariff, prompt: int, *, concluding: bool = False) -> float:
        """How long an answer a purse pays for, with a conclusion after it unless it is one."""
        later = prompt + tariff.longest + REMARKS
        rates = _rates(tariff, prompt if concluding else later, purse)
        free = purse.left + self._conclusion.amount.of(purse.unit)
        fixed, each = prompt * rates.prompt, rates.answer
        if not concluding:
            fixed += (prompt + REMARKS) * rates.prompt + min(tariff.longest, CONCLUSION_TOKENS) * rates.answer
            each += rates.prompt  # the answer is part of the prompt of the conclusion
        if not each:
            return float("inf") if fixed <= free else 0.0
        return (free - fixed) / each

    def pay(self, used: Amount) -> None:
        """It was used."""
        for purse in self.purses:
            purse.pay(used.of(purse.unit))

    def remember(self, used: Amount) -> None:
        """What its own limits were charged with before a crash; those above remember by themselves."""
        for purse in self.purses[: self._own]:
            purse.spent = used.of(purse.unit)
        if self._grant is not None:
            self._grant.keep(Amount(usd=max(0.0, self._grant.amount.usd - used.usd)))

    # -- the conclusion ------------------------------------------------------------------------------------------------

    def keep_for_conclusion(self, tariff: Tariff, prompt: int) -> Shortage | None:
        """Set aside what a conclusion of a conversation of that length costs. What is short, if it cannot be: as before."""
        amount, before = _conclusion(tariff, prompt), self._conclusion.amount
        for purse in self.purses:
            needed, left = amount.of(purse.unit), max(0.0, purse.left) + before.of(purse.unit)
            if needed > left:
                return Shortage(purse.unit, needed, left)
        self._conclusion.keep(amount)
        return None

    def free_conclusion(self) -> None:
        """Keep nothing any more: another execution keeps what the conclusion costs."""
        self._conclusion.release()

    def longest_prompt(self, tariff: Tariff, prompt: int) -> float:
        """The longest prompt, up to that one, with which a conclusion can still be paid."""
        longest = float(prompt)
        for purse in self.purses:
            rates = _rates(tariff, prompt, purse)
            answer = min(tariff.longest, CONCLUSION_TOKENS) * rates.answer
            free = purse.left + self._conclusion.amount.of(purse.unit) - answer
            if rates.prompt:
                longest = min(longest, free / rates.prompt)
        return longest

    def close(self) -> None:
        """The execution is over, or was never born: all it had set aside is free; harmless when repeated."""
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
