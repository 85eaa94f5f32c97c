"""Guarantees about cancelling a tree of a thousand and the servers of two hundred: each bound, the worst of several runs.

Owns: the bounds and the figures. Must not know: how the executions come about.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from tests.faults.cancel.cancelling import Cancelled, cancel_tree
from tests.faults.cancel.children import Gone, cancel_children
from tests.faults.guarantees.guarantee import Broken, Course, Measured

RUNS = 20
CAPTAINS, LEAVES = 9, 110
BOUNDS = {"flags": 0.25, "rows": 1.0, "sockets": 1.0}
"""Seconds from the call."""

CROWDS = 10
EACH = 50
"""Executions of each of four kinds."""
CROWD_BOUNDS = {"rows": 1.0, "children": 5.0}


def cancelled(course: Course) -> Measured:
    """Cancel the tree as often as is left to do."""
    runs = [Cancelled(**run) for run in _repeated(course, RUNS, lambda folder: cancel_tree(folder, CAPTAINS, LEAVES))]
    worst = _worst(runs, BOUNDS)
    told = " / ".join(f"{worst[name] * 1000:.0f}" for name in BOUNDS)
    figure = (
        f"flags / rows and tasks / sockets after {told} ms at worst; 0 later dispatches; {runs[0].executions:,} executions"
    )
    return Measured(figure, RUNS)


def bereft(course: Course) -> Measured:
    """Cancel executions that have servers of their own."""
    runs = [Gone(**run) for run in _repeated(course, CROWDS, lambda folder: cancel_children(folder, EACH))]
    worst = _worst(runs, CROWD_BOUNDS)
    figure = (
        f"the last of {runs[0].processes} processes gone after {worst['children']:.1f} s at worst, rows after "
        f"{worst['rows'] * 1000:.0f} ms; 0 left; {runs[0].executions - 1} executions"
    )
    return Measured(figure, CROWDS)


def _repeated(course: Course, runs: int, trial: Callable[[Path], Awaitable[Any]]) -> list[dict[str, Any]]:
    """What came of each run; those that were done before a cut are kept."""
    file = course.folder / "runs.jsonl"
    with file.open("a", encoding="utf-8") as kept:
        for number in range(len(_read(file)), runs):
            with tempfile.TemporaryDirectory() as folder:
                found = anyio.run(trial, Path(folder))
            kept.write(json.dumps(asdict(found)) + "\n")
            kept.flush()
            course.tell(f"{number + 1} of {runs}")
    return _read(file)


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _worst(runs: Sequence[Cancelled | Gone], bounds: Mapping[str, float]) -> dict[str, float]:
    """The worst of each time; raises Broken where it is beyond its bound, or anything did not hold."""
    worst = {name: max(float(getattr(run, name)) for run in runs) for name in bounds}
    broken = [each for run in runs for each in run.broken]
    broken += [f"{name} took {worst[name]:.3f} s, not {bound} s" for name, bound in bounds.items() if worst[name] > bound]
    if broken:
        raise Broken("; ".join(broken[:10]))
    return worst
