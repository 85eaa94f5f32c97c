"""A real service for measurements from within its process: its configuration, its database, its fake model.

Owns the start of a service, and percentiles of what is measured on it. Must not know: what is measured. Invariant: a
service is the one that `serve` runs, with its own SQLite file; its model is another process.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.contest import MODEL, WORKER_PROMPT
from bench.contestant import ENVIRONMENT, Lookup
from registry import Settings, load
from runner.llm.models import Models
from runner.service.dispatcher import Dispatcher
from server.app import Blueprint, open_service


@dataclass(frozen=True, slots=True)
class Series:
    """The seconds of one thing, measured many times."""

    name: str
    seconds: Sequence[float]

    @property
    def row(self) -> str:
        """A row of a table: n, median, 99th percentile, least and greatest, in milliseconds."""
        figures = [statistics.median(self.seconds), percentile(self.seconds, 99), min(self.seconds), max(self.seconds)]
        return f"| {self.name} | {len(self.seconds)} | " + " | ".join(f"{each * 1e3:.2f}" for each in figures) + " |"


def percentile(figures: Sequence[float], percent: int) -> float:
    """A percentile of at least two figures."""
    return statistics.quantiles(figures, n=100, method="inclusive")[percent - 1]


def series_table(heading: str, measured: Sequence[Series]) -> str:
    """Several series as a Markdown table."""
    head = f"| {heading} | n | p50 ms | p99 ms | min ms | max ms |\n|---|---|---|---|---|---|"
    return "\n".join([head, *(each.row for each in measured)])


def configuration(url: str, agents: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The configuration of these agents with the fake model at `url`."""
    return {"models": {"fake": {"model": MODEL, "base_url": url, "max_tokens": 1024}}, "agents": agents, **more}


def worker(**more: Any) -> dict[str, Any]:
    """An agent that looks keys up."""
    return {"description": "Looks up keys", "custom_instructions": WORKER_PROMPT, **more}


def loaded(config: Mapping[str, Any], folder: Path) -> Settings:
    """The settings of a configuration, from a file in the folder."""
    return load(written(config, folder))


def written(config: Mapping[str, Any], folder: Path) -> Path:
    """The file of a configuration."""
    file = folder / "config.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return file


@asynccontextmanager
async def service(config: Mapping[str, Any], tools: Any = Lookup) -> AsyncIterator[Dispatcher]:
    """A service of its own, connected to its model and its servers."""
    with TemporaryDirectory(prefix="bench-") as folder:
        settings = loaded(config, Path(folder))
        models = Models(settings.models, ENVIRONMENT)
        extra = [tools] if tools is not None else []
        try:
            blueprint = Blueprint(settings, Path(folder, "bench.db"), models=models, extra_tools=extra)
            async with open_service(blueprint) as dispatcher:
                await models.prepare()
                await dispatcher.services.upstreams.prepare()
                yield dispatcher
        finally:
            await models.close()
