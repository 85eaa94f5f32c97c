"""Running the suite: a server of ours, the suite as its client, and what it thought of each scenario.

Owns the command line of `@modelcontextprotocol/conformance` and its reports. Must not know: the fixtures.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import yaml

from tests.support.sources import ROOT
from tests.third_party.listening import listening
from tests.third_party.place import SERVERS, installed

SUITE_SECONDS = 120
PACKAGES = SERVERS / "node_modules" / "@modelcontextprotocol"
REVISIONS = ("2026-07-28", "2025-11-25")


@dataclass(frozen=True)
class Verdict:
    """What the suite thought of one scenario."""

    passed: int
    complaints: tuple[str, ...] = ()
    """Failures and warnings."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What stands against it: a complaint, or that nothing was checked."""
        return self.complaints or (() if self.passed else ("nothing was checked",))


NOTHING_TOLD = Verdict(0)


@asynccontextmanager
async def server_under_test(folder: Path) -> AsyncIterator[str]:
    """The URL of a running server."""
    command = [sys.executable, "-m", "tests.conformance.server", str(folder)]
    async with listening(command, {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}, b"/mcp") as url:
        yield url.strip()


async def judged(url: str, revision: str) -> dict[str, Verdict]:
    """Run everything the suite has for a revision; its verdicts by scenario."""
    with tempfile.TemporaryDirectory() as folder, anyio.fail_after(SUITE_SECONDS):
        await _suite("server", "--url", url, "-o", folder, "--requirements", revision)
        return _verdicts(Path(folder))


def _verdicts(folder: Path) -> dict[str, Verdict]:
    return {
        re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]+$", "", report.parent.name): _verdict(report)
        for report in sorted(folder.glob("*/checks.json"))
    }


def _verdict(report: Path) -> Verdict:
    checks: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))
    counts = Counter(check["status"] for check in checks)
    complaints = [
        f"{check['id']}: {check.get('errorMessage', '')}" for check in checks if check["status"] in ("FAILURE", "WARNING")
    ]
    return Verdict(counts["SUCCESS"], tuple(complaints))


async def scenarios() -> list[str]:
    """Every scenario for servers that the suite has."""
    return re.findall(r"^ +- (\S+)", await _suite("list", "--server"), re.M)


def required(revision: str) -> Mapping[str, str]:
    """The scenarios of a revision: whether they are required, else why not."""
    sets = yaml.safe_load((PACKAGES / "conformance" / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8"))
    beside = {entry["scenario"]: entry["reason"] for entry in sets["not_scored"] if entry["leg"] == "server"}
    return dict.fromkeys(sets["server"], "required") | beside


def npm_version(package: str) -> str:
    """Which version of a package of the protocol's makers is installed."""
    version: str = json.loads((PACKAGES / package / "package.json").read_text(encoding="utf-8"))["version"]
    return version


async def _suite(*words: str) -> str:
    programs = installed("bin/node", "node_modules/.bin/conformance")
    ran = await anyio.run_process([*programs, *words], check=False, env={"PATH": os.environ["PATH"]})
    return ran.stdout.decode()
