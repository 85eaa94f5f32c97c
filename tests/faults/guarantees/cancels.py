"""Guarantees about cancelling a tree of a thousand: each bound, and the worst of several runs.

Owns: the bounds and the figures. Must not know: how the tree comes about.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

import anyio

from tests.faults.cancel.cancelling import Cancelled, cancel_tree
from tests.faults.guarantees.guarantee import Broken, Course, Measured

RUNS = 20
CAPTAINS, LEAVES = 9, 110
BOUNDS = {"flags": 0.25, "rows": 1.0, "sockets": 1.0}
"""Seconds from the call."""


def cancelled(course: Course) -> Measured:
    """Cancel the tree as often as is left to do."""
    file = course.folder / "cancelled.jsonl"
    with file.open("a", encoding="utf-8") as kept:
        for number in range(len(_read(file)), RUNS):
            with tempfile.TemporaryDirectory() as folder:
                found = anyio.run(cancel_tree, Path(folder), CAPTAINS, LEAVES)
            kept.write(json.dumps(asdict(found)) + "\n")
            kept.flush()
            course.tell(f"{number + 1} of {RUNS}")
    return Measured(_summary(_read(file)), RUNS)


def _read(file: Path) -> list[Cancelled]:
    return [Cancelled(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def _summary(runs: list[Cancelled]) -> str:
    worst = {name: max(float(getattr(run, name)) for run in runs) for name in BOUNDS}
    broken = [each for run in runs for each in run.broken]
    broken += [f"{name} took {worst[name]:.3f} s, not {bound} s" for name, bound in BOUNDS.items() if worst[name] > bound]
    if broken:
        raise Broken("; ".join(broken[:10]))
    told = " / ".join(f"{worst[name] * 1000:.0f}" for name in BOUNDS)
    return (
        f"flags / rows and tasks / sockets after {told} ms at worst; 0 later dispatches; {runs[0].executions:,} executions"
    )
