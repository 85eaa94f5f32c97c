"""Allowance: what one execution may still use. Asked before a turn or a spawn, told after; it alone says when to wrap up.

Owns time, turns, dispatches, tokens and money of an execution. Tokens, money and dispatches count for the whole subtree:
what a child spends, its ancestors have spent too. No strategy compares a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import anyio

from registry import Limits

WrapUp = Literal["time_budget", "max_iterations", "token_budget", "cost_budget", "asked"]


@dataclass(slots=True)
class Spent:
    """What was used so far, by an execution or by it and everything below it."""

    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    dispatches: int = 0
    tool_calls: int = 0


class Allowance:
    """Admit before, settle after."""

    __slots__ = ("_asked", "limits", "own", "parent", "started_at", "subtree", "timeout")

    def __init__(self, limits: Limits, parent: Allowance | None, timeout: float) -> None:
        self.limits = limits
        self.parent = parent
        self.timeout = timeout
        """Seconds from the start of the execution to its hard end."""
        self.own = Spent()
        self.subtree = Spent()
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

    def ask_to_wrap_up(self) -> None:
        """Somebody wants a conclusion now."""
        self._asked = self._asked or "asked"

    @property
    def wrap_up(self) -> WrapUp | None:
        """Why the execution must conclude now, or None."""
        if self._asked is not None:
            return self._asked
        if anyio.current_time() >= self.wrap_up_at:
            return "time_budget"
        if self.own.turns >= self.limits.max_iterations:
            return "max_iterations"
        return self._tree_cap()

    def _tree_cap(self) -> WrapUp | None:
        holder: Allowance | None = self
        while holder is not None:
            if holder.limits.max_tokens is not None and holder.subtree.tokens >= holder.limits.max_tokens:
                return "token_budget"
            if holder.limits.max_cost_usd is not None and holder.subtree.cost_usd >= holder.limits.max_cost_usd:
                return "cost_budget"
            holder = holder.parent
        return None

    @property
    def cost_left(self) -> float:
        """US dollars it may still spend, its own and its callers' budgets considered; infinite without any."""
        above = self.parent.cost_left if self.parent is not None else float("inf")
        if self.limits.max_cost_usd is None:
            return above
        return min(above, max(0.0, self.limits.max_cost_usd - self.subtree.cost_usd))

    @property
    def root(self) -> Allowance:
        """The allowance of the whole tree."""
        return self if self.parent is None else self.parent.root

    @property
    def dispatches_left(self) -> int:
        """Spawns the whole tree may still make."""
        return self.root.limits.max_dispatches - self.root.subtree.dispatches

    # -- settle --------------------------------------------------------------------------------------------------------

    def settle_dispatch(self, count: int = 1) -> None:
        """One more agent is being dispatched; -1 takes it back when it could not be."""
        self.own.dispatches += count
        holder: Allowance | None = self
        while holder is not None:
            holder.subtree.dispatches += count
            holder = holder.parent

    def settle_call(self, tokens: int, cost_usd: float, tool_calls: int) -> None:
        """A model call came back."""
        self.own.turns += 1
        self.own.tokens += tokens
        self.own.cost_usd += cost_usd
        self.own.tool_calls += tool_calls
        holder: Allowance | None = self
        while holder is not None:
            holder.subtree.tokens += tokens
            holder.subtree.cost_usd += cost_usd
            holder = holder.parent
