"""Agents with a budget, for the tests of budgets.

Owns: a configuration with prices, scripts that cost what was really asked, small questions about money to the rows.
Must not know: what a test is about.
"""

from collections.abc import Callable

from runner.llm.protocol import Request
from tests.support.models import Turn, say
from tests.support.service import Bench
from tests.support.spending import used

MODELS = """
models:
  m: {model: some-model, max_tokens: 2000,
      price: {input: 2, output: 10, cache_read: 1, cache_write: 2.5, cache_write_1h: 4}}
"""
CONFIG = (
    MODELS
    + """
agents:
  Lead: {sub_agents: [Left, Right], limits: {max_cost_usd: 0.5}}
  Left: {description: looks left}
  Right: {description: looks right}
"""
)


def worth(usd: float) -> str:
    """The configuration with another budget for the lead."""
    return CONFIG.replace("max_cost_usd: 0.5", f"max_cost_usd: {usd}")


def steps(*turns: Turn, output: int = 50) -> Callable[[Request], Turn]:
    """The turns of one agent in order, each at the price of what was really asked; without tools it concludes."""
    rest = list(turns)

    def answer(request: Request) -> Turn:
        turn = rest.pop(0) if request.tools else say("concluded")
        return turn.using(used(request, output))

    return answer


def cost(service: Bench) -> float:
    """What the tree of the only root cost."""
    [row] = service.sql("select subtree_cost_usd as cost from execution_tree where depth = 0")
    return float(row["cost"])


def reserved(service: Bench) -> dict[str, float]:
    """What is taken out of the budget of each agent's execution."""
    rows = service.sql("select agent, budget_reserved_usd from executions")
    return {row["agent"]: row["budget_reserved_usd"] for row in rows}


def notes(request: Request) -> list[str]:
    """Our remarks in a conversation."""
    return [message.text for message in request.messages if message.kind == "note"]
