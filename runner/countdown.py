"""The countdown: tells a model once that something it is limited in runs low, so that it can come to an end by itself.

Owns the thresholds and what was told. Invariant: each thing is told once, turns twice; what is not limited is never told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import anyio

from runner.allowance import Allowance
from runner.budget import Budget

LAST_TURNS = 0.2
"""The share of its turns of which the beginning is told; the last one is told, too."""
LAST_SHARE = 0.25
"""The share of time, money or tokens of which the beginning is told."""


@dataclass(frozen=True, slots=True)
class Low:
    """Something runs low."""

    what: str
    """`turns`, `last_turn`, `seconds`, `tokens` or `usd`."""
    left: float
    """Beside what is kept for a conclusion."""
    limit: float


class Countdown:
    """What one execution was told of."""

    __slots__ = ("_allowance", "_few", "_seconds", "_told")

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._few = math.ceil(allowance.limits.max_iterations * LAST_TURNS)
        self._seconds = allowance.timeout - allowance.reserve
        self._told: frozenset[str] = frozenset()

    def news(self) -> list[Low]:
        """What runs low and was not told yet."""
        if not self._allowance.budget and not self._few_turns and not self._little_time:  # as nearly always
            return []
        low = [replace(each, left=max(0.0, each.left)) for each in self._low() if each.what not in self._told]
        self._told |= {each.what for each in low}
        return low

    def told(self, what: Iterable[str]) -> None:
        """It was told of these before."""
        self._told |= frozenset(what)

    @property
    def _few_turns(self) -> bool:
        return self._allowance.limits.max_iterations - self._allowance.own.turns <= self._few

    @property
    def _little_time(self) -> bool:
        return self._allowance.wrap_up_at - anyio.current_time() <= self._seconds * LAST_SHARE

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
        """Of money and of tokens, the purse with the least in it. The next call costs about what a conclusion does."""
        for unit in ("usd", "tokens"):
            kept = budget.kept.of(unit)
            left = [
                Low(unit, purse.limit - purse.spent - kept, purse.limit) for purse in budget.purses if purse.unit == unit
            ]
            least = min(left, key=lambda each: each.left, default=None)
            if least is not None and least.left - kept <= least.limit * LAST_SHARE:
                yield least
