"""The record of one benchmark: commit, machine, every report and the medians, as one JSON file.

Owns: the shape and the path of that file. Must not know: how anything is measured. Invariant: it is written after every
trial, so that an interrupted benchmark keeps its results.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from bench.scenarios import Scenario
from bench.tables import summary

FOLDER = Path(__file__).resolve().parent / "results"
VERSIONS = ("outrider", "anthropic", "mcp", "anyio", "aiohttp", "httpx2", "sqlmodel")


def revision() -> str:
    """The measured commit, with `-dirty` if the tree differs from it; empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    git = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, check=False, encoding="utf-8")
    return git.stdout.strip()


def machine() -> dict[str, Any]:
    """The properties of the machine that figures depend on."""
    return {
        "cpus": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in VERSIONS},
    }


@dataclass
class Record:
    """Results of all scenarios, by their keys."""

    path: Path
    command: str
    rounds: int
    revision: str = field(default_factory=revision)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    results: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    scenarios: dict[str, Scenario] = field(default_factory=dict)

    def add(self, scenario: Scenario, contestant: str, report: dict[str, Any]) -> None:
        """Add one report and write the file."""
        self.scenarios[scenario.key] = scenario
        self.results.setdefault(scenario.key, {}).setdefault(contestant, []).append(report)
        self._write()

    def _write(self) -> None:
        scenarios = {
            key: asdict(scenario) | {"medians": summary(scenario, self.results[key]), "reports": self.results[key]}
            for key, scenario in self.scenarios.items()
        }
        head = {"command": self.command, "revision": self.revision, "rounds": self.rounds}
        head |= {"started_at": self.started_at.isoformat(timespec="seconds")}
        content = json.dumps(head | {"machine": machine(), "scenarios": scenarios}, indent=1, ensure_ascii=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(content + "\n", encoding="utf-8")


def default_path() -> Path:
    """A file named after the moment."""
    return FOLDER / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}.json"
