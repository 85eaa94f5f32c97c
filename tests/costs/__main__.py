"""Prints every count beside its limit; with `--top UNIT` what a unit consists of; with `--write` rewrites the limits.

Owns: the command line. Must not know: how anything is counted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.costs import commands, limits
from tests.costs.measure import GROUPS, UNITS, in_own_process, timed


def all_counts() -> dict[str, int]:
    """Every count."""
    with ThreadPoolExecutor(2) as pool, tempfile.TemporaryDirectory() as folder:
        groups = list(pool.map(in_own_process, GROUPS))
        shell = commands.ready(Path(folder))
        groups.append(commands.figures({name: commands.imported(name, shell) for name in commands.COMMANDS}))
    return {name: count for each in groups for name, count in each.figures.items()}


def top(unit: str, shown: int) -> None:
    """Print what a unit consists of: its files and functions by calls, and its files by time."""
    functions = in_own_process(UNITS[unit]).functions
    for name in (name for name in functions if name.startswith((f"{unit}: ", f"{unit}, "))):
        files: Counter[str] = Counter()
        for function, calls in functions[name].items():
            files[function.partition(": ")[0]] += calls  # type: ignore[assignment]
        print(f"{name}: {files.total():.0f}\n")
        table("calls  file", files, shown)
        table("calls  function", functions[name], shown)
    table("ms  file, with the cost of measuring", timed(unit), shown)


def table(title: str, figures: Mapping[str, float], shown: int) -> None:
    """Print the largest figures."""
    heading, _, rest = title.partition("  ")
    print(f"{heading:>8}  {rest}")
    for name, figure in sorted(figures.items(), key=lambda each: -each[1])[:shown]:
        print(f"{figure:8.{1 if heading == 'calls' else 3}f}  {name}")
    print()


def main() -> int:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.costs", description="Count what a unit of work costs.")
    parser.add_argument("--top", metavar="UNIT", choices=UNITS, help=f"one of {', '.join(UNITS)}")
    parser.add_argument("--shown", type=int, default=30)
    parser.add_argument("--write", action="store_true", help="lower the limits to the counts")
    parser.add_argument("--reason", default="", help="why limits rise")
    asked = parser.parse_args()
    if asked.top:
        top(asked.top, asked.shown)
        return 0
    before = limits.read() if limits.FILE.exists() else {}
    counts = all_counts()
    for name, count in counts.items():
        limit = before.get(name)
        print(f"{count:8}  {limit.limit if limit else '-':>8}  {name}")
    if asked.write:
        try:
            limits.FILE.write_text(limits.rewritten(counts, before, asked.reason), encoding="utf-8")
        except limits.NoReason as error:
            print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
