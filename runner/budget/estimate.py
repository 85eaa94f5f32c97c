"""The tariff of an agent's model: how long a prompt will be, and what a call costs at worst. Pure.

Owns the estimate of a prompt and the choice of the dearest rate, fallbacks and cache writes considered. Knows no budget.
Invariant: if a prompt is no longer than estimated, its call costs no more than the worst case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from registry import ModelSpec, Price, Rates
from runner.budget.accounts import Amount
from runner.messages import Message, size_of
from runner.text import tokens_of

_UNPRICED = Price()


def prompt_tokens(system: str, messages: Iterable[Message]) -> int:
    """The tokens of a prompt of which nothing has been counted yet."""
    return tokens_of(len(system.encode()) + size_of(messages))


class Tariff:
    """What the calls of one agent cost at worst."""

    __slots__ = ("_specs", "_waits", "longest")

    def __init__(self, spec: ModelSpec, models: Mapping[str, ModelSpec], *, waits: bool) -> None:
        self._specs = (spec, *(models[name] for name in spec.fallback))
        self._waits = waits
        self.longest = max(each.max_tokens for each in self._specs)
        """Tokens of the longest answer one of its models may give."""

    def rates(self, prompt: int) -> Rates:
        """What one token costs at most in a call with so long a prompt, whoever of them answers."""
        each = [(spec.price or _UNPRICED).at_worst(prompt, spec.cache_writes(waits=self._waits)) for spec in self._specs]
        return Rates(max(rates.prompt for rates in each), max(rates.answer for rates in each))

    def worst(self, prompt: int, answer: int) -> Amount:
        """What a call may use at most."""
        rates = self.rates(prompt)
        return Amount(prompt + answer, prompt * rates.prompt + answer * rates.answer)

    @property
    def unpriced(self) -> dict[str, tuple[str, ...]]:
        """The models that have no price for some kinds of tokens, and the kinds: no budget can count them."""
        unknown = {
            spec.name: (spec.price or _UNPRICED).unknown(spec.cache_writes(waits=self._waits)) for spec in self._specs
        }
        return {name: kinds for name, kinds in unknown.items() if kinds}


@dataclass(frozen=True, slots=True)
class AnswerPrice:
    """What an answer of an agent costs: the tariff of its model, and the tokens of its first prompt."""

    tariff: Tariff
    prompt: int
