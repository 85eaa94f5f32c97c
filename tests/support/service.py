"""A real service for tests: real SQLite file, real runner; only the model's answers are scripted.

Owns: writing a configuration to a file, starting a service on it, queries of its rows.
Must not know: the subject of a test.
"""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from db.store.engine import sqlite_library
from registry import AgentSpec, ModelSpec, Settings, load
from runner.llm.protocol import Model
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from runner.snapshot import Snapshot
from runner.tools.protocol import ToolExecutor
from server.app import Blueprint, open_service
from tests.support.models import ScriptedModel


@dataclass(frozen=True)
class OneModel:
    """Chooses the same model for every agent."""

    model: Model

    def choose(self, spec: ModelSpec) -> Model:
        return self.model


def settings_of(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    """Load a configuration given as text."""
    file = folder / "config.yaml"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return load(file, environ or {})


@dataclass(frozen=True)
class Bench:
    """A service and its rows."""

    dispatcher: Dispatcher
    model: ScriptedModel
    database: Path

    async def run(self, name: str, task: str = "do it", **more: Any) -> Snapshot:
        """Start an agent or a chain, and wait for its end."""
        started = await self.dispatcher.start(Order(name, task, **more))
        with anyio.fail_after(20):
            return await self.dispatcher.wait(started.id)

    async def ended(self, execution: str) -> Snapshot:
        """Wait for the end of an execution."""
        with anyio.fail_after(20):
            return await self.dispatcher.wait(execution)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition, checked after every event, is true."""
        with anyio.fail_after(20):
            async with self.dispatcher.services.bus.watch() as news:
                while not condition():
                    await news.receive()

    def sql(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Query the database over a separate connection."""
        library = sqlite_library()  # as the service: two copies of SQLite in one process do not see each other's locks
        connection = library.connect(f"file:{self.database}?mode=ro", uri=True)
        connection.row_factory = library.Row
        try:
            return [dict(row) for row in connection.execute(query, parameters)]
        finally:
            connection.close()

    def statuses(self) -> dict[str, list[str]]:
        """The statuses of each agent's executions, in order of creation."""
        found: dict[str, list[str]] = {}
        for row in self.sql("select agent, status from executions order by created_at, position"):
            found.setdefault(row["agent"], []).append(row["status"])
        return found


@asynccontextmanager
async def bench(
    folder: Path,
    config: str,
    scripts: Mapping[str, Any],
    extra_tools: Sequence[Callable[[AgentSpec], ToolExecutor]] = (),
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Bench]:
    """A service with scripted models, on a fresh database."""
    model = ScriptedModel(scripts)
    blueprint = Blueprint(
        settings_of(folder, config, environ), folder / "outrider.db", models=OneModel(model), extra_tools=extra_tools
    )
    async with open_service(blueprint) as dispatcher:
        yield Bench(dispatcher, model, blueprint.database)
