"""The examples at work: their own configuration, their own servers over stdio, rehearsed, in a service of the test.

Owns: opening an example on a desk of its own, saying something to it, questions to its rows. Must not know: any message.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from registry import Settings, load
from runner.chat import spoken
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.support.models import ScriptedModel
from tests.support.service import Bench
from tests.support.sources import ROOT


def conversation(example: str) -> list[tuple[str, str]]:
    """Who says what in the conversation that `make examples` plays."""
    lines = (ROOT / "examples" / example / "conversation.txt").read_text(encoding="utf-8").splitlines()
    return [(user, text) for user, _, text in (line.partition(": ") for line in lines)]


def settings_of(example: str, home: Path, **variables: str) -> Settings:
    """The configuration of an example, without a key, on a desk that begins now, or with files of its own."""
    environ = {"DESK_HOME": str(home), "CREW_HOME": str(home), "LEAN_LSP": "no-such-lean-lsp", **variables}
    return load(ROOT / "examples" / example / "config.yaml", environ)


@dataclass(frozen=True)
class Play:
    """An example at work."""

    service: Bench

    async def say(self, user: str, text: str) -> Said:
        """Hand over what a user says, and wait for the answer."""
        with anyio.fail_after(30):
            child, _ = await self.service.dispatcher.chat_queue.accept(Order("", text, user=user))
            ended = await self.service.dispatcher.wait(child.id)
        return Said(self.service, ended.id, spoken(ended))

    async def run(self, agent: str, task: str, user: str) -> Said:
        """Have an agent do something for a user, apart from the conversation."""
        ended = await self.service.run(agent, task, user=user)
        return Said(self.service, ended.id, spoken(ended))


@dataclass(frozen=True)
class Said:
    """A message that was answered: the answer, and what was done for it."""

    service: Bench
    execution: str
    answer: str

    def rows(self) -> list[dict[str, Any]]:
        """Everybody who worked on it, in order of birth."""
        query = "select * from executions where root_execution_id = ? order by created_at, position"
        return self.service.sql(query, self.execution)

    def worked(self) -> list[str]:
        """Who that was, and how each ended if not well."""
        rows = self.rows()[1:]
        return [row["agent"] if row["status"] == "completed" else f"{row['agent']} ({row['status']})" for row in rows]

    def strategies(self) -> set[str]:
        """How they worked, the top and the staff left aside."""
        return {row["strategy"] for row in self.rows()[1:] if row["strategy"] != "synthesis" and row["role"] != "planner"}

    def calls(self, agent: str) -> list[dict[str, Any]]:
        """The tool calls of an agent, in order."""
        return self.service.sql(
            "select tool_calls.* from tool_calls join executions on executions.id = execution_id"
            " where root_execution_id = ? and agent = ? order by tool_calls.rowid",
            *(self.execution, agent),
        )

    def prompt(self, agent: str) -> str:
        """The first message an agent was given."""
        rows = self.service.sql(
            "select content from messages join executions on executions.id = execution_id"
            " where root_execution_id = ? and agent = ? order by messages.rowid limit 1",
            *(self.execution, agent),
        )
        (block,) = json.loads(rows[0]["content"])
        return str(block["text"])

    def plans(self) -> list[dict[str, Any]]:
        """The versions of its plan."""
        query = "select plans.* from plans join executions on executions.id = execution_id where root_execution_id = ?"
        return self.service.sql(f"{query} order by version", self.execution)


@asynccontextmanager
async def play(example: str, folder: Path, **variables: str) -> AsyncIterator[Play]:
    """A service on an example, with a database and a desk of its own, and what its variables name."""
    blueprint = Blueprint(settings_of(example, folder / "desk", **variables), folder / "outrider.db", environ={})
    async with open_service(blueprint) as dispatcher:
        yield Play(Bench(dispatcher, ScriptedModel({}), blueprint.database))
