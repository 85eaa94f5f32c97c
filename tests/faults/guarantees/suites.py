"""Guarantees whose tests try more when they are asked to, by a variable.

Owns: running such a test in a process of its own, and what it told. Must not know: what it tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.guarantees.guarantee import Broken, Course, Measured
from tests.support.figures import FIGURES
from tests.support.sources import ROOT

Told = Sequence[Mapping[str, Any]]
LAST_LINES = 25
LARGEST_SEED = 2**32


@dataclass(frozen=True)
class Suite:
    """A test, the variable that says how much it tries, and what is said of it when it has passed."""

    test: str
    variable: str
    count: int
    summary: Callable[[Told], str]

    def __call__(self, course: Course) -> Measured:
        """Run it."""
        figures = course.folder / "figures"
        figures.unlink(missing_ok=True)
        seed = course.seed % LARGEST_SEED
        environ = {self.variable: str(self.count), "OUTRIDER_SEED": str(seed), FIGURES: str(figures)}
        command = [sys.executable, "-m", "pytest", "-q", "--timeout=0", f"--hypothesis-seed={seed}", self.test]
        ran = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **environ}, check=False, capture_output=True, encoding="utf-8"
        )
        if ran.returncode:
            raise Broken("\n".join([f"`{self.test}` failed:", *ran.stdout.splitlines()[-LAST_LINES:]]))
        lines = figures.read_text(encoding="utf-8").splitlines() if figures.exists() else []
        return Measured(self.summary([json.loads(line) for line in lines]), self.count)


def said(words: str) -> Callable[[Told], str]:
    """The same words whenever it has passed."""
    return lambda _: words


def stayed_open(told: Told) -> str:
    """Of questions to people: how many stops they outlived, each of twelve kinds as often as it was tried."""
    stops = sum(int(each["stops"]) for each in told)
    return f"open after {stops:,} of {stops:,} stops of twelve kinds, same id and expiry; answered then, each call ran once"


def overshoot(told: Told) -> str:
    """Of trees with budgets: by how much limits were gone over, as their batches told."""
    limits, over, executions = (sum(int(batch[name]) for batch in told) for name in ("limits", "over", "executions"))
    error, share = (max(float(batch[name]) for batch in told) for name in ("worst_of_error", "worst_share"))
    return (
        f"{over:,} of {limits:,} limits gone over, by {error:.0%} of the error of the estimates in flight at most "
        f"({share:.1%} of the limit); {executions:,} executions, 0 neighbours hurt"
    )


def held_up(told: Told) -> str:
    """Of hostile queries: how far they reached beyond their own processes."""
    [figures] = told
    return (
        f"event loop late by {figures['lag'] * 1000:.0f} ms at p99, {figures['growth'] / 1024**2:.0f} MB more memory, "
        f"a neighbour's slowest call {figures['neighbour'] * 1000:.0f} ms"
    )
