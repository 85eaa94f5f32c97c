"""Allowance: what one execution may still use. Asked before a turn or a spawn, told after; it alone says when to wrap up.

Owns time, turns and dispatches of an execution, and its budget of money and tokens where it has one. Tokens, money and
dispatches count for the whole subtree: what a child spends, its ancestors have spent too. No strategy compares a number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

import anyio

from registry import Limits
from runner.budget.accounts import Amount
from runner.budget.budget import Budget

KEPT_OF_RESERVE = 0.25
"""Of the time for a conclusion, what an agent that words it does not get."""

WrapUp = Literal["time_budget", "max_iterations", "token_budget", "cost_budget", "asked"]


@dataclass(slots=True)
class Spent:
    """What an execution used so far, itself or with everything below it."""

    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    dispatches: int = 0
    tool_calls: int = 0


class Bounded:
    """A cancel scope that ends with some part of an execution's time, wherever that moves while a person is waited for."""

    __slots__ = ("_allowance", "_limit", "_scope", "_share")

    def __init__(self, allowance: Allowance, limit: float = math.inf, share: float = 1.0) -> None:
        self._allowance, self._limit, self._share = allowance, limit, share
        self._scope = anyio.CancelScope(deadline=self._end)

    @property
    def _end(self) -> float:
        return min(self._limit, self._allowance.deadline - self._share * self._allowance.reserve)

    def rearm(self) -> None:
        """The time it depends on has moved."""
        self._scope.deadline = self._end

    def __enter__(self) -> anyio.CancelScope:
        self._allowance.armed.append(self)
        return self._scope.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._allowance.armed.remove(self)
        return self._scope.__exit__(kind, error, trace)


class Allowance:
    """Admit before, settle after."""

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
        """Seconds from the start of the execution to its hard end."""
        self.own = Spent()
        self.earlier_turns = 0
        """Of those, how many its earlier attempts took: each has all turns."""
        self.dispatched = 0
        """Agents dispatched in the whole tree, counted at its root."""
        above = parent.budget if parent is not None else None
        limited = above is not None or limits.max_cost_usd is not None or limits.max_tokens is not None
        self.budget: Budget | None = Budget(limits, above, holder, granted=granted) if limited else None
        """Of money and tokens; None where nobody set a limit, as most often, so that it costs nothing."""
        self.reserve = limits.reserve_of(timeout)
        """Seconds kept back for a conclusion."""
        self.deadline = math.inf
        """The hard end, on the event loop's clock; infinite before the start and while its own clock stands still."""
        self._started_at: float | None = None
        self._asked: WrapUp | None = None
        self._stops = 0
        """How many wait for a person, in this execution and below it: while any does, the clock stands still."""
        self._stopped_at = 0.0
        self._stood = 0.0
        """Seconds the clock stood still so far."""
        self._scope: anyio.CancelScope | None = None
        self.armed: list[Bounded] = []
        """The scopes that end with a part of its time."""

    # -- time ----------------------------------------------------------------------------------------------------------

    def start(self, *, concludes: bool = False) -> None:
        """The clock runs from here. A child never gets more than its parent has left before that one's wrap-up; one that
        words the conclusion of its parent has a part of that, too.
        """
        self._started_at = anyio.current_time()
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
        """Whether its clock stands still, because a person is waited for."""
        return self._stops > 0

    def go_on(self, seconds_left: float, allowed: float) -> None:
        """The clock runs again, with this much left on it; no more than `allowed` was on it when it started."""
        self.timeout = min(self.timeout, allowed)
        self._started_at = anyio.current_time() + seconds_left - self.timeout
        self._reckon()

    @property
    def may_repeat(self) -> bool:
        """Whether nobody wants a conclusion, so that another attempt is worth its time."""
        return self._asked is None

    def begin_again(self) -> None:
        """Another attempt: the clock runs from here, and all turns are there again."""
        self.earlier_turns, self._stood = self.own.turns, 0.0
        self.start()

    @property
    def seconds_left(self) -> float:
        """Until the hard end."""
        if self._started_at is None:
            return self.timeout
        now = self._stopped_at if self.stands else anyio.current_time()
        return max(0.0, self._started_at + self.timeout + self._stood - now)

    @property
    def seconds_before_wrap_up(self) -> float:
        """Until the time for a conclusion begins."""
        return max(0.0, self.seconds_left - self.reserve)

    @property
    def seconds_to_conclude(self) -> float:
        """Until whoever words the conclusion must have done so: what is left then is for writing it down."""
        return max(0.0, self.seconds_left - KEPT_OF_RESERVE * self.reserve)

    def bind(self, scope: anyio.CancelScope) -> None:
        """Let a scope end at the deadline, wherever that moves."""
        self._scope = scope
        scope.deadline = self.deadline

    def before_wrap_up(self, limit: float = math.inf) -> Bounded:
        """A scope for ordinary work: it ends where the time for a conclusion begins, and cannot eat the reserve."""
        return Bounded(self, limit)

    def within_wrap_up(self) -> Bounded:
        """A scope for settling what is open before the conclusion: it takes half of the reserve at most."""
        return Bounded(self, share=0.5)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop the clock meanwhile, and those of all callers; the clocks of others run on."""
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
            self._stopped_at = anyio.current_time()
            self._reckon()

    def _go_on(self) -> None:
        self._stops -= 1
        if not self._stops:
            self._stood += anyio.current_time() - self._stopped_at
            self._reckon()

    def _reckon(self) -> None:
        """Its time has begun or moved: so do all ends that depend on it."""
        self.reserve = self.limits.reserve_of(self.timeout)
        began = math.inf if self._started_at is None or self.stands else self._started_at
        self.deadline = began + self.timeout + self._stood
        if self._scope is not None:
            self._scope.deadline = self.deadline
        for each in self.armed:
            each.rearm()

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
        return "max_iterations" if self.own.turns - self.earlier_turns >= self.limits.max_iterations else None

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

    def settle_call(self, used: Amount) -> None:
        """A model call came back."""
        self.own.turns += 1
        self.charge(used)

    def settle_tool(self, ran: bool) -> None:
        """A tool call has its result; only one that ran counts."""
        self.own.tool_calls += ran

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
