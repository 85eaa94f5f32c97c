"""Names of strategies: how an agent behaves, as the configuration says it.

Owns: which names may be written and what each means. Must not know: how a strategy works (the runner does).
Invariant: every name means one strategy and whether the model is asked to think.
"""

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["loop", "synthesis", "plan", "route", "iterate", "function"]

StrategyName = Literal[
    "loop",
    "native-thinking",
    "langchain",
    "synthesis",
    "synthesis-native-thinking",
    "plan",
    "route",
    "iterate",
    "function",
]
"""What a file may say. `chain` belongs to chains."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a strategy's name means."""

    strategy: Strategy
    thinking: bool = False


_MEANINGS: dict[StrategyName, Behaviour] = {
    "loop": Behaviour("loop"),
    "native-thinking": Behaviour("loop", thinking=True),
    "langchain": Behaviour("loop"),
    "synthesis": Behaviour("synthesis"),
    "synthesis-native-thinking": Behaviour("synthesis", thinking=True),
    "plan": Behaviour("plan"),
    "route": Behaviour("route"),
    "iterate": Behaviour("iterate"),
    "function": Behaviour("function"),
}


def behaviour(name: StrategyName) -> Behaviour:
    """Return what the name means."""
    return _MEANINGS[name]


def strategy_name(meaning: Behaviour) -> StrategyName:
    """Return the first name that has this meaning."""
    return next(name for name, other in _MEANINGS.items() if other == meaning)


CALLERS: tuple[Strategy, ...] = ("plan", "route", "iterate")
"""The strategies that ask no model themselves, but have agents of the staff and of their catalogue work for them."""
CHOOSERS: tuple[Strategy, ...] = ("plan", "route")
"""Those of them that choose among the agents of their catalogue, and without one have everybody."""
