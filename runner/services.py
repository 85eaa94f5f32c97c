"""The bundle every execution is given: one of each, wired in one place, no globals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from db.database import Database
from registry import AgentSpec, ModelSpec, Settings
from runner.bus import Bus
from runner.llm.protocol import Model
from runner.recorder import Recorder
from runner.tools.protocol import ToolExecutor
from runner.tools.upstreams import Upstreams


class ChoosesModels(Protocol):
    """Says who answers for a model: `runner.llm.models.Models`, or a scripted one in tests."""

    def choose(self, spec: ModelSpec) -> Model:
        """The model to ask; raises NoModel."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What executions share."""

    settings: Settings
    database: Database
    recorder: Recorder
    bus: Bus
    models: ChoosesModels
    upstreams: Upstreams
    extra_tools: Sequence[Callable[[AgentSpec], ToolExecutor]] = ()
    """Tools of a program that embeds Outrider: one executor for each execution."""
