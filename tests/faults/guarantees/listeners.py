"""The guarantee about a thousand listeners to the events of one process: its bounds and its figures.

Owns: the bounds. Must not know: how listeners or events come about. Invariant: a figure is that of the worst round, but
for work and processor time, which are those of all rounds together.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio

from tests.faults.guarantees.guarantee import Broken, Course, Measured
from tests.faults.listeners.load import LISTENERS, MEBIBYTE, STALLED, Round, Stopped, loaded

ROUNDS = 3
LATE = 0.5
LOST = 0.1
MEMORY = 200 * MEBIBYTE
STOP = 25.0
"""Seconds, a share, bytes, seconds."""


def listened(course: Course) -> Measured:
    """Measure all rounds on one process."""
    with tempfile.TemporaryDirectory() as folder:
        rounds, stopped = anyio.run(loaded, Path(folder), ROUNDS, course.seed, course.tell)
    return Measured(_figure(rounds, stopped), ROUNDS * LISTENERS)


def _figure(rounds: list[Round], stopped: Stopped) -> str:
    late, memory = max(each.late for each in rounds), max(each.memory for each in rounds)
    alone, beside = (sum(each.wall[which] for each in rounds) for which in (0, 1))
    cpu = [sum(each.cpu[which] for each in rounds) for which in (0, 1)]
    lost = 1 - alone / beside
    broken = [*stopped.broken, *(words for each in rounds for words in each.broken)]
    bounds = {"p99 of a delay": (late, LATE), "work lost": (lost, LOST), "memory": (memory, MEMORY)}
    bounds["a stop"] = (stopped.seconds, STOP)
    broken += [f"{name} is {value:.3f}, not {bound}" for name, (value, bound) in bounds.items() if value > bound]
    if broken:
        raise Broken("; ".join(broken[:10]))
    events = sum(each.events for each in rounds) / beside
    return (
        f"event to arrival {max(each.median for each in rounds) * 1000:.0f} ms at p50, {late * 1000:.0f} ms at p99; "
        f"{STALLED} of {LISTENERS:,} do not read, are dropped and catch up; 0 missed, 0 twice; "
        f"work slower by {lost:.1%} at {events:.0f} events/s, processor time of the service {cpu[0] / alone:.0%} → "
        f"{cpu[1] / beside:.0%} of a core, {memory / MEBIBYTE:.0f} MB more memory; all connections released; stopped after "
        f"{stopped.seconds:.1f} s with all of them"
    )
