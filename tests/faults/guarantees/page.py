"""The page `docs/reference/guarantees.md`, made from the declared guarantees and the figures of their last measurements.

Owns: the look of the page and the figures beside it. Invariant: a pure function of two things in the repository, so a test
can tell when it is old; a promise without a figure is not on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.faults.guarantees.guarantee import Guarantee
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "reference" / "guarantees.md"
KEPT = Path(__file__).with_name("figures.json")

INTRODUCTION = """\
# Guarantees, measured

What Outrider promises when something goes wrong, and how often that was tried. Each row is a measurement that fails when
the promise is broken once; its short form runs with every `make test`. `make faults` measures all of them,
`make faults ONLY="tree cancel"` those two; `OUTRIDER_SEED` repeats one.

Processes are real ones, killed by `kill -9`; databases are SQLite files; models are scripted servers on real sockets. After
each trial one checker compares what clients, tools and the model server saw with what the rows say: every id that was
told resolves, a terminal status never changes, nothing runs below an end, turns are contiguous and none is asked for twice,
no effect happens twice, results reach parents once, what has ended works no more, each version of a plan is made once and
each of its steps carried out once, people are asked and answered once, nothing is left at rest, the file is sound.
"""

Figures = Mapping[str, Mapping[str, Any]]


def figures(kept: Path = KEPT) -> dict[str, Any]:
    """The figures so far, by name."""
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    return found


def page(declared: Sequence[Guarantee], measured: Figures) -> str:
    """The text of the page."""
    return "\n".join([INTRODUCTION, *_table([each for each in declared if each.name in measured], measured)]) + "\n"


def _table(declared: Sequence[Guarantee], measured: Figures) -> Iterator[str]:
    yield "| `ONLY` | promise | measured | n | took | seed | date | machine |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in declared:
        row = measured[each.name]
        told = [row["figure"], f"{row['n']:,}", f"{row['seconds']:,.0f} s", str(row["seed"]), row["date"], row["machine"]]
        yield f"| `{each.name}` | {each.promise} | {' | '.join(told)} |"
