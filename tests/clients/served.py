"""`outrider serve` as a client starts it or finds it.

Owns: its configuration file, environment and process. Must not know: who calls.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.forked import KEPT
from tests.support.shell import SCRIPT
from tests.third_party.listening import listening

REHEARSED = """\
models: {rehearsed: {model: none, rehearsal: script.yaml}}
agents: {Quick: {description: answers at once}}
"""
SCRIPT_OF_QUICK = 'agents: {Quick: [{when: any, say: "42 files"}]}'


@dataclass(frozen=True)
class Served:
    """A folder with a configuration to serve."""

    folder: Path
    key: Mapping[str, str]
    """What gives access to a model; without it, models rehearse."""

    @property
    def command(self) -> list[str]:
        """What a client starts to speak over stdio."""
        return [str(SCRIPT), "serve", "--config", str(self.folder / "config.yaml"), "--db", self.database]

    @property
    def database(self) -> str:
        """Where executions are kept."""
        return f"sqlite:///{self.folder / 'outrider.db'}"

    @property
    def entry(self) -> dict[str, Any]:
        """Its entry in the configuration of a client."""
        program, *arguments = self.command
        return {"command": program, "args": arguments, "env": self.environ}

    @property
    def environ(self) -> dict[str, str]:
        """All it gets of the surroundings."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {**kept, "HOME": str(self.folder), **self.key}

    @asynccontextmanager
    async def over_http(self) -> AsyncIterator[str]:
        """The URL at which a process answers."""
        command = [*self.command, "--http", "127.0.0.1:0"]
        async with listening(command, self.environ, b"/mcp") as line:
            [url] = re.findall(r"http://\S+/mcp", line)
            yield url


def serve(folder: Path, config: str) -> Served:
    """Something to serve, whose models are asked."""
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    return Served(folder, {"ANTHROPIC_API_KEY": "a-key-nobody-checks"})


def serve_rehearsed(folder: Path) -> Served:
    """An agent whose model needs nobody to answer."""
    (folder / "config.yaml").write_text(REHEARSED, encoding="utf-8")
    (folder / "script.yaml").write_text(SCRIPT_OF_QUICK, encoding="utf-8")
    return Served(folder, {})
