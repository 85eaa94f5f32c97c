"""Outrider as a contestant: an embedded service with persistence and every other feature on.

Owns: the configuration of the work, its start and its cancellation. Must not know: Outrider's internals; it uses the
service, its dispatcher and the seam for tools. Invariant: the measured service is the one that `serve` runs.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from bench import lookup
from bench.contest import CANCELLED, MODEL, SUPERVISOR_PROMPT, WORKER_PROMPT, Entrant, Options
from bench.measure import main
from registry import AgentSpec, load
from runner.llm.models import Models
from runner.messages import Tool, ToolCall
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from runner.tools.protocol import ToolResult
from server.app import Blueprint, open_service

ROOT = Path(__file__).resolve().parents[1]
DELEGATE = 'tool=dispatch_agent arg=task extra={"name": "worker"}'
"""The part of the directive that names Outrider's dispatch tool."""
ENVIRONMENT = {"ANTHROPIC_API_KEY": "fake"}


class Lookup:
    """A `ToolExecutor` with the upstream tool in this process; the supervisor has none."""

    def __init__(self, agent: AgentSpec) -> None:
        label = "bench.lookup"
        tool = Tool("lookup", lookup.DESCRIPTION, lookup.SCHEMA, label=label, server="bench", effect="read_only")
        self._tools = [tool] if agent.name == "worker" else []

    async def list_tools(self) -> Sequence[Tool]:
        """The one tool, if any."""
        return self._tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Return the value of the key."""
        return ToolResult(lookup.value_of(call.arguments["key"]))

    async def close(self) -> None:
        """Nothing is open."""


def configuration(options: Options) -> dict[str, Any]:
    """A supervisor that may dispatch all workers of the run at once."""
    limits = {"max_concurrent_agents": options.fanout, "max_dispatches": options.fanout}
    worker: dict[str, Any] = {"description": "Looks up keys", "custom_instructions": WORKER_PROMPT}
    worker["max_iterations"] = options.turns + 1
    config: dict[str, Any] = {
        "models": {"fake": {"model": MODEL, "base_url": options.base_url, "max_tokens": 1024}},
        "agents": {
            "supervisor": {"custom_instructions": SUPERVISOR_PROMPT, "sub_agents": ["worker"], "limits": limits},
            "worker": worker,
        },
    }
    if options.tool == "mcp":
        command = list(lookup.SERVER_COMMAND)
        config["mcp_servers"] = {"upstream": {"command": command, "cwd": str(ROOT), "effects": {"lookup": "read_only"}}}
        worker["mcp_servers"] = ["upstream"]
    return config


@dataclass
class Supervision:
    """The one top-level execution of a run."""

    dispatcher: Dispatcher
    task: str
    execution: str = ""
    started: anyio.Event = field(default_factory=anyio.Event)

    async def run(self) -> str:
        """Start it, wait for it, and return its answer."""
        child = await self.dispatcher.start(Order("supervisor", self.task))
        self.execution = child.id
        self.started.set()
        ended = await self.dispatcher.wait(child.id)
        if ended.status == "cancelled":
            return CANCELLED
        answer = ended.result.text if ended.result is not None else ""
        return answer if ended.status == "completed" else f"FAILED {ended.status}: {ended.error or answer}"

    async def cancel(self) -> None:
        """Cancel it as a client does."""
        await self.started.wait()
        await self.dispatcher.cancel(self.execution, "bench", "the benchmark cancels")


@asynccontextmanager
async def contest(options: Options) -> AsyncIterator[Entrant]:
    """A service with its own configuration file and its own database."""
    file = anyio.Path(options.database.with_name("config.yaml"))
    await file.write_text(json.dumps(configuration(options)), encoding="utf-8")  # JSON is YAML
    settings = load(Path(file))
    tools = [Lookup] if options.tool == "inproc" else []
    # Builds the models before the clock starts, because the floors have their client by then, too.
    models = Models(settings.models, ENVIRONMENT)
    try:
        async with open_service(Blueprint(settings, options.database, models=models, extra_tools=tools)) as dispatcher:
            supervision = Supervision(dispatcher, f"{options.directive} {DELEGATE}")

            async def warm() -> None:
                await models.prepare()
                await dispatcher.services.upstreams.prepare()

            yield Entrant(supervision.run, supervision.cancel, warm)
    finally:
        await models.close()


if __name__ == "__main__":
    main(contest)
