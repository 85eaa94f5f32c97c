"""The models of a served configuration, behind a local Messages API: each play has its own gate and its own lines.

Owns: the configuration, and what its agents' models answer. Must not know: which client is served.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from tests.support.messages_api import Answer, MessagesApi, Received, messages_api, mute, reply, text, tool_use

CONFIG = """\
models: {{scripted: {{model: claude-sonnet-5-5, base_url: "{url}", price: {{input: 2, output: 10}}}}}}
agents:
  Quick: {{description: answers at once}}
  Lead: {{description: sends Quick and reports, sub_agents: [Quick]}}
  Endless: {{description: never comes to an end}}
"""


@dataclass
class Play:
    """One run of the scenario; its name is in every task, so that plays can share a service."""

    name: str
    at_the_gate: anyio.Event = field(default_factory=anyio.Event)
    """Set when Lead is about to answer."""
    gate: anyio.Event = field(default_factory=anyio.Event)
    """What Lead waits for before it answers."""

    def answer(self, received: Received) -> Answer:
        """What the model says to a request."""
        task = _words(received.body["messages"][0])
        if "Endless" in task:
            return mute()
        if "Lead" not in task:
            return reply(text("42 files"))
        said = json.dumps(received.body["messages"])
        if "dispatch_agent" not in said:
            return reply(tool_use("dispatch_agent", {"name": "Quick", "task": f"Quick: count, {self.name}"}))
        if "only the large ones" in said:
            return reply(text("7 large files, as you asked"))
        self.at_the_gate.set()
        return reply(text("42 files in all"), gate=self.gate)


def _words(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@dataclass
class Stage:
    """Where plays are given."""

    api: MessagesApi
    plays: dict[str, Play]

    @property
    def config(self) -> str:
        """The configuration to serve."""
        return CONFIG.format(url=self.api.url)

    def play(self, name: str) -> Play:
        """A new play."""
        play = self.plays[name] = Play(name)
        return play


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """A Messages API whose answers are those of the plays."""
    plays: dict[str, Play] = {}

    def choose(received: Received) -> Answer:
        task = _words(received.body["messages"][0])
        [play] = (play for name, play in plays.items() if name in task)
        return play.answer(received)

    async with messages_api(choose) as api:
        yield Stage(api, plays)
