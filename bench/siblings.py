"""The share of a common prompt that siblings read from the provider's cache.

Owns the siblings: children of one parent with equal tools, an equal system prompt and tasks of their own. Must not know:
how the cache decides. Invariant: only first calls count, because a later call shares its prefix with the call before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import lookup
from bench.contest import SUPERVISOR_PROMPT, WORKER_PROMPT
from bench.contestant import DELEGATE
from bench.processes import fake_model
from bench.service import configuration, service, worker
from registry import AgentSpec
from runner.messages import Tool, ToolCall
from runner.service.order import Order
from runner.tools.protocol import ToolResult

SIBLINGS = 20
TURNS = 1
MINIMUM = 1024
"""Tokens of the shortest prefix that the model caches."""
LATENCY_MS = 100
"""Time until a reply begins: siblings that start at once have all asked by then."""
HANDBOOK = "\n".join(f"Rule {number}: look the key up before you say anything about it." for number in range(150))
"""Instructions of a usual length; the prompt of an agent with fewer would not reach the minimum."""
TOOLS = 12


@dataclass(frozen=True, slots=True)
class Sharing:
    """First calls of siblings: what those after the first read from the cache."""

    at_once: int
    """How many run at the same time."""
    prompts: Sequence[dict[str, Any]]

    @property
    def common(self) -> int:
        """Tokens of tools and system, the same in all prompts."""
        (common,) = {prompt["shared"] for prompt in self.prompts}
        return int(common)

    @property
    def read(self) -> float:
        """The share of the common tokens that the siblings after the first read."""
        later = [min(int(prompt["read"]), self.common) for prompt in self.prompts[1:]]
        return sum(later) / (self.common * len(later))

    @property
    def row(self) -> str:
        """A row of a table."""
        paid = sum(prompt["written"] + prompt["plain"] for prompt in self.prompts)
        return f"| {self.at_once} | {len(self.prompts)} | {self.common} | {self.read:.1%} | {paid} |"


def sharing_table(measured: Sequence[Sharing]) -> str:
    """Several of them as a Markdown table."""
    head = "| at work at once | siblings | tokens of tools and system | read by those after the first | tokens not read |"
    return "\n".join([head, "|---|---|---|---|---|", *(each.row for each in measured)])


class Lookups:
    """A `ToolExecutor` with as many tools as a usual server has; only the last is called."""

    def __init__(self, agent: AgentSpec) -> None:
        names = [f"inspect_{number}" for number in range(1, TOOLS)] if agent.name == "worker" else []
        names += ["lookup"] if names else []
        described = " ".join([lookup.DESCRIPTION] * 10)
        self._tools = [
            Tool(name, described, lookup.SCHEMA, label=f"bench.{name}", server="bench", effect="read_only")
            for name in names
        ]

    async def list_tools(self) -> Sequence[Tool]:
        """The tools, if any."""
        return self._tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Return the value of the key."""
        return ToolResult(lookup.value_of(call.arguments["key"]))

    async def close(self) -> None:
        """Nothing is open."""


async def sharing(at_once: int, siblings: int = SIBLINGS) -> Sharing:
    """Let one parent dispatch all siblings in one reply; so many of them run at the same time."""
    limits = {"max_concurrent_agents": at_once, "max_dispatches": siblings}
    agents = {
        "supervisor": {"custom_instructions": SUPERVISOR_PROMPT, "sub_agents": ["worker"], "limits": limits},
        "worker": worker(custom_instructions=f"{WORKER_PROMPT}\n{HANDBOOK}"),
    }
    with fake_model("--latency-ms", str(LATENCY_MS), "--prompt-cache", str(MINIMUM)) as model:
        async with service(configuration(model.url, agents), tools=Lookups) as dispatcher:
            parent = await dispatcher.start(Order("supervisor", f"FANOUT n={siblings} turns={TURNS} {DELEGATE}"))
            ended = await dispatcher.wait(parent.id)
        stats = model.stats()
    answer = ended.result.text if ended.result is not None else ""
    if f"DONE n={siblings} ok={siblings}" not in answer or stats["errors"]:
        raise SystemExit(f"error: the siblings did not do their work: {ended.status}, {ended.error or answer}")
    return Sharing(at_once, [prompt for prompt in stats["prompts"] if prompt["first"]])
