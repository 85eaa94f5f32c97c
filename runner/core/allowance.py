"""Allowance: what one execution may still use. `admit` before a turn or a spawn, `settle` after it.

Owns an execution's time, turns and dispatches, and its budget if it has one. Tokens, money and dispatches count for the
whole subtree: a child's spending is also its ancestors'. Only the allowance triggers the wrap-up; no strategy compares a
number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

import anyio

from db.clock import loop_time
from registry import Limits
from runner.budget.accounts import Amount
from runner.budget.budget import Budget

KEPT_OF_RESERVE = 0.25
"""Share of the wrap-up reserve that a concluding agent does not get; it is kept for the last write."""

WrapUp = Literal["time_budget", "max_iterations", "token_budget", "cost_budget", "asked"]


@dataclass(slots=True)
class Spent:
    """Usage of an execution so far: its own, or that of its subtree."""

    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    dispatches: int = 0
    tool_calls: int = 0


class Bounded:
    """A cancel scope bound to part of an execution's time; its deadline moves while the clock stands for an approval."""

    __slots__ = ("_allowance", "_limit", "_scope", "_share")

    def __init__(self, allowance: Allowance, limit: float = math.inf, share: float = 1.0) -> None:
        self._allowance, self._limit, self._share = allowance, limit, share
        self._scope = anyio.CancelScope(deadline=self._end)

    @property
    def _end(self) -> float:
        return min(self._limit, self._allowance.deadline - self._share * self._allowance.reserve)

    def rearm(self) -> None:
        """Recompute the deadline after the execution's time has moved."""
        self._scope.deadline = self._end

    def __enter__(self) -> anyio.CancelScope:
        self._allowance.armed.append(self)
        return self._scope.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._allowance.armed.remove(self)
        return self._scope.__exit__(kind, error, trace)


