"""The conclusion of an execution that asks no model itself: the price of the answer that another agent words for it.

Owns the first estimate of an agent's answer, made before its tools are known; how much of a budget is kept for the agent
that concludes, from the beginning until it is asked; and how much it can be told then. Without a budget on or above the
execution this costs nothing. Invariant: an agent that begins meanwhile is admitted only if what is kept here remains.
"""

from __future__ import annotations

from registry import CALLERS, AgentSpec, Settings
from runner.budget.accounts import NOTHING
from runner.budget.budget import CONCLUSION_TOKENS, REMARKS
from runner.budget.estimate import AnswerPrice, Tariff, prompt_tokens
from runner.core.spawn import SpawnRequest
from runner.messages import Message, clean
from runner.prompt.system import PromptParts, system_prompt
from runner.strategies.context import Work

LEAST_TOLD = 128
"""Tokens of what was brought, below which no answer is worth its price."""


def price_of_answer(settings: Settings, request: SpawnRequest) -> AnswerPrice | None:
    """The price of an answer of an agent that is not born yet, as far as its tools are not known; None for one that asks
    no model itself.
    """
    agent = request.agent
    if not isinstance(agent, AgentSpec) or agent.strategy in ("function", *CALLERS):
        return None
    tariff = Tariff(settings.model_of(agent), settings.models, waits=bool(request.catalogue))
    parts = PromptParts(
        agent, request.name, request.role, request.catalogue, request.briefing.roster, request.briefing.instructions
    )
    said = clean(request.prompt if request.prompt is not None else request.task)
    return AnswerPrice(tariff, prompt_tokens(system_prompt(parts), [Message.of_text("user", said)]))


class Conclusion:
    """What one execution keeps for the agent that concludes for it."""

    __slots__ = ("_budget", "_price", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work
        self._budget = work.allowance.budget
        self._price: AnswerPrice | None = None

    @property
    def limited(self) -> bool:
        """Whether there is a budget."""
        return self._budget is not None

    def keep(self, concluder: SpawnRequest, told: int = 0) -> None:
        """Keep the price of an answer to a first message that grows: by what was brought so far, `told` in tokens, and by
        as much as the next result may be. Where that cannot be had, what was kept before stays, or less is kept.
        """
        if self._budget is None:
            return
        self._price = price_of_answer(self._work.settings, concluder)
        if self._price is None:
            return
        for more in (told + CONCLUSION_TOKENS, CONCLUSION_TOKENS, LEAST_TOLD):
            if self._budget.keep_for_conclusion(self._price.tariff, self._price.prompt + more) is None:
                return
            if self._budget.kept != NOTHING:
                return

    def over(self, concluder: SpawnRequest) -> int:
        """Tokens by which a first message is too long for its answer to be paid. None where it fits, nor where it would not
        help to shorten it: then it is refused with what would be needed.
        """
        price = price_of_answer(self._work.settings, concluder) if self._budget is not None else None
        if self._budget is None or price is None or self._price is None:
            return 0
        wanted = price.prompt + REMARKS
        longest = int(self._budget.longest_prompt(price.tariff, wanted))
        return wanted - longest if longest >= self._price.prompt + REMARKS + LEAST_TOLD else 0

    def hand_over(self) -> None:
        """The agent that concludes is about to be spawned and keeps the price itself: no other call comes in between."""
        if self._budget is not None:
            self._budget.free_conclusion()
