"""The tree that is killed: a Lead sends Captains, each Captain sends Scouts and Strikers, who look and strike in the field.

Owns: the configuration, and what the model of each agent answers, chosen by the agent and by what its transcript shows, so
that a resumed execution gets the answer it would have got. Must not know: processes and rows.
Invariant: what an agent says in the end depends on what its tools and its children returned, and on nothing else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from tests.faults.crash.ledger import Ledger
from tests.support.messages_api import Answer, Received, reply, text, tool_use

FIELD_SERVER = Path(__file__).with_name("field_server.py")
CAPTAINS = 3
SQUAD = ("Scout", "Scout", "Striker")
ROOT = "root"
"""The task of the Lead; its children are called `root.1`, theirs `root.1.1` …"""

_AGENTS = ("Lead", "Captain", "Patrol", "Watch", "Scout", "Striker", "Holder")
_MODELS = "\n".join(f"  {name}: {{model: {name}}}" for name in _AGENTS)

CONFIG = f"""\
defaults: {{model: Lead, limits: {{timeout: 120s, agent_timeout: 100s, max_concurrent_agents: 10}}}}
models:
{_MODELS}
mcp_servers:
  field:
    command: ['{sys.executable}', '-I', '-S', '{FIELD_SERVER}', '${{FIELD}}']
    effects: {{look: read_only, strike: at_most_once, hold: at_most_once}}
    timeout: 60s
agents:
  Lead: {{description: sends captains, model: Lead, sub_agents: [Captain]}}
  Captain: {{description: sends a squad, model: Captain, sub_agents: [Scout, Striker]}}
  Patrol: {{description: sends watches, model: Patrol, sub_agents: [Watch], max_concurrent_agents: 1}}
  Watch: {{description: sends scouts only, model: Watch, sub_agents: [Scout], max_concurrent_agents: 1}}
  Scout: {{description: looks, model: Scout, mcp_servers: [field]}}
  Striker: {{description: strikes, model: Striker, mcp_servers: [field]}}
  Holder: {{description: strikes without end, model: Holder, mcp_servers: [field]}}
"""

EXECUTIONS = 1 + CAPTAINS * (1 + len(SQUAD))
HAPPENINGS = 3 + CAPTAINS * (3 + 3 * len(SQUAD))
"""Requests and tool calls of an undisturbed tree."""

_REPORT = re.compile(
    r'<report agent="\w+" execution_id="(?P<id>[^"]+)" state="(?P<state>[^"]+)".*?>\n(?P<body>.*?)\n</report>', re.S
)


@dataclass(frozen=True)
class Seen:
    """A request as an agent's model would read it."""

    agent: str
    label: str
    turns: int
    """How often the model has spoken before."""
    calls: tuple[str, ...]
    """The ids of the calls it has made."""
    results: tuple[str, ...]
    """What these returned, as text."""
    reports: tuple[str, ...]
    """What its children said in the end."""
    concluding: bool

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Seen:
        """Read a request."""
        blocks = [(message["role"], block) for message in body["messages"] for block in message["content"]]
        said = [block["text"] for role, block in blocks if role == "user" and block["type"] == "text"]
        return cls(
            agent=body["model"],
            label=said[0].split()[0],
            turns=sum(1 for message in body["messages"] if message["role"] == "assistant"),
            calls=tuple(block["id"] for _, block in blocks if block["type"] == "tool_use"),
            results=tuple(_text(block["content"]) for _, block in blocks if block["type"] == "tool_result"),
            reports=tuple(match["body"] for match in map(_REPORT.search, said) if match is not None),
            concluding=not body.get("tools"),
        )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(block.get("text", "") for block in content)


class Brigade:
    """The model server's side of one trial: answers, and what it saw of the tree."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._numbers = count(1)

    def answer(self, received: Received) -> Answer:
        """What the model of the agent that asks says now."""
        seen = Seen.of(received.body)
        serial = next(self._numbers)
        self._ledger.add("turn", "invoke", seen.label, turn=seen.turns + 1, calls=list(seen.calls), serial=serial)
        answer = reply(*self._blocks(seen, serial))
        return replace(answer, headers={"request-id": f"{seen.label}/{seen.turns + 1}/{serial}"})

    def _blocks(self, seen: Seen, serial: int) -> Iterator[dict[str, Any]]:
        if seen.concluding:
            yield text(f"{seen.label} had to conclude")
            return
        match seen.agent:
            case "Lead" | "Captain" | "Patrol" | "Watch":
                yield from self._command(seen, serial)
            case _:
                yield from self._act(seen, serial)

    @staticmethod
    def _command(seen: Seen, serial: int) -> Iterator[dict[str, Any]]:
        if not seen.calls:
            for number, name in enumerate(_sent_by(seen.agent), start=1):
                task = {"name": name, "task": f"{seen.label}.{number}"}
                yield tool_use("dispatch_agent", task, f"toolu_{serial}_{number}")
        elif len(seen.reports) < len(seen.calls):
            yield text("waiting")
        else:
            yield text(f"{seen.label}({', '.join(sorted(seen.reports))})")

    @staticmethod
    def _act(seen: Seen, serial: int) -> Iterator[dict[str, Any]]:
        tool = {"Scout": "look", "Striker": "strike", "Holder": "hold"}[seen.agent]
        if not seen.results:
            yield tool_use(f"field__{tool}", {"label": seen.label}, f"toolu_{serial}_1")
        else:
            done = f"{tool}: {seen.label}" in seen.results[0]
            yield text(f"{seen.label} {tool}" if done else f"{seen.label} unknown")


def _sent_by(agent: str) -> tuple[str, ...]:
    sent = {"Lead": ("Captain",) * CAPTAINS, "Captain": SQUAD, "Patrol": ("Watch",) * 2, "Watch": ("Scout",) * 2}
    return sent[agent]
