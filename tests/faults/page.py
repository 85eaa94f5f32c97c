"""The page `docs/reference/faults.md`, made from the declared faults and the figures of the last `make faults`.

Owns: the look of the page. Invariant: a pure function of two things in the repository, so a test can tell when it is old.

`make faults ONLY=outside` runs every fault, keeps the figures in `figures.json` beside this file and writes the page.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults import model_faults, upstream_faults
from tests.faults.fault import Fault
from tests.support.figures import FIGURES

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "faults.md"
KEPT = HERE / "figures.json"

INTRODUCTION = """\
# Faults and how they end

What can go wrong outside Outrider, and the state it ends in. Each row is a test: it fails when the fault ends otherwise,
later than its timeout and one second more, holds the event loop for 100 ms, costs 64 MB of memory or leaves a process.

Made by `make faults`; the figures are of one run on {machine}, {date}.
"""


def families() -> Mapping[str, Sequence[Fault]]:
    """The declared faults, by heading."""
    upstreams = [each.fault for each in (*upstream_faults.CALLS, *upstream_faults.LISTS)]
    return {"The model API": model_faults.EVERY, "Upstream servers (HTTP / stdio)": upstreams}


def page() -> str:
    """The text of the page."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    parts = [INTRODUCTION.format(**kept)]
    for heading, faults in families().items():
        parts.append(f"## {heading}\n\n" + "\n".join(_table(faults, kept["figures"])) + "\n")
    return "\n".join(parts)


def _table(faults: Iterable[Fault], figures: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    yield "| fault | what happens | how it ends | took s | loop held ms | memory MB |"
    yield "|---|---|---|---|---|---|"
    for fault in faults:
        ways = figures[fault.name]
        told = [
            " / ".join(f"{float(ways[way][key]) * factor:.{digits}f}" for way in sorted(ways))
            for key, factor, digits in (("seconds", 1, 2), ("lag_seconds", 1e3, 0), ("growth_bytes", 2**-20, 0))
        ]
        yield f"| `{fault.name}` | {fault.happens} | {fault.ends} | {' | '.join(told)} |"


def _measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures"
        command = [sys.executable, "-m", "pytest", "-q", *map(str, sorted(HERE.glob("test_*_faults.py")))]
        ran = subprocess.run(command, env={**os.environ, FIGURES: str(path)}, check=False)
        if ran.returncode:
            sys.exit("error: a fault is not contained, so no page is written")
        figures: dict[str, dict[str, Any]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            figures.setdefault(row.pop("fault"), {})[row.pop("way")] = row
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    return {"machine": machine, "date": datetime.now(UTC).date().isoformat(), "figures": figures}


def measure_all() -> int:
    """Run every fault and write the page; how many there are."""
    KEPT.write_text(json.dumps(_measure(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    return sum(len(faults) for faults in families().values())
