"""Random trees of agents that spend: budgets of every kind, tools that bring long results, models that count as they like.

Owns: the plan of a tree, the model that plays it, the record of every call with the error of its estimate. Must not know:
what is checked afterwards. The estimate is worked out here once more, from what is documented of it, not from the code.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio.lowlevel
from pydantic_core import to_json

from runner.errors import Refusal
from runner.llm.protocol import Request, Usage
from runner.service.order import Order
from tests.support.models import Turn, call, crash, fail, say
from tests.support.service import Bench
from tests.support.spending import size

CONFIG = """
defaults: {limits: {max_concurrent_roots: 1000, max_concurrent_agents: 3, max_iterations: 12, timeout: 120s}}
models:
  m: {model: some-model, max_tokens: 1500,
      price: {input: 2, output: 10, cache_read: 1, cache_write: 2.5, cache_write_1h: 4}}
agents:
  Top: {sub_agents: [Middle, Capped, Leaf, Frugal]}
  Counted: {sub_agents: [Middle, Capped, Leaf, Frugal], limits: {max_tokens: 60000}}
  Middle: {description: dispatches, sub_agents: [Capped, Leaf, Frugal]}
  Capped: {description: dispatches little, sub_agents: [Leaf, Frugal], limits: {max_cost_usd: 0.08}}
  Leaf: {description: works}
  Frugal: {description: works with few tokens, limits: {max_tokens: 15000}}
