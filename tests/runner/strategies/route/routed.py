"""Routes for tests: a coordinator with four agents, people who may use some of them, what a classifier says.

Owns: the configuration, the form of a decision, messages of the past, the labelled messages of `judged.toml`.
Must not know: what a test expects.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from db.clock import stamp
from db.ids import new_id
from db.rows.users import chat_messages
from db.store.unit import Added, Write
from tests.support.models import Turn, say
from tests.support.service import Bench

PEOPLE = """
users:
  dana:
    name: Dana
    locale: he-IL
    timezone: Asia/Jerusalem
    capabilities: [calendar, gmail, database]
    connections: [google]
  eve: {name: Eve, capabilities: [calendar, gmail, database], connections: [google]}
  olaf: {name: Olaf, capabilities: [calendar, gmail, database]}
  bo: {name: Bo, capabilities: [calendar], connections: [Google]}
  nic: {name: Nic}
"""

AGENTS = """
agents:
  Coord: {strategy: route, description: routes, sub_agents: [calendar, gmail, database, second_brain], %s}
  calendar: {description: events, requires: {capabilities: [calendar], connections: [google]}}
  gmail: {description: mail, requires: {capabilities: [gmail], connections: [google]}}
  database: {description: "tasks, lists and contacts", requires: {capabilities: [database]}}
  second_brain: {description: notes}
"""
EVERYBODY = ("calendar", "gmail", "database", "second_brain")

JUDGED = Path(__file__).with_name("judged.toml")


def coordinator(route: str = "", more: str = "") -> str:
    """The configuration, with these settings of the coordinator, and more agents or sections."""
    return PEOPLE + AGENTS % (route or "max_concurrent_agents: 5") + more


def decide(*agents: str, plan: bool = False, intent: str = "") -> Turn:
    """A classifier's answer."""
    told = {"primaryIntent": intent or (agents[0] if agents else "general"), "involvedAgents": agents, "requiresPlan": plan}
    return say(json.dumps({**told, "confidence": 0.9}))


@dataclass(frozen=True)
class Judged:
    """A message, and how a good classifier judges it."""

    rule: str
    """The requirement it is an example of."""
    message: str
    agents: tuple[str, ...]
    plan: bool


def judged() -> Iterator[Judged]:
    """The labelled messages: data that also a classifier with a real model can be measured by."""
    for entry in tomllib.loads(JUDGED.read_text(encoding="utf-8"))["message"]:
        yield Judged(entry["rule"], entry["text"], tuple(entry["agents"]), entry["plan"])


async def said_before(service: Bench, user: str, *texts: str) -> None:
    """A conversation of the last minutes, user and assistant in turn."""
    now = datetime.now(UTC)
    rows = [
        {
            "id": new_id(),
            "user_id": user,
            "role": ("user", "assistant")[number % 2],
            "content": text,
            "token_count": 5,
            "created_at": stamp(now - timedelta(minutes=len(texts) - number)),
            "execution_id": None,
        }
        for number, text in enumerate(texts)
    ]
    await service.dispatcher.services.database.writer.apply(Write([Added(chat_messages, row) for row in rows]))
