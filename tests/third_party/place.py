"""The place the how-to page talks about: its configuration, and the folders, files and servers it names.

Owns: the way from docs/howto/real-mcp-servers.md to a running service, and which protocol each server was found to speak.
Must not know: what the servers are asked.
Invariant: the configuration is the page's; only environment variables differ from a reader's, and the patience with a
machine that has other things to do.
"""

import logging
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.llm.protocol import Request
from tests.support.reading import results, text_of
from tests.support.service import Bench, bench
from tests.support.sources import ROOT
from tests.support.upstream_specs import ended, servers_running

PAGE = ROOT / "docs" / "howto" / "real-mcp-servers.md"
SERVERS = ROOT / ".servers"
PROGRAMS = (
    "bin/mcp-server-time",
    "bin/mcp-server-git",
    "bin/prometheus-mcp-server",
    "bin/node",
    "node_modules/.bin/mcp-server-everything",
    "node_modules/.bin/mcp-server-filesystem",
    "node_modules/.bin/mcp-server-memory",
)

NOWHERE = "http://127.0.0.1:9/mcp"

LEGACY, MODERN = "2025-11-25", "2026-07-28"


def installed(*programs: str) -> list[str]:
    """The paths of these programs; a test whose programs are missing fails and says how to get them."""
    missing = [program for program in programs if not os.access(SERVERS / program, os.X_OK)]
    if missing:
        hint = "run `make servers`, after removing `.servers` if that changes nothing"
        pytest.fail(f"missing in `.servers`: {', '.join(missing)}\nhint: {hint}", pytrace=False)
    return [str(SERVERS / program) for program in programs]


def configuration(*, over_http: bool = False) -> str:
    """The configuration of the page, with the servers it shows over HTTP in the place of those over stdio if so wanted."""
    declared, reached = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    merged = yaml.safe_load(declared)
    if over_http:
        merged["mcp_servers"] |= yaml.safe_load(reached)["mcp_servers"]
    for server in merged["mcp_servers"].values():
        server.setdefault("start_timeout", "60s")
    return yaml.safe_dump(merged, sort_keys=False)


@dataclass(frozen=True)
class Place:
    """What the variables of the page stand for in one test."""

    folder: Path
    log: pytest.LogCaptureFixture
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def notes(self) -> Path:
        """The folder the filesystem server may read."""
        return self.folder / "notes"

    @property
    def repository(self) -> Path:
        """The repository the git server may read."""
        return self.folder / "repository"

    def protocols(self) -> dict[str, list[str]]:
        """The protocol of each connection that was made, by server."""
        found: dict[str, list[str]] = {}
        for record in self.log.records:
            said = re.fullmatch(r"upstream (\S+) connected: .+, protocol (\S+)", record.getMessage())
            if said is not None:
                found.setdefault(said[1], []).append(said[2])
        return found

    @asynccontextmanager
    async def service(self, scripts: Mapping[str, Any], *, over_http: bool = False) -> AsyncIterator[Bench]:
        """A service on the page's configuration; when it has closed, none of the processes it started is left."""
        before = servers_running()
        self.log.set_level(logging.INFO, "outrider.upstream")
        async with bench(self.folder, configuration(over_http=over_http), scripts, environ=self.environ) as service:
            yield service
            started = [process for process in servers_running() if process not in before]
        assert await ended(started, 0), f"still running: {started}"


def prepare(folder: Path, log: pytest.LogCaptureFixture) -> Place:
    """Make the folders and the repository the page names."""
    place = Place(folder, log)
    place.notes.mkdir()
    place.environ.update(
        SERVERS=str(SERVERS),
        REPOSITORY=str(place.repository),
        NOTES=str(place.notes),
        MEMORY=str(folder / "memory.jsonl"),
        EVERYTHING_URL=NOWHERE,
        PROMETHEUS_MCP_URL=NOWHERE,
        PROMETHEUS_MCP_TOKEN="unasked",
    )
    return place


def commit(repository: Path, message: str) -> None:
    """Make a repository with one commit."""
    if shutil.which("git") is None:
        pytest.fail("`git` is missing\nhint: install it; the server for repositories needs it", pytrace=False)
    repository.mkdir()
    author = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", message]):
        subprocess.run(["git", "-C", str(repository), *words], check=True, env={"PATH": os.environ["PATH"]})


def told(request: Request) -> list[str]:
    """What a model read in answer to its calls."""
    return [text_of(block) for block in results(request)]


def recorded(service: Bench) -> dict[str, dict[str, Any]]:
    """The rows of the calls by the names of their tools; of several calls of one tool, the last."""
    rows = service.sql(
        "select server, tool, effect, status, is_error, error_type, result from tool_calls order by started_at"
    )
    return {row["tool"]: row for row in rows}