"""
DISPATCHING = {
    "Top": ["Middle", "Capped", "Leaf", "Frugal"],
    "Middle": ["Capped", "Leaf", "Frugal"],
    "Capped": ["Leaf", "Frugal"],
}
DISPATCHING["Counted"] = DISPATCHING["Top"]


@dataclass
class Node:
    """One planned execution."""

    agent: str
    budget: float | None
    """Given with its dispatch."""
    end: str = "answer"
    """`answer`, `fail` or `crash`."""
    work: list[int] = field(default_factory=list)
    """The lengths of what its tool brings, turn by turn."""
    children: list[Node] = field(default_factory=list)


def plant(dice: random.Random, agent: str, levels: int) -> Node:
    """A random plan."""
    budget = dice.choice([None, None, dice.uniform(0.005, 0.15)])
    node = Node(agent, budget, dice.choice(["answer"] * 6 + ["fail", "crash"]))
    node.work = [dice.choice([50, 500, 5_000, 40_000]) for _ in range(dice.randrange(4))]
    if levels > 1 and agent in DISPATCHING:
        below = [dice.choice(DISPATCHING[agent]) for _ in range(dice.choice([0, 1, 2, 3, 4]))]
        node.children = [plant(dice, name, levels - 1) for name in below]
    return node


@dataclass
class Call:
    """One model call: who made it, when it was admitted, and by how much its prompt was longer than estimated."""

    execution: str
    number: int
    """All calls of all trees are numbered in the order they were admitted."""
    error: int
    """Tokens."""
    rate: float
    """US dollars for a token of its prompt, at worst."""
    alive: frozenset[str]
    """Every execution that was alive when it was admitted."""
    concluding: bool


@dataclass
class Seen:
    """What was counted of one conversation."""

    tokens: int = 0
    messages: int = 0


class World:
    """The trees of one service: what each call answers and costs."""

    def __init__(self, dice: random.Random) -> None:
        self.bench: Bench | None = None
        self.calls: list[Call] = []
        self.overdrawn: list[str] = []
        """Purses in which more was spent and set aside than there is, right after a call was admitted."""
        self.budgets: dict[str, Any] = {}
        """The live budgets of all executions that asked a model."""
        self.planned: dict[str, Node] = {}
        """By execution."""
        self.refused = 0
        self._dice = dice
        self._nodes: dict[str, Node] = {}
        self._bytes_per_token: dict[str, float] = {}
        self._seen: dict[str, Seen] = {}

    async def grow(self, tree: Node, key: str, bytes_per_token: float) -> str | None:
        """Start a tree and wait for its end; None when it is refused, because its budget pays for nothing."""
        assert self.bench is not None
        self._nodes[key] = tree
        self._bytes_per_token[key] = bytes_per_token
        try:
            root = await self.bench.dispatcher.start(Order(tree.agent, key, budget_usd=tree.budget))
        except Refusal:
            self.refused += 1
            return None
        await self.bench.dispatcher.wait(root.id)
        return root.id

    async def play(self, request: Request) -> Turn:
        """Answer as planned, after a random while."""
        assert self.bench is not None
        live = self.bench.dispatcher.tree.get(request.execution_id)
        assert live is not None
        node = self.planned[live.id] = self._nodes[live.request.task]
        ratio = self._bytes_per_token[live.request.task]
        prompt = math.ceil(size(request) / ratio)
        if live.allowance.budget is not None:
            self._admitted(request, prompt, live.allowance.budget)
        for _ in range(self._dice.randrange(6)):
            await anyio.lowlevel.checkpoint()
        turn = self._turn(node, request, live.request.task)
        usage = self._usage(request, prompt, turn, ratio)
        self._seen[live.id] = Seen(prompt + usage.output_tokens, len(request.messages) + 1)
        return turn.using(usage)

    def _admitted(self, request: Request, prompt: int, budget: Any) -> None:
        """Look at the purses before anything else happens, and at what this call was admitted with."""
        self.budgets[request.execution_id] = budget
        for account in budget.accounts:
            if account.left < -1e-9:
                self.overdrawn.append(f"{request.execution_id}: {account.left} {account.unit} are left")
        seen = self._seen.get(request.execution_id, Seen())
        fresh = sum(len(message.encoded) for message in request.messages[seen.messages :])
        estimate = seen.tokens + math.ceil(fresh / 3) if seen.messages else math.ceil(size(request) / 3)
        alive = frozenset(each.id for each in self.bench.dispatcher.tree) if self.bench is not None else frozenset()
        rate = 4e-6 if request.waits else 2.5e-6
        error = max(0, prompt - estimate)
        self.calls.append(Call(request.execution_id, len(self.calls), error, rate, alive, not request.tools))

    def _turn(self, node: Node, request: Request, key: str) -> Turn:
        if not request.tools:
            return say("concluded")
        if node.children:
            children, node.children = node.children, []
            return self._dispatch(children, key)
        if node.work:
            return call("work", length=node.work.pop())
        return {"fail": fail(), "crash": crash(RuntimeError("a bug"))}.get(node.end) or say("answered")

    def _dispatch(self, children: list[Node], parent: str) -> Turn:
        turn = Turn()
        for child in children:
            key = f"task {len(self._nodes)}"
            self._nodes[key], self._bytes_per_token[key] = child, self._bytes_per_token[parent]
            given = {} if child.budget is None else {"budget_usd": child.budget}
            turn += call("dispatch_agent", name=child.agent, task=key, **given)
        return turn

    def _usage(self, request: Request, prompt: int, turn: Turn, ratio: float) -> Usage:
        """Every prompt is written to the cache; an answer has at least the tokens of what it says, up to its limit."""
        assert request.max_tokens is not None or request.execution_id not in self.budgets
        longest = request.max_tokens if request.max_tokens is not None else request.spec.max_tokens
        said = math.ceil((len(to_json(turn.content)) + 60 * (len(turn.content) + 1)) / ratio)
        output = min(longest, max(said, self._dice.randrange(1500)))
        written = {"cache_write_tokens": prompt, "cache_write_1h_tokens": prompt if request.waits else 0}
        return Usage(output_tokens=output, **written)


async def work(arguments: Mapping[str, Any]) -> str:
    """The tool: as much text as it is asked for."""
    return "found " * (int(arguments["length"]) // 6)
