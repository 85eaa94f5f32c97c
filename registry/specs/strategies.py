"""Names of strategies in the configuration.

Owns: the allowed names and their meanings. Must not know: how a strategy works (the runner does).
Invariant: every name means one strategy, with or without thinking.
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
"""The names a file may use. `chain` belongs to chains."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The meaning of a strategy's name."""

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
    """Return the meaning of a name."""
    return _MEANINGS[name]


def strategy_name(meaning: Behaviour) -> StrategyName:
    """Return the first name that has this meaning."""
    return next(name for name, other in _MEANINGS.items() if other == meaning)


COMPOSITE: tuple[Strategy, ...] = ("plan", "route", "iterate")
"""The strategies that call no model themselves: staff agents and agents of their catalogue do the work."""
ROUTING_OR_PLAN: tuple[Strategy, ...] = ("plan", "route")
"""Those that choose among the agents of their catalogue; without a list their catalogue is every agent."""
