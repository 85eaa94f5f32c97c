"""Estimates: the tokens of a prompt, and the worst-case cost of a model call. Pure.

Owns the choice of the highest rate among a model, its fallbacks and its cache writes. Knows no budget.
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
    """The estimated tokens of a prompt that no provider has counted yet."""
    return tokens_of(len(system.encode()) + size_of(messages))


class Tariff:
    """The worst-case cost of an agent's model calls."""

    __slots__ = ("_specs", "_waits", "longest")

    def __init__(self, spec: ModelSpec, models: Mapping[str, ModelSpec], *, waits: bool) -> None:
        self._specs = (spec, *(models[name] for name in spec.fallback))
        self._waits = waits
        self.longest = max(each.max_tokens for each in self._specs)
        """Tokens of the longest answer that any of its models may give."""

    def rates(self, prompt: int) -> Rates:
        """The highest rates per token for a prompt of this length, over the model and its fallbacks."""
        each = [(spec.price or _UNPRICED).at_worst(prompt, spec.cache_writes(waits=self._waits)) for spec in self._specs]
        return Rates(max(rates.prompt for rates in each), max(rates.answer for rates in each))

    def worst(self, prompt: int, answer: int) -> Amount:
        """The most that a call may use."""
        rates = self.rates(prompt)
        return Amount(prompt + answer, prompt * rates.prompt + answer * rates.answer)

    @property
    def unpriced(self) -> dict[str, tuple[str, ...]]:
        """Models without a price for some kinds of tokens, with those kinds: no budget can count them."""
        unknown = {
            spec.name: (spec.price or _UNPRICED).unknown(spec.cache_writes(waits=self._waits)) for spec in self._specs
        }
        return {name: kinds for name, kinds in unknown.items() if kinds}


@dataclass(frozen=True, slots=True)
class AnswerPrice:
    """The cost of an agent's answer: the worst case of its model, and the tokens of its first prompt."""

    tariff: Tariff
    prompt: int
