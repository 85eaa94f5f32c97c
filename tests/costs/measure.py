"""Measures a group of scenarios in a process of its own: `python -m tests.costs.measure turn` prints a line of JSON.

Owns: the units of work by name, and the process around them. Must not know: any limit. Invariant: the process has a fixed
hash seed, the database lies in memory where that is possible, and the process ends in bounded time.
"""

from __future__ import annotations

import json
import os
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
from tests.costs.counting import Calling, Interval, Timing, median, seconds_by_file, usual
from tests.costs.still_loop import run_still
from tests.support.sources import ROOT

SECONDS = 50.0
MEMORY_FOLDER = Path("/dev/shm")
"""Where it exists, the database lies in it, so that a commit does not wait for a disk."""

Scenario = Callable[[Calling, Path], Awaitable[None]]


@dataclass(frozen=True)
class Measured:
    """The figures of a group, and for each figure the functions it consists of."""

    figures: dict[str, int]
    functions: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What some units of work cost."""

    calls: Counter[CodeType]
    writes: Counter[CodeType]
    blocks: float

    def __sub__(self, less: Cost) -> Cost:
        return Cost(_less(self.calls, less.calls), _less(self.writes, less.writes), self.blocks - less.blocks)

    def measured(self, name: str, units: int = 1) -> Measured:
        """The figures of one of the units; those of the writer only if it has written."""
        counted = {f"{name}: calls": self.calls, f"{name}: writer calls": self.writes}
        counted = {each: codes for each, codes in counted.items() if codes}
        figures = {each: round(codes.total() / units) for each, codes in counted.items()}
        functions = {each: _by_name(codes, units) for each, codes in counted.items()}
        return Measured({**figures, f"{name}: blocks kept": max(0, round(self.blocks / units))}, functions)


def _less(codes: Counter[CodeType], less: Counter[CodeType]) -> Counter[CodeType]:
    return Counter({code: count for code in codes | less if (count := codes[code] - less[code])})


def _by_name(codes: Counter[CodeType], units: int) -> dict[str, float]:
    found: Counter[str] = Counter()
    for code, count in codes.items():
        found[f"{shown(code.co_filename)}: {code.co_qualname}"] += count
    return {name: count / units for name, count in found.most_common() if count}


def shown(file: str) -> str:
    """A file as a person knows it: below our repository, the installed packages or the standard library."""
    for folder in ("site-packages/", f"{ROOT}/", f"lib/python{sys.version_info.major}.{sys.version_info.minor}/"):
        file = file.rpartition(folder)[2]
    return file


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None) as name:
        yield Path(name)


def intervals(scenario: Scenario, warm: int) -> Sequence[Interval]:
    """The intervals of a scenario that count."""
    calling = Calling()
    with _folder() as folder:
        run_still(scenario, calling, folder)
    return calling.intervals(warm)


def cost(found: Sequence[Interval]) -> Cost:
    """The usual cost of an interval."""
    calls, writes = (median([getattr(each, part) for each in found]) for part in ("calls", "writes"))
    return Cost(calls, writes, usual([each.blocks for each in found]))


def _together(*found: Measured) -> Measured:
    figures = {name: figure for each in found for name, figure in each.figures.items()}
    return Measured(figures, {name: functions for each in found for name, functions in each.functions.items()})


def turn() -> Measured:
    """A model turn with one tool call, a further tool call in it, and how much more a turn costs late in a conversation."""
    with fake_model() as model:
        one, two = (intervals(_turns(model.url, calls), scenarios.WARM_TURNS) for calls in (1, 2))
    third = len(one) // 3
    early, late = (median([each.calls for each in part]) for part in (one[:third], one[-third:]))
    more = Cost(_less(late, early), Counter(), 0)
    figure = f"turn, {len(one) - third} turns later: more calls"
    later = Measured({figure: more.calls.total()}, {figure: _by_name(more.calls, 1)})
    return _together(cost(one).measured("turn"), later, (cost(two) - cost(one)).measured("tool call"))


def _turns(url: str, calls: int) -> Scenario:
    return partial(scenarios.turns, url=url, calls=calls)


def dispatch() -> Measured:
    """The whole life of one more dispatched agent."""
    few, many = (cost(intervals(_trees(agents), scenarios.WARM_TREES)) for agents in (scenarios.FEW, scenarios.MANY))
    return (many - few).measured("dispatch", scenarios.MANY - scenarios.FEW)


def _trees(agents: int) -> Scenario:
    return partial(scenarios.dispatches, scouts=agents)


def mcp() -> Measured:
    """Two requests of an MCP client, on the server's side."""
    return _together(*(_request(tool) for tool in ("get_result", "list_agents")))


def _request(tool: str) -> Measured:
    return cost(intervals(_requests(tool), scenarios.WARM_REQUESTS)).measured(f"MCP {tool}")


def _requests(tool: str) -> Scenario:
    return partial(scenarios.requests, tool=tool)


def waiting() -> Measured:
    """The memory of one more agent that waits for the model."""
    with _folder() as folder:
        blocks, size = anyio.run(scenarios.waiting, folder)
    return Measured({"waiting agent: blocks kept": round(blocks), "waiting agent: bytes kept": round(size)})


GROUPS: Mapping[str, Callable[[], Measured]] = {each.__name__: each for each in (turn, dispatch, mcp, waiting)}


def timed(unit: str) -> Mapping[str, float]:
    """The milliseconds that a unit spends in each file, or for `dispatch` a tree; its model turns with the adapter."""
    with fake_model() as model:
        scenario, warm = {
            "turn": (_turns(model.url, 1), scenarios.WARM_TURNS),
            "tool call": (_turns(model.url, 2), scenarios.WARM_TURNS),
            "dispatch": (_trees(scenarios.MANY), scenarios.WARM_TREES),
            "MCP get_result": (_requests("get_result"), scenarios.WARM_REQUESTS),
            "MCP list_agents": (_requests("list_agents"), scenarios.WARM_REQUESTS),
        }[unit]
        timing = Timing(warm=warm)
        with _folder() as folder:
            run_still(scenario, timing, folder)
    return {shown(file): spent * 1000 for file, spent in seconds_by_file(timing).items()}


UNITS = {"turn": "turn", "tool call": "turn", "dispatch": "dispatch", "MCP get_result": "mcp", "MCP list_agents": "mcp"}
"""The group of each unit."""


class Failed(Exception):
    """A process that did not measure."""


def in_own_process(group: str, *folders: Path) -> Measured:
    """Measure a group in a fresh process, with folders before all others on the path."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    environ = {**kept, "PYTHONPATH": os.pathsep.join(map(str, (*folders, ROOT))), "PYTHONHASHSEED": "0"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.costs.measure", group],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if ended.returncode:
        raise Failed(f"the group `{group}` was not measured:\n{ended.stderr[-4000:]}")
    return Measured(**json.loads(ended.stdout.splitlines()[-1]))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(GROUPS[sys.argv[1]]())) + "\n")
