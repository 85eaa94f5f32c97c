"""Random small trees of agents, and the random order in which they are let go on, cancelled or told to dispatch more.

Owns: the plan of a tree, the model that plays it, the schedule that drives it. Must not know: what is checked afterwards.
Invariant: at the end of a schedule every model call of its tree is answered at once, so every tree comes to an end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel

from runner.core.execution import Execution
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.support.models import Turn, call, crash, fail, say
from tests.support.reading import dispatched
from tests.support.service import Bench

CONFIG = """
defaults: {limits: {max_concurrent_roots: 1000, max_concurrent_agents: 3, max_iterations: 12, cancel_grace: 20s}}
agents:
  Top: {sub_agents: [Middle, Leaf]}
  Middle: {description: dispatches, sub_agents: [Leaf]}
  Leaf: {description: works}
"""


@dataclass
class Node:
    """One planned execution."""

    agent: str
    end: str = "answer"
    """`answer`, `fail` or `crash`."""
    tool: str | None = None
    """What it does to its children before it ends."""
    pokes: int = 0
    """How often it calls a tool that takes a while."""
    children: list[Node] = field(default_factory=list)
    spare: list[Node] = field(default_factory=list)
    """Dispatched when the schedule says so."""
    execution: str | None = None
    permits: int = 0
    changed: anyio.Event = field(default_factory=anyio.Event)

    def permit(self) -> None:
        """Let one more model call be answered."""
        self.permits += 1
        self.changed.set()
        self.changed = anyio.Event()

    def everyone(self) -> list[Node]:
        """This node and all below it, spare ones included."""
        return [self, *(node for child in (*self.children, *self.spare) for node in child.everyone())]


def plant(dice: random.Random, levels: int) -> Node:
    """A random tree of at most this many levels."""
    agent = "Leaf" if levels == 1 else ("Top" if levels == 3 else "Middle")
    node = Node(agent, dice.choice(["answer"] * 6 + ["fail", "crash"]), pokes=dice.choice([0, 0, 0, 1]))
    if levels > 1:
        node.children = [plant(dice, dice.choice([1, 1, levels - 1])) for _ in range(dice.choice([0, 1, 1, 1, 2, 2, 4]))]
        node.spare = [plant(dice, 1) for _ in range(dice.choice([0, 0, 0, 1]))]
        node.tool = dice.choice([None, None, None, "get_result", "wait_for", "cancel_agent", "wrap_up", "list_agents"])
    return node


class World:
    """The trees of one service, by execution: what each model call answers, and when."""

    def __init__(self) -> None:
        self.bench: Bench | None = None
        self.too_late: list[str] = []
        """What began although its execution, or one above it, was being stopped."""
        self._nodes: dict[str, Node] = {}

    def plan(self, tree: Node, key: str) -> None:
        """Know a tree under the task its root is started with."""
        self._nodes[key] = tree

    def _node(self, execution: str, begins: str) -> Node:
        """The plan of a live execution, which begins something now; its task names it."""
        assert self.bench is not None
        live = self.bench.dispatcher.tree.get(execution)
        assert live is not None
        above: Execution | None = live
        while above is not None:
            if above.life.cause is not None:
                self.too_late.append(f"{begins} of {execution}")
            above = above.parent
        return self._nodes[live.request.task]

    async def poke(self, arguments: Mapping[str, Any]) -> str:
        """A tool that takes as long as the schedule says."""
        node = self._node(arguments["execution"], "a tool call")
        while node.permits == 0:
            await node.changed.wait()
        node.permits -= 1
        return "poked"

    async def play(self, request: Request) -> Turn:
        """Answer as the plan says, once the schedule allows it."""
        node = self._node(request.execution_id, "a model call")
        node.execution = request.execution_id
        while node.permits == 0:
            await node.changed.wait()
        node.permits -= 1
        if not request.tools:
            return say(f"{request.execution_id} concludes")
        if node.pokes:
            node.pokes -= 1
            return call("poke", execution=request.execution_id) + self._dispatch(node)
        if node.children:
            return self._dispatch(node)
        if node.tool is not None and (known := dispatched(request)):
            return _use(node, known)
        endings = {"fail": fail(), "crash": crash(RuntimeError("a bug"))}
        return endings.get(node.end) or say(f"{request.execution_id} says so")

    def _dispatch(self, node: Node) -> Turn:
        turn = Turn()
        for child in node.children:
            key = f"task {len(self._nodes)}"
            self._nodes[key] = child
            turn += call("dispatch_agent", name=child.agent, task=key)
        node.children = []
        return turn


def _use(node: Node, known: list[str]) -> Turn:
    tool, node.tool = node.tool, None
    if tool == "wait_for":
        return call("wait_for", execution_ids=known, mode="any", wait_seconds=0.2)
    if tool == "get_result":
        return call("get_result", execution_id=known[0], wait_seconds=0.2) + call("get_result", execution_id=known[0])
    if tool == "wrap_up":
        return call("cancel_agent", execution_id=known[0], mode="wrap_up")
    return call("cancel_agent", execution_id=known[-1]) if tool == "cancel_agent" else call("list_agents")


async def interleave(world: World, tree: Node, key: str, dice: random.Random) -> None:
    """One interleaving: start the tree, act on its nodes in a random order, then let everything go on to its end."""
    assert world.bench is not None
    world.plan(tree, key)
    dispatcher = world.bench.dispatcher
    root = await dispatcher.start(Order("Top", key))
    tree.execution = root.id
    nodes = tree.everyone()
    for _ in range(dice.randrange(2, 4 + 2 * len(nodes))):
        node = dice.choice(nodes)
        action = dice.choices(["open", "cancel", "more"], [8, 1, 1])[0]
        if action == "open":
            node.permit()
        elif action == "more" and node.spare:
            node.children.append(node.spare.pop())
        elif action == "cancel" and node.execution is not None:
            await dispatcher.cancel(node.execution, by="the schedule", reason="by chance")
        for _ in range(dice.randrange(3)):
            await anyio.lowlevel.checkpoint()
    for node in nodes:
        node.permits = 1_000_000
        node.permit()
    await dispatcher.wait(root.id)
