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
from runner.budget.accounts import NOTHING, Account, Amount, Reservation, Unit
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


class CallPermit(Reservation):
    """Permission to make one call; its worst case is reserved until the call is over."""

    __slots__ = ("answer",)

    def __init__(self, accounts: Sequence[Account], worst: Amount, answer: int) -> None:
        super().__init__(accounts)
        self.answer = answer
        """Tokens its answer may have."""
        self.keep(worst)
        for account in accounts:
            account.calls += 1

    def over(self) -> None:
        """The call ended or was lost. Its usage was paid; the rest of its reservation is free."""
        for account in self.accounts:
            account.calls -= 1
        self.release()


class Budget:
    """The accounts of one execution; only executions with a limit on or above them have a budget."""

    __slots__ = ("_conclusion", "_grant", "_own", "_parent", "accounts", "grants")

    def __init__(self, limits: Limits, parent: Budget | None, holder: str, *, granted: bool) -> None:
        above: tuple[Account, ...] = parent.accounts if parent is not None else ()
        money = [account for account in above if account.unit == "usd"]
        self._parent = parent
        self._grant: Reservation | None = None
        self.grants = 0
        """Descendants whose budget is reserved in its accounts."""
        if granted and limits.max_cost_usd is not None and money:
            self._grant = Reservation(money)
            self._grant.keep(Amount(usd=limits.max_cost_usd))
            self._count_grant(1)
            above = tuple(account for account in above if account.unit == "tokens")
        own: list[Account] = []
        if limits.max_cost_usd is not None:
            own.append(Account("usd", limits.max_cost_usd, holder, self._grant))
        if limits.max_tokens is not None:
            own.append(Account("tokens", limits.max_tokens, holder))
        self.accounts: tuple[Account, ...] = (*own, *above)
        self._own = len(own)
        self._conclusion = Reservation(self.accounts)

    def _count_grant(self, change: int) -> None:
        holder = self._parent
        while holder is not None:
            holder.grants += change
            holder = holder._parent if holder._grant is None else None

    @property
    def granted_from(self) -> str | None:
        """The execution whose account funds the grant: the nearest ancestor with a limit."""
        return self._grant.accounts[0].holder if self._grant is not None else None

    @property
    def shown(self) -> dict[str, float]:
        """Its own limits, and the amounts spent of them in its subtree."""
        shown: dict[str, float] = {}
        for account in self.accounts[: self._own]:
            spent = round(account.spent) if account.unit == "tokens" else round(account.spent, 6)
            shown |= {account.unit: account.limit, f"spent_{account.unit}": spent}
        return shown

    @property
    def kept(self) -> Amount:
        """The amount reserved for its conclusion."""
        return self._conclusion.amount

    def left(self, unit: Unit) -> float:
        """Neither spent nor reserved; infinite without a limit."""
        return max(0.0, min((account.left for account in self.accounts if account.unit == unit), default=float("inf")))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def reserve(self, tariff: Tariff, prompt: int, *, concluding: bool = False) -> CallPermit | None:
        """Reserve a call with this prompt; its answer is as long as can be paid. None if that is too short to be useful."""
        answer = min(
            tariff.longest, *(self._room(account, tariff, prompt, concluding=concluding) for account in self.accounts)
        )
        if answer < _least(tariff, concluding=concluding):
            return None
        length = int(answer)
        self._conclusion.keep(NOTHING if concluding else _conclusion(tariff, prompt + length))
        return CallPermit(self.accounts, tariff.worst(prompt, length), length)

    def short_of(self, tariff: Tariff, prompt: int, *, concluding: bool = False) -> list[Account]:
        """The accounts that cannot pay for a useful answer."""
        least = _least(tariff, concluding=concluding)
        return [account for account in self.accounts if self._room(account, tariff, prompt, concluding=concluding) < least]

    def _room(self, account: Account, tariff: Tariff, prompt: int, *, concluding: bool = False) -> float:
        """The tokens of an answer that an account pays for; unless concluding, a conclusion after it is included."""
        later = prompt + tariff.longest + REMARKS
        rates = _rates(tariff, prompt if concluding else later, account)
        free = account.left + self._conclusion.amount.of(account.unit)
        fixed, each = prompt * rates.prompt, rates.answer
        if not concluding:
            fixed += (prompt + REMARKS) * rates.prompt + min(tariff.longest, CONCLUSION_TOKENS) * rates.answer
            each += rates.prompt  # the answer becomes part of the conclusion's prompt
        if not each:
            return float("inf") if fixed <= free else 0.0
        return (free - fixed) / each

    def pay(self, used: Amount) -> None:
        for account in self.accounts:
            account.pay(used.of(account.unit))

    def remember(self, used: Amount) -> None:
        """Restore the amounts spent before a crash, in its own accounts only: ancestors restore theirs."""
        for account in self.accounts[: self._own]:
            account.spent = used.of(account.unit)
        if self._grant is not None:
            self._grant.keep(Amount(usd=max(0.0, self._grant.amount.usd - used.usd)))

    # -- the conclusion ------------------------------------------------------------------------------------------------

    def keep_for_conclusion(self, tariff: Tariff, prompt: int) -> Shortage | None:
        """Reserve the cost of concluding a conversation of that length; if it cannot, return the shortage."""
        amount, before = _conclusion(tariff, prompt), self._conclusion.amount
        for account in self.accounts:
            needed, left = amount.of(account.unit), max(0.0, account.left) + before.of(account.unit)
            if needed > left:
                return Shortage(account.unit, needed, left)
        self._conclusion.keep(amount)
        return None

    def free_conclusion(self) -> None:
        """Free the reservation for the conclusion: another execution holds one for it."""
        self._conclusion.release()

    def longest_prompt(self, tariff: Tariff, prompt: int) -> float:
        """The longest prompt, up to the given one, with which a conclusion can still be paid."""
        longest = float(prompt)
        for account in self.accounts:
            rates = _rates(tariff, prompt, account)
            answer = min(tariff.longest, CONCLUSION_TOKENS) * rates.answer
            free = account.left + self._conclusion.amount.of(account.unit) - answer
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


def _rates(tariff: Tariff, prompt: int, account: Account) -> Rates:
    return tariff.rates(prompt) if account.unit == "usd" else _EACH_TOKEN


def _conclusion(tariff: Tariff, prompt: int) -> Amount:
    return tariff.worst(prompt + REMARKS, min(tariff.longest, CONCLUSION_TOKENS))
