"""Measures one group of scenarios in a process of its own: `python -m tests.costs.measure turn` prints a line of JSON.

Owns: the units by name, and the process around them. Must not know: any limit. Invariant: the process has a fixed hash seed,
the database lies in memory where that is possible, and it ends in bounded time.
"""

from __future__ import annotations


import json
import os

import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType

import anyio

from bench.processes import fake_model
from tests.costs import scenarios
from tests.costs.counting import Calling
from tests.costs.still_loop import run_still
from tests.support.sources import ROOT

SECONDS = 50.0
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - a folder in memory, in which a private one is made
TOP = 40

Scenario = Callable[[Calling, Path], Awaitable[None]]
Functions = Mapping[str, float]
"""By file and name: calls, or milliseconds."""


@dataclass(frozen=True)
class Measured:
    """The figures of a group, and for each unit of work what it consists of."""

    figures: dict[str, int]
    functions: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One unit of work, or the difference of two."""

    calls: Mapping[CodeType, int]
    blocks: int

    def __sub__(self, less: Sample) -> Sample:
        codes = {*self.calls, *less.calls}
        changed = {code: self.calls.get(code, 0) - less.calls.get(code, 0) for code in codes}
        return Sample(changed, self.blocks - less.blocks)

    def measured(self, name: str, units: int = 1, *, keeps: bool = True) -> Measured:
        """The figures of one unit, of which this has `units`."""
        figures = {f"{name}: calls": round(sum(self.calls.values()) / units)}
        if keeps:
            figures[f"{name}: blocks kept"] = round(self.blocks / units)
        by_name: Counter[str] = Counter()
        for code, count in self.calls.items():
            by_name[_shown(code.co_filename, code.co_qualname)] += count
        return Measured(figures, {name: {each: count / units for each, count in by_name.most_common() if count}})


def _shown(file: str, function: str) -> str:
    for folder in ("site-packages/", f"{ROOT}/", f"lib/python{sys.version_info.major}.{sys.version_info.minor}/"):
        file = file.rpartition(folder)[2]
    return f"{file}: {function}"


def sampled(scenario: Scenario, warm: int) -> Sample:
    """The unit of the scenario with the median count, and the median of the blocks that units kept."""
    calling = Calling()
    with _folder() as folder:
        run_still(scenario, calling, folder)
    intervals = sorted(calling.intervals(warm), key=lambda calls: calls.total())
    return Sample(intervals[(len(intervals) - 1) // 2], statistics.median_low(calling.blocks(warm)))


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None) as name:
        yield Path(name)


def _together(*found: Measured) -> Measured:
    figures = {name: figure for each in found for name, figure in each.figures.items()}
    return Measured(figures, {name: functions for each in found for name, functions in each.functions.items()})


def turn() -> Measured:
    """A model turn with one tool call, and a further tool call in a turn."""
    with fake_model() as model:
        one, two = (sampled(partial(_turns, model.url, calls), scenarios.WARM_TURNS) for calls in (1, 2))
    return _together(one.measured("turn"), (two - one).measured("tool call"))


def _turns(url: str, calls: int, calling: Calling, folder: Path) -> Awaitable[None]:
    return scenarios.turns(calling, folder, url, calls)


def dispatch() -> Measured:
    """The whole life of one more dispatched agent."""
    few, many = (
        sampled(partial(_dispatches, scouts), scenarios.WARM_TREES) for scouts in (scenarios.FEW, scenarios.MANY)
    )
    return (many - few).measured("dispatch", scenarios.MANY - scenarios.FEW)


def _dispatches(scouts: int, calling: Calling, folder: Path) -> Awaitable[None]:
    return scenarios.dispatches(calling, folder, scouts)


def mcp() -> Measured:
    """Two requests of an MCP client, on the server's side."""
    return _together(*(_request(tool) for tool in ("get_result", "list_agents")))


def _request(tool: str) -> Measured:
    asked = sampled(lambda calling, folder: scenarios.requests(calling, folder, tool), scenarios.WARM_REQUESTS)
    return asked.measured(f"MCP {tool}")


def waiting() -> Measured:
    """The memory of one more agent that waits for the model."""
    with _folder() as folder:
        blocks, size = anyio.run(scenarios.waiting, folder)
    return Measured({"waiting agent: blocks kept": round(blocks), "waiting agent: bytes kept": round(size)})


GROUPS: Mapping[str, Callable[[], Measured]] = {
    each.__name__: each for each in (turn, dispatch, mcp, waiting)
}
UNITS = {"turn": "turn", "tool call": "turn", "dispatch": "dispatch", "MCP get_result": "mcp", "MCP list_agents": "mcp"}
"""The group of each unit."""


def in_own_process(group: str, *more: str, path: Sequence[Path] = ()) -> Measured:
    """Measure a group in a fresh process."""
    command = [sys.executable, "-m", "tests.costs.measure", group, *more]
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    search = os.pathsep.join(map(str, (*path, ROOT)))
    environ = {**kept, "PYTHONPATH": search, "PYTHONHASHSEED": "0"}
    ended = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"the scenario `{group}` failed:\n{ended.stderr[-4000:]}")
    return Measured(**json.loads(ended.stdout.splitlines()[-1]))


def main() -> None:
    """Measure the group that the command line names."""
    print(json.dumps(asdict(GROUPS[sys.argv[1]]())))


if __name__ == "__main__":
    main()
