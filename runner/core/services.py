"""Services: shared by all executions of one configuration, wired in one place, no globals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from db.database import Database
from db.latch import Latch
from registry import COMPOSITE, AgentSpec, ChainSpec, ModelSpec, Settings
from runner.core.shutdown import Shutdown
from runner.llm.protocol import Model, ModelChooser
from runner.record.events import Bus
from runner.record.recorder import Recorder
from runner.tools.protocol import ToolExecutor
from runner.tools.upstream.pool import Upstreams

if TYPE_CHECKING:
    from runner.telemetry.observer import Observers  # most services have none


class PlaybackSeam(Protocol):
    """Runs a recorded tree again: `runner.replay.playback.Playback`."""

    def identify(self, parent: str | None, request: Any) -> str:
        """The recorded id of an execution that is being spawned."""
        ...

    def arranged(self, execution: Any, context: Any) -> Any:
        """Its strategy context over the recording, and its strategy where that is another one."""
        ...


FunctionCall = Callable[[Any], Awaitable[Any]]
"""An agent that is a Python function, called with `runner.functions.callables.Call`."""


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one configuration."""

    settings: Settings
    database: Database
    recorder: Recorder
    bus: Bus
    shutdown: Shutdown
    prepared: Latch
    """Set once models can be called without delay."""
    models: ModelChooser
    upstreams: Upstreams
    extra_tools: Sequence[Callable[[AgentSpec], ToolExecutor]] = ()
    """Tools of an embedding program: one executor per execution."""
    functions: Mapping[str, FunctionCall] = field(default_factory=dict)
    """Agents with the strategy `function`, by name."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment variables of this process."""
    asks_environ: bool = True
    """Whether models need keys from the environment; False for a program with its own models."""
    observers: Observers | None = None
    """Told what executions, models and tools do; None without telemetry and metrics."""
    restored: Callable[[str], Services] | None = None
    """Builds the services of an earlier configuration from its stored text; raises ConfigError."""
    playback: PlaybackSeam | None = None
    """Set where a recorded tree is run again."""

    def model_spec(self, subject: AgentSpec | ChainSpec) -> ModelSpec | None:
        """The model of an agent or chain; None if it makes no model calls itself."""
        if isinstance(subject, ChainSpec) or subject.strategy in ("function", *COMPOSITE):
            return None
        return self.settings.model_of(subject)

    def model_for(self, subject: AgentSpec | ChainSpec) -> Model | None:
        """The model client of an agent or chain, if it needs one; raises NoModel."""
        spec = self.model_spec(subject)
        return self.models.choose(spec) if spec is not None else None