class Allowance:
    """The limits of one execution and what is left of them."""

    __slots__ = (
        "_asked", "_scope", "_started_at", "_stood", "_stopped_at", "_stops", "armed", "budget", "deadline",
        "dispatched", "earlier_turns", "limits", "own", "parent", "reserve", "timeout",
    )  # fmt: skip

    def __init__(
        self, limits: Limits, parent: Allowance | None, timeout: float, holder: str = "", *, granted: bool = False
    ) -> None:
        self.limits = limits
        self.parent = parent
        self.timeout = timeout
        """Seconds from the start of the execution to its deadline."""
        self.own = Spent()
        self.earlier_turns = 0
        """Turns used by earlier attempts; each attempt gets the full number."""
        self.dispatched = 0
        """Agents dispatched in the whole tree; counted only at its root."""
        above = parent.budget if parent is not None else None
        limited = above is not None or limits.max_cost_usd is not None or limits.max_tokens is not None
        self.budget: Budget | None = Budget(limits, above, holder, granted=granted) if limited else None
        """Limits on money and tokens. None in the common case that no ancestor sets any: then accounting costs nothing."""
        self.reserve = limits.reserve_of(timeout)
        """Seconds kept back for a conclusion."""
        self.deadline = math.inf
        """The hard end, on the event loop's clock; infinite before the start and while its own clock stands still."""
        self._started_at: float | None = None
        self._asked: WrapUp | None = None
        self._stops = 0
        """Open approvals in this subtree; while there is one, the clock stands."""
        self._stopped_at = 0.0
        self._stood = 0.0
        """Seconds the clock has stood so far."""
        self._scope: anyio.CancelScope | None = None
        self.armed: list[Bounded] = []
        """Entered scopes whose deadlines follow this clock."""

    # -- time ----------------------------------------------------------------------------------------------------------

    def start(self, *, concludes: bool = False) -> None:
        """Start the clock. A child gets no more than its parent has left before the wrap-up; a child that `concludes` for
        its parent also gets part of the parent's reserve.
        """
        self._started_at = loop_time()
        if self.parent is not None:
            above = self.parent
            self.timeout = min(self.timeout, above.seconds_to_conclude if concludes else above.seconds_before_wrap_up)
        self._reckon()

    @property
    def wrap_up_at(self) -> float:
        """Where the time for a conclusion begins."""
        return self.deadline - self.reserve

    @property
    def stands(self) -> bool:
        """Whether its clock stands, because an approval is pending."""
        return self._stops > 0

    def resume(self, seconds_left: float, allowed: float) -> None:
        """Restart the clock after a resume, with `seconds_left` of a timeout of at most `allowed`."""
        self.timeout = min(self.timeout, allowed)
        self._started_at = loop_time() + seconds_left - self.timeout
        self._reckon()

    @property
    def may_repeat(self) -> bool:
        """Whether no wrap-up was requested, so that a retry makes sense."""
        return self._asked is None

    def begin_again(self) -> None:
        """Reset clock and turns for a retry."""
        self.earlier_turns, self._stood = self.own.turns, 0.0
        self.start()

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline."""
        if self._started_at is None:
            return self.timeout
        now = self._stopped_at if self.stands else loop_time()
        return max(0.0, self._started_at + self.timeout + self._stood - now)

    @property
    def seconds_before_wrap_up(self) -> float:
        """Seconds until the wrap-up begins."""
        return max(0.0, self.seconds_left - self.reserve)

    @property
    def seconds_to_conclude(self) -> float:
        """Seconds a concluding agent has; the rest is for the last write."""
        return max(0.0, self.seconds_left - KEPT_OF_RESERVE * self.reserve)

    def bind(self, scope: anyio.CancelScope) -> None:
        """Keep the deadline of `scope` equal to this one."""
        self._scope = scope
        scope.deadline = self.deadline

    def before_wrap_up(self, limit: float = math.inf) -> Bounded:
        """A scope for ordinary work: it ends when the wrap-up begins, so it cannot use the reserve."""
        return Bounded(self, limit)

    def within_wrap_up(self) -> Bounded:
        """A scope for settling open children before the conclusion: it uses half of the reserve at most."""
        return Bounded(self, share=0.5)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop this clock and those of all ancestors for the duration of the block."""
        holders: list[Allowance] = []
        holder: Allowance | None = self
        while holder is not None:
            holders.append(holder)
            holder = holder.parent
        for each in holders:
            each._stop()
        try:
            yield
        finally:
            for each in holders:
                each._go_on()

    def _stop(self) -> None:
        self._stops += 1
        if self._stops == 1:
            self._stopped_at = loop_time()
            self._reckon()

    def _go_on(self) -> None:
        self._stops -= 1
        if not self._stops:
            self._stood += loop_time() - self._stopped_at
            self._reckon()

    def _reckon(self) -> None:
        """Recompute every deadline that depends on the clock."""
        self.reserve = self.limits.reserve_of(self.timeout)
        began = math.inf if self._started_at is None or self.stands else self._started_at
        self.deadline = began + self.timeout + self._stood
        if self._scope is not None:
            self._scope.deadline = self.deadline
        for each in self.armed:
            each.rearm()

    # -- admit ---------------------------------------------------------------------------------------------------------

    def ask_to_wrap_up(self, reason: WrapUp = "asked") -> None:
        """Request the wrap-up; the first reason counts."""
        self._asked = self._asked or reason

    @property
    def wrap_up(self) -> WrapUp | None:
        """Why the execution must conclude now, or None."""
        if self._asked is not None:
            return self._asked
        if loop_time() >= self.wrap_up_at:
            return "time_budget"
        return "max_iterations" if self.own.turns - self.earlier_turns >= self.limits.max_iterations else None

    @property
    def root(self) -> Allowance:
        """The allowance of the tree's root."""
        return self if self.parent is None else self.parent.root

    @property
    def dispatches_left(self) -> int:
        """Dispatches left for the whole tree."""
        return self.root.limits.max_dispatches - self.root.dispatched

    # -- settle --------------------------------------------------------------------------------------------------------

    def settle_dispatch(self, count: int = 1) -> None:
        """Count a dispatch; -1 takes it back when the spawn was refused."""
        self.own.dispatches += count
        self.root.dispatched += count

    def settle_call(self, used: Amount) -> None:
        """Count a model call that returned."""
        self.own.turns += 1
        self.charge(used)

    def settle_tool(self, ran: bool) -> None:
        """Count a settled tool call, if the tool `ran`."""
        self.own.tool_calls += ran

    def charge(self, used: Amount) -> None:
        """Charge usage here and to the accounts above; the amount may be an estimate."""
        self.own.tokens += used.tokens
        self.own.cost_usd += used.usd
        if self.budget is not None:
            self.budget.pay(used)

    def remember(self, own: Spent, subtree: Spent) -> None:
        """Restore the usage of a resumed execution and of its subtree."""
        self.own, self.dispatched = own, subtree.dispatches
        if self.budget is not None:
            self.budget.remember(Amount(subtree.tokens, subtree.cost_usd))

    @property
    def granted_from(self) -> str | None:
        """The ancestor whose budget its own was reserved from at the dispatch, if it was."""
        return self.budget.granted_from if self.budget is not None else None

    def close(self) -> None:
        """Release all reservations of an ended execution."""
        if self.budget is not None:
            self.budget.close()
