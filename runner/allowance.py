"""Allowance: what one execution may still use. Asked before a turn or a spawn, told after; it alone says when to wrap up.

Owns time, turns and dispatches of an execution, and its budget of money and tokens where it has one. Tokens, money and
dispatches count for the whole subtree: what a child spends, its ancestors have spent too. No strategy compares a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import anyio

from registry import Limits
from runner.budget import Budget
from runner.purse import Amount

WrapUp = Literal["time_budget", "max_iterations", "token_budget", "cost_budget", "asked"]


@dataclass(slots=True)
class Spent:
    """What an execution used so far, itself or with everything below it."""

    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    dispatches: int = 0
    tool_calls: int = 0


class Allowance:
    """Admit before, settle after."""

    __slots__ = ("_asked", "budget", "dispatched", "limits", "own", "parent", "started_at", "timeout")

    def __init__(
        self, limits: Limits, parent: Allowance | None, timeout: float, holder: str = "", *, granted: bool = False
    ) -> None:
        self.limits = limits
        self.parent = parent
        self.timeout = timeout
        """Seconds from the start of the execution to its hard end."""
        self.own = Spent()
        self.dispatched = 0
        """Agents dispatched in the whole tree, counted at its root."""
        above = parent.budget if parent is not None else None
        limited = above is not None or limits.max_cost_usd is not None or limits.max_tokens is not None
        self.budget: Budget | None = Budget(limits, above, holder, granted=granted) if limited else None
        """Of money and tokens; None where nobody set a limit, as most often, so that it costs nothing."""
        self.started_at: float | None = None
        self._asked: WrapUp | None = None

    # -- time ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The clock runs from here. A child never gets more than its parent has left before that one's wrap-up."""
        self.started_at = anyio.current_time()
        if self.parent is not None:
            self.timeout = min(self.timeout, max(0.0, self.parent.wrap_up_at - self.started_at))

    def go_on(self, seconds_left: float) -> None:
        """The clock runs again, with this much left on it."""
        self.started_at = anyio.current_time() + seconds_left - self.timeout

    @property
    def deadline(self) -> float:
        """The hard end, on the event loop's clock; infinite before the start."""
        return float("inf") if self.started_at is None else self.started_at + self.timeout

    @property
    def wrap_up_at(self) -> float:
        """When the time for a conclusion begins."""
        return self.deadline - self.limits.reserve_of(self.timeout) if self.started_at is not None else float("inf")

    @property
    def seconds_left(self) -> float:
        """Until the hard end."""
        return max(0.0, self.deadline - anyio.current_time()) if self.started_at is not None else self.timeout

    def before_wrap_up(self) -> anyio.CancelScope:
        """A scope for ordinary work: it ends where the time for a conclusion begins, and cannot eat the reserve."""
        return anyio.CancelScope(deadline=self.wrap_up_at)

    # -- admit ---------------------------------------------------------------------------------------------------------

    def ask_to_wrap_up(self, reason: WrapUp = "asked") -> None:
        """Somebody wants a conclusion now, or nothing else can be paid any more."""
        self._asked = self._asked or reason

    @property
    def wrap_up(self) -> WrapUp | None:
        """Why the execution must conclude now, or None."""
        if self._asked is not None:
            return self._asked
        if anyio.current_time() >= self.wrap_up_at:
            return "time_budget"
        return "max_iterations" if self.own.turns >= self.limits.max_iterations else None

    @property
    def root(self) -> Allowance:
        """The allowance of the whole tree."""
        return self if self.parent is None else self.parent.root

    @property
    def dispatches_left(self) -> int:
        """Spawns the whole tree may still make."""
        return self.root.limits.max_dispatches - self.root.dispatched

    # -- settle --------------------------------------------------------------------------------------------------------

    def settle_dispatch(self, count: int = 1) -> None:
        """One more agent is being dispatched; -1 takes it back when it could not be."""
        self.own.dispatches += count
        self.root.dispatched += count

    def settle_call(self, used: Amount, tool_calls: int) -> None:
        """A model call came back."""
        self.own.turns += 1
        self.own.tool_calls += tool_calls
        self.charge(used)

    def charge(self, used: Amount) -> None:
        """So much was used, as far as anybody knows."""
        self.own.tokens += used.tokens
        self.own.cost_usd += used.usd
        if self.budget is not None:
            self.budget.pay(used)

    def remember(self, own: Spent, subtree: Spent) -> None:
        """What an execution that goes on used before, and everything below it."""
        self.own, self.dispatched = own, subtree.dispatches
        if self.budget is not None:
            self.budget.remember(Amount(subtree.tokens, subtree.cost_usd))

    @property
    def granted_from(self) -> str | None:
        """The execution whose money its own was taken out of when it was dispatched, if it was."""
        return self.budget.granted_from if self.budget is not None else None

    def close(self) -> None:
        """The execution is over: what was set aside for it is free."""
        if self.budget is not None:
            self.budget.close()
