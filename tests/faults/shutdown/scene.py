"""Many trees at work in a served process, before a model that takes its time.

Owns: the configuration, the model's answers, and looking at what is left. Must not know: what a test does to the process.
Invariant: a tree that is left alone completes.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio

from tests.support.messages_api import Answer, MessagesApi, Received, events_of, messages_api, mute, text, tool_use
from tests.support.shell import Shell, make_shell

SERVER = Path(__file__).with_name("slow_server.py")
PACE = 0.015
"""Seconds between two events of an answer; each has some ten."""

CONFIG = f"""\
models: {{m: {{model: claude-any}}}}
defaults: {{model: m, limits: {{timeout: 100s, max_concurrent_roots: 100}}}}
mcp_servers: {{slow: {{command: ['{sys.executable}', '-I', '-S', '{SERVER}', 'marks'], cwd: FOLDER, timeout: 50s}}}}
agents:
  Lead: {{description: sends two, sub_agents: [Worker], custom_instructions: "You are Lead."}}
  Worker: {{description: works, mcp_servers: [slow]}}
serve: {{SERVE}}
"""


@dataclass
class Scene:
    """A folder with a configuration, and the model behind it."""

    shell: Shell
    api: MessagesApi
    arrivals: list[float] = field(default_factory=list)
    """When each request came to the model."""

    @property
    def environ(self) -> dict[str, str]:
        """What a served process needs."""
        return {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": self.api.url}

    @property
    def marks(self) -> int:
        """How often the tool has done its work."""
        file = self.shell.folder / "marks"
        return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0

    def count(self, query: str) -> int:
        """The one number a query asks for."""
        return int(next(iter(self.shell.rows(f"select count(*) as n from {query}")[0].values())))

    def broken(self) -> list[str]:
        """What must not be so in a database whose process has gone."""
        owners = list(self.shell.database.with_name("outrider.db-owners").iterdir())
        connection = sqlite3.connect(self.shell.database)
        integrity = connection.execute("pragma integrity_check").fetchone()[0]
        connection.close()
        found = [f"integrity: {integrity}"] if integrity != "ok" else []
        found += [f"an owner is left: {owner}" for owner in owners]
        ended = self.shell.rows("select status from executions where finished_at is not null")
        found += [f"ended as {row['status']}" for row in ended if row["status"] != "completed"]
        return found


def _answers(scene: list[Scene], *, hanging: bool) -> Any:
    numbers = count(1)

    def answer(received: Received) -> Answer:
        scene[0].arrivals.append(anyio.current_time())
        if hanging:
            return mute()
        body, number = received.body, next(numbers)
        asked = any(message["role"] == "assistant" for message in body["messages"])
        if asked:
            blocks = [text("that is all there is to say")]
        elif "You are Lead." in str(body["system"]):
            tasks = [{"name": "Worker", "task": f"{number}.{each}"} for each in range(2)]
            blocks = [tool_use("dispatch_agent", task, f"toolu_{number}_{i}") for i, task in enumerate(tasks)]
        else:
            blocks = [tool_use("slow__work", {}, f"toolu_{number}")]
        return Answer(events=events_of(blocks), pace=PACE, headers={"request-id": "req_1"})

    return answer


@asynccontextmanager
async def scene(folder: Path, serve: str = "", *, hanging: bool = False) -> AsyncIterator[Scene]:
    """A scene whose model answers slowly, or never."""
    made: list[Scene] = []
    async with messages_api(_answers(made, hanging=hanging)) as api:
        config = CONFIG.replace("FOLDER", str(folder)).replace("SERVE", serve)
        made.append(Scene(make_shell(folder, config), api))
        yield made[0]
