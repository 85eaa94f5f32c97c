"""The limits, in `limits.toml`: what each unit of work may cost, and why a limit was raised.

Owns: the file, its format, and the verdict on a count. Must not know: how anything is counted. Invariant: rewriting the
file keeps every reason, and a limit is raised only with a new one.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("limits.toml")
REFERENCE = (3, 11)
"""The Python whose counts the limits are: others call less or more, so that only they can be too low for a limit."""
GAIN = 0.05
"""A count lower than its limit by this part and twice its room asks for a lower limit: else the gain could be lost unseen."""
ROOM = {
    "calls": (0.005, 2),
    "writer calls": (0.01, 4),
    "more calls": (0.02, 2),
    "blocks kept": (0.1, 6),
    "bytes kept": (0.05, 0),
}
"""By what is counted, how far a limit is above its count, as a part and at least: a clock, a cache or a commit that two
writes share changes it a little. Modules are counted exactly."""
SHOWN = 10

HEAD = """\
# What each unit of work may cost. `python -m tests.costs` prints the counts, `python -m tests.costs --write` lowers limits
# to them. Raise one only for something that is worth it: `--write --reason "why"` puts the reason beside each that rises.
"""


@dataclass(frozen=True)
class Limit:
    """A limit, and why it was last raised."""

    limit: int
    reason: str = ""


Limits = Mapping[str, Limit]


def read(file: Path = FILE) -> dict[str, Limit]:
    """The limits by name."""
    return {name: Limit(**each) for name, each in tomllib.loads(file.read_text(encoding="utf-8")).items()}


def room(name: str, count: int) -> int:
    """How far above a count its limit is."""
    part, least = ROOM.get(name.rpartition(": ")[2], (0.0, 0))
    return max(math.ceil(count * part), least)


def limit_for(name: str, count: int) -> int:
    """The limit of a count that is as low as it can be."""
    return count + room(name, count)


def complaint(name: str, count: int, limits: Limits, functions: Mapping[str, float], python: tuple[int, int]) -> str | None:
    """What is wrong with a count, with a hint; None if it keeps its limit."""
    if name not in limits:
        return f"`{name}` has no limit\nhint: run `python -m tests.costs --write`"
    limit = limits[name].limit
    if count > limit:
        most = "".join(f"\n  {calls:8.1f}  {function}" for function, calls in list(functions.items())[:SHOWN])
        about = f"\nits most frequent calls:{most}" if most else ""
        why = "find what was added with `python -m tests.costs --top`, and take it out of the way of every unit"
        return f"`{name}` is {count}: the limit is {limit}{about}\nhint: {why}; CONTRIBUTING.md says when to raise a limit"
    lower = limit_for(name, count)
    if python == REFERENCE and lower + room(name, count) < limit * (1 - GAIN):
        hint = f"lower the limit to {lower}: `python -m tests.costs --write`"
        return f"`{name}` is {count}, far below its limit {limit}\nhint: {hint}"
    return None


class NoReason(Exception):
    """Limits that would rise without a reason."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"higher than their limits: {', '.join(f'`{name}`' for name in names)}")
        self.hint = "make them cheaper, or say what is worth it with `--reason`"


def rewritten(counts: Mapping[str, int], before: Limits, reason: str = "") -> str:
    """The file with limits at these counts; raises NoReason."""
    raised = [name for name, count in counts.items() if name in before and count > before[name].limit]
    if raised and not reason:
        raise NoReason(raised)
    lines = [HEAD]
    for name, count in counts.items():
        wanted = limit_for(name, count)
        kept = before.get(name, Limit(wanted))
        why = reason if name in raised else kept.reason
        # Within their room counts differ from run to run, and a limit is not rewritten for that.
        limit = kept.limit if name not in raised and abs(kept.limit - wanted) <= room(name, count) else wanted
        lines.append(f"{json.dumps(name)} = {{ limit = {limit}, reason = {json.dumps(why, ensure_ascii=False)} }}\n")
    return "".join(lines)
