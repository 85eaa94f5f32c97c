"""`python -m tests.costs`: prints every count beside its limit; `--top UNIT` what a unit consists of; `--write` new limits."""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.costs import commands, limits
from tests.costs.measure import GROUPS, UNITS, Measured, in_own_process


def all_counts() -> dict[str, int]:
    """Every count."""
    with ThreadPoolExecutor(2) as pool, tempfile.TemporaryDirectory() as folder:
        groups = list(pool.map(in_own_process, GROUPS))
        groups.append(commands.measured(commands.ready(Path(folder))))
    return {name: count for each in groups for name, count in each.figures.items()}


def top(unit: str, shown: int) -> None:
    """Print the functions of a unit by calls, and its files by calls."""
    found: Measured = in_own_process(UNITS[unit])
    functions = found.functions[unit]
    files: dict[str, float] = {}
    for name, calls in functions.items():
        file = name.partition(": ")[0]
        files[file] = files.get(file, 0) + calls
    print(f"{unit}: {sum(functions.values()):.0f} calls\n")
    for title, table in (("file", files), ("function", functions)):
        print(f"{'calls':>8}  {title}")
        for name, calls in sorted(table.items(), key=lambda each: -each[1])[:shown]:
            print(f"{calls:8.1f}  {name}")
        print()


def main() -> int:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.costs", description=__doc__)
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
