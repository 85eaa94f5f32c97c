"""The composition root: the only place where the parts are put together, and the order in which they start and stop.

The database opens first and closes last, so that the last write of the last execution still has somewhere to go.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from db.database import open_database
from db.writes import Place
from registry import AgentSpec, Settings, held_secrets
from runner import facts
from runner.bus import Bus
from runner.dispatcher import Dispatcher, open_dispatcher
from runner.drift import DriftWatch
from runner.llm.models import Models
from runner.masking import Mask
from runner.recorder import Recorder
from runner.services import AgentFunction, ChoosesModels, Services
from runner.throttle import ThrottledModels
from runner.tools.ears import Ears, UpstreamNotice
from runner.tools.protocol import ToolExecutor
from runner.tools.upstreams import Upstreams
from server.collector import patient_collector


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What a service is built from."""

    settings: Settings
    database: Path
    rehearse: bool = False
    """Keep every model to its rehearsal, key or no key."""
    pace: float = 0.0
    """Seconds a rehearsed reply takes, so that people can watch."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    models: ChoosesModels | None = None
    """Instead of the models of the configuration."""
    extra_tools: Sequence[Callable[[AgentSpec], ToolExecutor]] = ()
    """Tools of a program that embeds Outrider."""
    functions: Mapping[str, AgentFunction] = field(default_factory=dict)
    """Agents of that program that are no models, by name; the settings must have been loaded with them as `registered`."""


@asynccontextmanager
async def open_service(blueprint: Blueprint) -> AsyncIterator[Dispatcher]:
    """A running service. Leaving it stops its executions, then its upstreams, then the database."""
    bus = Bus()
    recorder = Recorder(bus)
    async with AsyncExitStack() as stack:
        stack.enter_context(patient_collector())
        database = await stack.enter_async_context(open_database(blueprint.database, recorder.publish))
        recorder.attach(database.writer)
        settings = blueprint.settings
        own = Models(settings.models, blueprint.environ, rehearse=blueprint.rehearse, pace=blueprint.pace)
        stack.push_async_callback(own.close)
        notices = _Notices(recorder)
        timeout = settings.limits_for(AgentSpec(name="")).tool_timeout
        drift = DriftWatch(recorder, database.reads, notices.place)
        mask = Mask(held_secrets(settings.upstreams.values(), blueprint.environ, settings.secret_variables()))
        ears = Ears(notices.notice, drift.observe, mask)
        upstreams = Upstreams(settings.upstreams, default_timeout=timeout, ears=ears)
        await stack.enter_async_context(upstreams)
        background = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(background.cancel_scope.cancel, "the service stopped")
        if blueprint.models is None:
            background.start_soon(own.prepare, name="prepare models")
        background.start_soon(upstreams.prepare, name="prepare upstreams")
        models = blueprint.models or own
        if settings.defaults.max_concurrent_model_calls is not None:
            models = ThrottledModels(models, settings.defaults.max_concurrent_model_calls)
        services = Services(
            settings, database, recorder, bus, models, upstreams, blueprint.extra_tools, blueprint.functions
        )
        dispatcher = await stack.enter_async_context(open_dispatcher(services))
        notices.dispatcher = dispatcher
        yield dispatcher


class _Notices:
    """Tells the execution that asked what its upstream had to say."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.dispatcher: Dispatcher | None = None

    def place(self, scope_id: str) -> Place | None:
        execution = self.dispatcher.tree.get(scope_id) if self.dispatcher is not None else None
        return execution.place if execution is not None else None

    def notice(self, notice: UpstreamNotice) -> None:
        place = self.place(notice.scope_id or "")
        if place is not None:
            payload = {"server": notice.server, "message": notice.message}
            self._recorder.post(facts.Noticed(place, f"upstream.{notice.kind}", payload))
