"""Spending: what the calls of one conversation may cost. It gets leave for each call, and keeps a conclusion affordable.

Owns the waiting for money. It asks the budget and never compares, and has each prompt measured. Only a conversation with
a budget on or above its execution has one of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from registry import ModelSpec
from runner import facts
from runner.budget import REASONS, Budget, Leave
from runner.llm.protocol import Request
from runner.measure import Measure
from runner.purse import NOTHING, Amount, Purse
from runner.shortening import shorten
from runner.tariff import BYTES_PER_TOKEN, Tariff
from runner.transcript import Message
from runner.work import Work


class Spending:
    """The calls of one conversation, as its budget sees them."""

    __slots__ = ("_budget", "_prompt", "_tariff", "_work")

    def __init__(self, work: Work, budget: Budget, tariff: Tariff, measure: Measure) -> None:
        self._work, self._budget, self._tariff = work, budget, tariff
        self._prompt = measure.tokens

    async def leave_to_ask(self, request: Request) -> Leave | None:
        """Leave for an ordinary call. Others' calls in flight may cost less than was set aside: it waits for them.

        None when it cannot be had: then it is time to wrap up, or to wait for agents that hold money of their own.
        """
        prompt = self._prompt(request)
        while (leave := self._budget.reserve(self._tariff, prompt)) is None:
            short = self._budget.short_of(self._tariff, prompt)
            if idle := [purse for purse in short if not purse.calls]:
                self._give_up(idle)
                return None
            self._work.now("waiting for money that others may not use")
            with self._work.allowance.before_wrap_up() as scope:
                await short[0].until_freed()
            if scope.cancelled_caught:
                return None
        return leave

    async def leave_again(self, request: Request, answer: int | None) -> Leave | None:
        """Leave for another attempt of a call; None when an answer of so many tokens can no longer be paid."""
        leave = await self.leave_to_ask(request)
        if leave is not None and answer is not None and leave.answer < answer:
            leave.over()
            return None
        return leave

    def _give_up(self, short: Sequence[Purse]) -> None:
        """No call in flight can help. Agents that hold money of their own give the rest of it back when they end."""
        if not self._budget.grants or any(purse.unit == "tokens" for purse in short):
            self._wrap_up(short)

    def _wrap_up(self, short: Sequence[Purse]) -> None:
        self._work.allowance.ask_to_wrap_up(REASONS[short[0].unit])

    def leave_to_conclude(self, request: Request, messages: list[Message]) -> Leave | None:
        """Leave for the last call: what arrived last is cut until it can be paid. None when not even that helps."""
        prompt = self._prompt(request)
        too_long = prompt - int(self._budget.longest_prompt(self._tariff, prompt))
        if too_long > 0:
            shorten(messages, too_long * BYTES_PER_TOKEN)
            prompt = self._prompt(request)
        leave = self._budget.reserve(self._tariff, prompt, concluding=True)
        if leave is None:
            self._wrap_up(self._budget.short_of(self._tariff, prompt, concluding=True))
        return leave

    def keep(self, request: Request) -> None:
        """Keep what a conclusion of the conversation costs as it stands."""
        self._budget.keep_for_conclusion(self._tariff, self._prompt(request))

    def lost(self, request: Request) -> tuple[int, Amount]:
        """The prompt of a call that was cut by a crash, and the most it may have used: what it would get leave for now."""
        prompt = self._prompt(request)
        leave = self._budget.reserve(self._tariff, prompt, concluding=not request.tools)
        if leave is None:
            return prompt, NOTHING
        leave.over()
        return prompt, self._tariff.worst(prompt, leave.answer)

    def settle(self, leave: Leave, request: Request) -> None:
        """The call is over, however it ended; what was used is paid. From here on its conversation is that much longer."""
        leave.over()
        self.keep(request)


def spending_of(work: Work, spec: ModelSpec, measure: Measure) -> Spending | None:
    """What the calls of an execution may cost, where anybody set a limit; a limit on money that cannot bind is told of."""
    budget = work.allowance.budget
    if budget is None:
        return None
    tariff = Tariff(spec, work.settings.models, waits=bool(work.catalogue))
    if tariff.unpriced and any(purse.unit == "usd" for purse in budget.purses):
        warning = _unpriced(tariff.unpriced)
        work.warnings.append(warning)
        work.recorder.record_nowait(
            facts.Noticed(work.place, "budget.unpriced", {"models": tariff.unpriced, "message": warning})
        )
    return Spending(work, budget, tariff, measure)


def _unpriced(models: Mapping[str, Sequence[str]]) -> str:
    named = "; ".join(f"`{model}` has no price for {', '.join(kinds)}" for model, kinds in models.items())
    return f"the budget does not count everything: {named}"
