"""The scenarios: the size of the work, the latency of the model, the place of the tool, and the kind of measurement.

Owns: their sizes and titles. Must not know: how a run is started. Invariant: two runs of one scenario are comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.contest import Tool

Kind = Literal["work", "start", "memory", "cancel", "growth"]
"""Complete work, the start of a process, memory with all requests in flight, their cancellation, or the cost of an early
and a late turn of a long conversation."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. `n` is the number of sub-agents, `turns` the tool calls of each."""

    key: str
    title: str
    n: int
    turns: int = 4
    latency_ms: float = 0.0
    tool: Tool = "inproc"
    kind: Kind = "work"


SCENARIOS = {
    scenario.key: scenario
    for scenario in (
        Scenario("a", "50 sub-agents × 4 turns, a model that answers at once", 50),
        Scenario("b", "500 sub-agents × 4 turns, a model that answers at once", 500),
        Scenario("c", "200 sub-agents × 4 turns, a model that takes 200 ms", 200, latency_ms=200),
        Scenario("d", "cold start: 1 sub-agent × 1 turn", 1, turns=1, kind="start"),
        Scenario("mcp", "as a, with `lookup` behind an MCP server over stdio", 50, tool="mcp"),
        Scenario("memory", "memory with 1000 sub-agents waiting for the model", 1000, turns=1, kind="memory"),
        Scenario("cancel", "cancellation with 200 sub-agents waiting for the model", 200, kind="cancel"),
        Scenario("growth", "bytes stored by the 20th and the 200th turn of a sub-agent", 1, turns=200, kind="growth"),
    )
}
QUICK = ("a", "b")
"""The scenarios of `make bench`."""
