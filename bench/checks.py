"""The cost of checks that refuse nothing: a configuration of gates on every tool call, the guard on every spawn.

Owns what is compared. Must not know: tables. Invariant: rounds alternate, so that a busy minute affects both sides; CPU is
that of this process alone, without the model and the MCP server.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench import lookup
from bench.processes import ROOT, fake_model
from bench.service import configuration, loaded, service
from registry import Limits, Settings
from runner.core.guard import Caller, admit
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order

CALLS = 200
"""Tool calls of one execution, all in one reply: the turns around them cost little beside them."""
LOOPS = 10_000
PATTERNS = tuple(f"{verb}_*" for verb in ("delete", "create", "update", "restart", "scale", "drain", "apply", "patch"))
"""Gates of a usual server of operations; none is for `lookup`."""
DEPTH, CATALOGUE = 3, 12
"""The default limit of depth, and the number of agents to choose from."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The CPU of one thing in microseconds, in several rounds."""

    name: str
    counted: int
    """How often it was done in a round."""
    micros: Sequence[float]

    @property
    def row(self) -> str:
        """A row of a table: the median of the rounds, least and greatest."""
        least, most = min(self.micros), max(self.micros)
        return f"| {self.name} | {len(self.micros)} × {self.counted} | {median(self.micros):.2f} ({least:.2f}–{most:.2f}) |"


def cost_table(costs: Sequence[Cost]) -> str:
    """Several costs as a Markdown table."""
    return "\n".join(["| check | n | CPU µs |\n|---|---|---|", *(cost.row for cost in costs)])


async def of_tool_calls(rounds: int, calls: int = CALLS) -> Sequence[Cost]:
    """A call of an upstream tool, without gates and with gates for other tools of its server."""
    sides: Mapping[str, Mapping[str, str]] = {
        "a call of an upstream tool, no gates": {},
        f"the same, {len(PATTERNS)} gates that do not match": dict.fromkeys(PATTERNS, "ask"),
    }
    measured: dict[str, list[float]] = {name: [] for name in sides}
    with fake_model() as model:
        async with AsyncExitStack() as stack:  # both are open all the time, so that rounds can be short and alternate
            opened = {name: await stack.enter_async_context(_gated(model.url, gates)) for name, gates in sides.items()}
            for dispatcher in opened.values():
                await _cpu_of_a_call(dispatcher, calls)  # the first one connects
            for _ in range(rounds):
                for name, dispatcher in opened.items():
                    measured[name].append(await _cpu_of_a_call(dispatcher, calls))
    return [Cost(name, calls, micros) for name, micros in measured.items()]


def _gated(url: str, gates: Mapping[str, str]) -> AbstractAsyncContextManager[Dispatcher]:
    """A service whose agent may call the tool; the gates are for others of its server."""
    upstream = {"command": list(lookup.SERVER_COMMAND), "cwd": str(ROOT), "effects": {"lookup": "read_only"}}
    servers = {"upstream": {**upstream, "gates": dict(gates)}}
    return service(configuration(url, {"caller": {"mcp_servers": ["upstream"]}}, mcp_servers=servers), tools=None)


async def _cpu_of_a_call(dispatcher: Dispatcher, calls: int) -> float:
    """The CPU of an execution that makes so many calls, divided by their number."""
    before = _cpu()
    child = await dispatcher.start(Order("caller", _calls(calls)))
    ended = await dispatcher.wait(child.id)
    used, made = _cpu() - before, ended.usage["tool_calls"]
    if ended.status != "completed" or made != calls:
        raise SystemExit(f"error: {made} of {calls} calls, {ended.status}: {ended.error}")
    return used / calls * 1e6


def _calls(number: int) -> str:
    """A task: the fake model calls the tool so often in one reply, and ends with the results."""
    return f"FANOUT n={number} turns=1 tool=upstream__lookup arg=key"


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def of_pure_checks(rounds: int) -> Sequence[Cost]:
    """The guard for one spawn, and the choice of a tool's gate, made once a tool when tools are listed."""
    agents = {f"specialist-{number}": {"description": "Knows one thing"} for number in range(CATALOGUE)}
    settings = _settings(agents={"lead": {"sub_agents": list(agents)}, **agents})
    catalogue = settings.catalogue(settings.agents["lead"])
    path = [f"agent-{number}" for number in range(DEPTH)]
    wanted = catalogue[-1].name  # the last one: the search walks the whole catalogue

    def guard() -> None:
        caller = Caller(path[-1], path, DEPTH - 1, catalogue, Limits(), dispatches_left=10)
        admit(caller, wanted, settings.agents)

    gated = {"command": ["true"], "gates": dict.fromkeys(PATTERNS, "ask")}
    upstream = _settings(mcp_servers={"upstream": gated}).upstreams["upstream"]
    checks: Mapping[str, Callable[[], object]] = {
        f"the guard of a spawn: depth {DEPTH - 1}, {CATALOGUE} agents": guard,
        f"the gate of a listed tool among {len(PATTERNS)} patterns": lambda: upstream.gate_of("lookup"),
    }
    return [Cost(name, LOOPS, [_timed(check) for _ in range(rounds)]) for name, check in checks.items()]


def _timed(check: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(LOOPS):
        check()
    return (time.process_time() - began) / LOOPS * 1e6


def _settings(**parts: Any) -> Settings:
    """Settings of which only these parts matter; nothing is started with them."""
    with TemporaryDirectory(prefix="bench-") as folder:
        return loaded({**configuration("http://127.0.0.1", {"caller": {}}), **parts}, Path(folder))
