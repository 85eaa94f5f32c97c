"""The blueprint of a service: everything that its opening needs to know.

It stands apart from `server/app.py`, which imports all parts of a service: a process has its settings before that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from registry import AgentSpec, Settings
    from runner.core.services import PlaybackSeam
    from runner.functions.callables import AgentFunction
    from runner.llm.protocol import ModelChooser
    from runner.telemetry.observer import Observers
    from runner.tools.protocol import ToolExecutor


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The arguments of `server.app.open_service`."""

    settings: Settings
    database: Path
    pace: float = 0.0
    """Seconds that each rehearsed reply takes, so that a user can follow it."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    models: ModelChooser | None = None
    """Replaces the models of the configuration."""
    extra_tools: Sequence[Callable[[AgentSpec], ToolExecutor]] = ()
    """Tools of the program that embeds Outrider."""
    functions: Mapping[str, AgentFunction] = field(default_factory=dict)
    """Function agents of that program, by name. The settings must have been loaded with them as `registered`."""
    observers: Observers | None = None
    """Told what executions, models and tools do; None: the traces of the configuration, if it asks for any."""
    playback: PlaybackSeam | None = None
    """Runs a recorded tree again; then functions are not imported."""
