"""The conclusion of an execution that calls no model itself: what another agent's final answer will cost.

Owns the first estimate of an agent's answer, made before its tools are known; the share of the budget that is kept for the
concluding agent until it is spawned; and how long its first message may be then. Without a budget on or above the
execution this costs nothing. Invariant: a child is admitted only if the share kept here remains.
"""

from __future__ import annotations

from registry import COMPOSITE, AgentSpec, Settings
from runner.budget.accounts import NOTHING
from runner.budget.budget import CONCLUSION_TOKENS, REMARKS
from runner.budget.estimate import AnswerPrice, Tariff, prompt_tokens
from runner.core.spawn import SpawnRequest
from runner.messages import Message, clean
from runner.prompt.system import PromptParts, system_prompt
from runner.strategies.context import StrategyContext

LEAST_TOLD = 128
"""Tokens of results; with fewer an answer is not worth its price."""


def price_of_answer(settings: Settings, request: SpawnRequest) -> AnswerPrice | None:
    """Estimate the price of an agent's answer before it is spawned and its tools are known; None for an agent that calls no
    model itself.
    """
    agent = request.agent
    if not isinstance(agent, AgentSpec) or agent.strategy in ("function", *COMPOSITE):
        return None
    tariff = Tariff(settings.model_of(agent), settings.models, waits=bool(request.catalogue))
    parts = PromptParts(
        agent, request.name, request.role, request.catalogue, request.briefing.roster, request.briefing.instructions
    )
    said = clean(request.prompt if request.prompt is not None else request.task)
    return AnswerPrice(tariff, prompt_tokens(system_prompt(parts), [Message.of_text("user", said)]))


class Conclusion:
    """The budget that one execution keeps for the agent that concludes for it."""

    __slots__ = ("_budget", "_context", "_price")

    def __init__(self, context: StrategyContext) -> None:
        self._context = context
        self._budget = context.allowance.budget
        self._price: AnswerPrice | None = None

    @property
    def limited(self) -> bool:
        return self._budget is not None

    def keep(self, concluder: SpawnRequest, told: int = 0) -> None:
        """Keep the price of an answer to a growing first message: `told` tokens of results so far, plus the length of one
        more result. If the budget does not cover that, keep less, or keep the previous amount.
        """
        if self._budget is None:
            return
        self._price = price_of_answer(self._context.settings, concluder)
        if self._price is None:
            return
        for more in (told + CONCLUSION_TOKENS, CONCLUSION_TOKENS, LEAST_TOLD):
            if self._budget.keep_for_conclusion(self._price.tariff, self._price.prompt + more) is None:
                return
            if self._budget.kept != NOTHING:
                return

    def over(self, concluder: SpawnRequest) -> int:
        """Tokens by which a first message is too long for the budget. 0 if it fits, and 0 if cutting would not help: then
        the spawn is refused and says what would be needed.
        """
        price = price_of_answer(self._context.settings, concluder) if self._budget is not None else None
        if self._budget is None or price is None or self._price is None:
            return 0
        wanted = price.prompt + REMARKS
        longest = int(self._budget.longest_prompt(price.tariff, wanted))
        return wanted - longest if longest >= self._price.prompt + REMARKS + LEAST_TOLD else 0

    def hand_over(self) -> None:
        """Free the kept price just before the concluding agent is spawned, which keeps it itself; no call intervenes."""
        if self._budget is not None:
            self._budget.free_conclusion()
