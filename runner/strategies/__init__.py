"""How agents behave, by name. A strategy starts children only through `Work.spawn` and owns no table and no limit."""

from __future__ import annotations

from collections.abc import Callable

from runner.strategies.chain import Chain
from runner.strategies.function import Function
from runner.strategies.iterate import Iterate
from runner.strategies.loop import Loop
from runner.strategies.plan import Plan
from runner.strategies.route import Route
from runner.strategies.synthesis import Synthesis
from runner.work import Strategy, Work

STRATEGIES: dict[str, Callable[[Work], Strategy]] = {
    "loop": Loop,
    "chain": Chain,
    "synthesis": Synthesis,
    "plan": Plan,
    "route": Route,
    "iterate": Iterate,
    "function": Function,
}
