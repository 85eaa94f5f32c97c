"""Guarantees about a start on ten thousand interrupted executions: each bound, and the worst of several starts.

Owns: the bounds and the figures. Must not know: how a start is timed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import anyio

from tests.faults.guarantees.guarantee import Broken, Course, Measured
from tests.faults.recovery.recovering import Finished, Recovered, finish, start
from tests.faults.recovery.wreck import TREE, make_wreck

TREES, SINGLES = 300, 2_500
EXECUTIONS = TREES * TREE + SINGLES
ROOTS = (TREES + SINGLES, 50)
"""Top-level executions that may run at once: all go on together, or most queue."""
STARTS = 5
"""Of each: with so many roots at once, from a fresh process or from one that has imported."""
READY, CALLED = 2.0, 3.0
"""Seconds after imports."""


def recovered(course: Course) -> Measured:
    """Start as often as is left to do, and twice let everything come to its end."""
    file = course.folder / "recovered.jsonl"
    plans = [(roots, fresh) for _ in range(STARTS) for roots in ROOTS for fresh in (True, False)]
    with tempfile.TemporaryDirectory() as folder:
        wreck = Path(folder) / "wreck"
        wreck.mkdir()
        left = make_wreck(wreck, TREES, SINGLES)
        with file.open("a", encoding="utf-8") as kept:
            for number, (roots, fresh) in list(enumerate(plans))[len(_read(file)) :]:
                found = anyio.run(_start, wreck, roots, fresh)
                kept.write(json.dumps(asdict(found)) + "\n")
                kept.flush()
                course.tell(f"{number + 1} of {len(plans)}")
        ends = [anyio.run(_finish, wreck, roots, left) for roots in ROOTS]
    return Measured(_summary(_read(file), ends), len(plans))


async def _start(wreck: Path, roots: int, fresh: bool) -> Recovered:
    with tempfile.TemporaryDirectory() as folder:
        return await start(wreck, Path(folder) / "trial", roots, fresh=fresh)


async def _finish(wreck: Path, roots: int, left: int) -> Finished:
    with tempfile.TemporaryDirectory() as folder:
        return await finish(wreck, Path(folder) / "trial", roots, left)


def _read(file: Path) -> list[Recovered]:
    return [Recovered(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def _summary(starts: Sequence[Recovered], ends: Sequence[Finished]) -> str:
    imported, fresh = ([each for each in starts if each.fresh is wanted] for wanted in (False, True))
    broken = [each for end in ends for each in end.broken]
    broken += [f"ready after {each.ready:.3f} s, not {READY} s" for each in imported if each.ready > READY]
    broken += [f"a model asked after {each.called:.3f} s, not {CALLED} s" for each in imported if each.called > CALLED]
    broken += [f"{end.completed} of {EXECUTIONS} came to their end" for end in ends if end.completed != EXECUTIONS]
    if broken:
        raise Broken("; ".join(broken[:10]))
    return (
        f"ready / first model call {_worst(imported)} after imports at worst, {_worst(fresh)} after the start of the "
        f"process; {EXECUTIONS:,} of {EXECUTIONS:,} completed, each asked once, within every limit, in "
        f"{max(end.seconds for end in ends):.0f} s and {max(end.megabytes for end in ends)} MB at most"
    )


def _worst(starts: Iterable[Recovered]) -> str:
    told = list(starts)
    return f"{max(each.ready for each in told):.2f} / {max(each.called for each in told):.2f} s"
