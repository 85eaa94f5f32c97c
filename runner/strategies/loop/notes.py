"""Notes: messages to a model during its work, and when a low limit is worth one.

Owns the sentences and the thresholds. Invariant: each limit is told once, turns twice; an unlimited resource never.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from db.clock import loop_time
from runner.budget.budget import Budget
from runner.core.allowance import Allowance
from runner.messages import Message

LAST_TURNS = 0.2
"""A note is sent when this share of the turns is left; another one before the last turn."""
LAST_SHARE = 0.25
"""A note is sent when this share of time, money or tokens is left."""


@dataclass(frozen=True, slots=True)
class Low:
    """A limit that runs low."""

    what: str
    """`turns`, `last_turn`, `seconds`, `tokens` or `usd`."""
    left: float
    """The amount left, without the share kept for a conclusion."""
    limit: float


class Countdown:
    """The low limits that one execution was told of."""

    __slots__ = ("_allowance", "_few", "_seconds", "_told")

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._few = math.ceil(allowance.limits.max_iterations * LAST_TURNS)
        self._seconds = allowance.timeout - allowance.reserve
        self._told: frozenset[str] = frozenset()

    def news(self) -> list[Low]:
        """The limits that run low and were not told yet."""
        if not self._allowance.budget and not self._few_turns and not self._little_time:  # the common case
            return []
        low = [replace(each, left=max(0.0, each.left)) for each in self._low() if each.what not in self._told]
        self._told |= {each.what for each in low}
        return low

    def told(self, what: Iterable[str]) -> None:
        """Record that these were told before."""
        self._told |= frozenset(what)

    @property
    def _few_turns(self) -> bool:
        return self._allowance.limits.max_iterations - self._allowance.own.turns <= self._few

    @property
    def _little_time(self) -> bool:
        return self._allowance.wrap_up_at - loop_time() <= self._seconds * LAST_SHARE

    def _low(self) -> Iterator[Low]:
        allowance, turns = self._allowance, self._allowance.limits.max_iterations
        if self._few_turns:
            left = turns - allowance.own.turns
            yield Low("turns" if left > 1 else "last_turn", left, turns)
        if self._little_time:
            yield Low("seconds", allowance.seconds_before_wrap_up, self._seconds)
        if allowance.budget is not None:
            yield from self._spent(allowance.budget)

    @staticmethod
    def _spent(budget: Budget) -> Iterator[Low]:
        """For money and for tokens, the account with the least left. The next call costs about as much as a conclusion."""
        for unit in ("usd", "tokens"):
            kept = budget.kept.of(unit)
            left = [
                Low(unit, account.limit - account.spent - kept, account.limit)
                for account in budget.accounts
                if account.unit == unit
            ]
            least = min(left, key=lambda each: each.left, default=None)
            if least is not None and least.left - kept <= least.limit * LAST_SHARE:
                yield least


CONCLUDE = {
    "time_budget": "Your time is almost up.",
    "max_iterations": "You have used all your turns.",
    "token_budget": "The token budget is used up.",
    "cost_budget": "The cost budget is used up.",
    "asked": "You have been asked to conclude now.",
    "empty_answers": "Your last messages were empty.",
}


def conclude_note(reason: str, *, in_form: bool = False) -> Message:
    """The request for a conclusion, in the form that the answer has to have, if any."""
    wanted = ", as JSON that fits the schema." if in_form else ": what you found, on what evidence, and what remains open."
    text = f"{CONCLUDE.get(reason, 'It is time to conclude.')} Answer now, without tools, from what you have{wanted}"
    return Message.of_text("user", text, "conclude", {REASON: reason})


REASON, LOW = "reason", "low"
"""Keys in the data of a note: why a conclusion is asked for, and which limits run low."""

COUNTDOWN = {
    "last_turn": "This is your last turn with tools; after it you will be asked for your conclusion.",
    "turns": "You have {left:.0f} of your {limit:.0f} turns left.",
    "seconds": "You have about {left:.0f} seconds left.",
    "usd": "Of a budget of ${limit:.4f}, ${left:.4f} are left for you and the agents that share it.",
    "tokens": "Of a budget of {limit:,.0f} tokens, {left:,.0f} are left for you and the agents that share it.",
}
IN_TIME = "Do what matters most first, and conclude in time."


def countdown_note(low: Sequence[Low]) -> Message:
    """The note on limits that run low."""
    text = " ".join([*(COUNTDOWN[each.what].format(left=each.left, limit=each.limit) for each in low), IN_TIME])
    return Message.of_text("user", text, "note", {LOW: [each.what for each in low]})


GO_ON = (
    "Your answer was cut at the length limit of one message. Continue exactly where it stopped, repeat nothing, "
    "and finish soon."
)
SAY_SOMETHING = "Your last message was empty. Continue with the task: call a tool, or give your answer as text."
