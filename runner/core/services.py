"""Services: what all executions of one configuration share, wired in one place, no globals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from db.database import Database
from db.latch import Latch
from registry import CALLERS, AgentSpec, ChainSpec, ModelSpec, Settings
from runner.core.shutdown import Draining
from runner.llm.protocol import ChoosesModels, Model
from runner.record.events import Bus
from runner.record.recorder import Recorder
from runner.tools.protocol import ToolExecutor
from runner.tools.upstream.pool import Upstreams

FunctionCall = Callable[[Any], Awaitable[Any]]
"""An agent that is a Python function, called with `runner.functions.callables.Call`."""


@dataclass(frozen=True, slots=True)
class Services:
    """What executions share."""

    settings: Settings
    database: Database
    recorder: Recorder
    bus: Bus
    draining: Draining
    prepared: Latch
    """Set once a model can be asked without delay."""
    models: ChoosesModels
    upstreams: Upstreams
    extra_tools: Sequence[Callable[[AgentSpec], ToolExecutor]] = ()
    """Tools of a program that embeds Outrider: one executor for each execution."""
    functions: Mapping[str, FunctionCall] = field(default_factory=dict)
    """Agents that are no models, by name."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The variables this process was given."""
    asks_environ: bool = True
    """Whether models need keys of the environment; False where a program brought its own models."""
    restored: Callable[[str], Services] | None = None
    """Makes the services of a configuration that executions ran with before, from its stored text; raises ConfigError."""

    def model_spec(self, subject: AgentSpec | ChainSpec) -> ModelSpec | None:
        """The model a subject is asked through; None for those that ask none themselves."""
        if isinstance(subject, ChainSpec) or subject.strategy in ("function", *CALLERS):
            return None
        return self.settings.model_of(subject)

    def model_for(self, subject: AgentSpec | ChainSpec) -> Model | None:
        """Who answers for a subject, if it needs anybody; raises NoModel."""
        spec = self.model_spec(subject)
        return self.models.choose(spec) if spec is not None else None
