"""The composition root: the only module that builds the parts of a service, starts them and stops them.

The database opens first and closes last, so that the last write of the last execution can still be committed. Owns that
order, and the thresholds of the garbage collector while a service is open: with Python's defaults a tree of 500 executions
spends a quarter of its time in collections that find no garbage.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from db.database import Database, open_database
from db.latch import Latch
from db.rows.executions import Place
from registry import AgentSpec, Settings, restore
from runner.core.execution import Execution
from runner.core.services import Services
from runner.core.shutdown import ShelteredGroup, Shutdown
from runner.functions.callables import Called, configured, registered
from runner.llm.models import FailureContext, Models
from runner.llm.throttle import ThrottledModels
from runner.record import facts
from runner.record.events import Bus
from runner.record.facts import Failed
from runner.record.recorder import Recorder
from runner.result import Code
from runner.service.dispatcher import Dispatcher, open_dispatcher
from runner.service.tool_drift import DriftWatch
from runner.tools.secrets import Mask, masked_logs
from runner.tools.upstream.notices import UpstreamListeners, UpstreamNotice
from runner.tools.upstream.pool import Upstreams
from server.blueprint import Blueprint
from server.telemetry import observers_of

if TYPE_CHECKING:
    from runner.telemetry.observer import Observers

__all__ = ["Blueprint", "open_service", "patient_collector"]

YOUNG = 10_000
"""Allocations between two collections of the youngest generation. An agent's turn makes a few hundred short-lived ones."""


@asynccontextmanager
async def open_service(blueprint: Blueprint) -> AsyncIterator[Dispatcher]:
    """Open a service. On exit its executions stop first, then its upstreams, then the database."""
    functions = configured(blueprint.settings) if blueprint.playback is None else {}
    observers = observers_of(blueprint)
    bus = Bus()
    recorder = Recorder(bus)
    async with AsyncExitStack() as stack:
        if observers is not None:
            stack.push_async_callback(_close_observers, observers)
        stack.enter_context(patient_collector())
        database = await stack.enter_async_context(open_database(blueprint.database, recorder.publish))
        recorder.attach(database.writer)
        assembly = _Assembly(blueprint, database, recorder, bus, observers)
        stack.enter_context(masked_logs(assembly.upstreams.mask))
        stack.push_async_callback(assembly.close)
        await stack.enter_async_context(assembly.upstreams)
        background = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(background.cancel_scope.cancel, "the service stopped")
        services = assembly.services(functions)
        background.start_soon(assembly.prepare, name="prepare models")
        background.start_soon(assembly.upstreams.prepare, name="prepare upstreams")
        dispatcher = await stack.enter_async_context(open_dispatcher(services))
        assembly.notices.dispatcher = dispatcher
        yield dispatcher


class _Assembly:
    """Builds the services of the current configuration, and those of the snapshots that resumed executions need."""

    def __init__(
        self, blueprint: Blueprint, database: Database, recorder: Recorder, bus: Bus, observers: Observers | None
    ) -> None:
        self._blueprint, self._database, self._recorder, self._bus = blueprint, database, recorder, bus
        self._observers = observers
        self.notices = _Notices(recorder)
        self._drift = DriftWatch(recorder, database.reads, self.notices.place)
        self.own_models: list[Models] = []
        self._draining = Shutdown()
        self._prepared = Latch()
        today = blueprint.settings
        most = today.defaults.max_concurrent_model_calls
        self._model_calls = anyio.CapacityLimiter(most) if most is not None else None
        timeout, listeners = _tool_timeout(today), self._listeners(today)
        self.upstreams = Upstreams(today.upstreams, default_timeout=timeout, listeners=listeners, shelter=ShelteredGroup)

    def services(self, functions: Mapping[str, Called]) -> Services:
        """The services of the current configuration, with the functions it names."""
        return self._of(self._blueprint.settings, self.upstreams, functions)

    async def prepare(self) -> None:
        """Prepare the models of the current configuration. A failure sets the latch too, so that no waiter hangs."""
        try:
            for own in tuple(self.own_models):
                await own.prepare()
        finally:
            self._prepared.set()

    async def close(self) -> None:
        """Close every connection to a model."""
        for own in self.own_models:
            await own.close()

    def _restored(self, snapshot: str) -> Services:
        blueprint, today = self._blueprint, self._blueprint.settings
        of_program = [today.agents[name] for name in blueprint.functions if name in today.agents]
        settings = restore(snapshot, blueprint.environ, of_program).denying(today)
        timeout, listeners = _tool_timeout(settings), self._listeners(settings)
        upstreams = self.upstreams.edition(settings.upstreams, default_timeout=timeout, listeners=listeners)
        return self._of(settings, upstreams, configured(settings))

    def _of(self, settings: Settings, upstreams: Upstreams, functions: Mapping[str, Called]) -> Services:
        blueprint, places = self._blueprint, self._model_calls
        models = blueprint.models or self._models(settings)
        if self._observers is not None:
            from runner.strategies.loop.model_calls import cost_of_reply
            from runner.telemetry.calls import ObservedModels

            models = ObservedModels(models, partial(cost_of_reply, settings), self._observers)
        return Services(
            settings=settings,
            database=self._database,
            recorder=self._recorder,
            bus=self._bus,
            shutdown=self._draining,
            prepared=self._prepared,
            models=ThrottledModels(models, places) if places is not None else models,
            upstreams=upstreams,
            extra_tools=blueprint.extra_tools,
            functions={**registered(blueprint.functions), **functions},
            environ=blueprint.environ,
            asks_environ=blueprint.models is None,
            observers=self._observers,
            restored=self._restored,
            playback=blueprint.playback,
        )

    def _models(self, settings: Settings) -> Models:
        blueprint = self._blueprint
        failures = FailureContext(self._mask(settings).text, lambda name: settings.defined_at("models", name, "model"))
        made = Models(
            settings.models, blueprint.environ, rehearse=settings.rehearse, pace=blueprint.pace, failures=failures
        )
        self.own_models.append(made)
        return made

    def _mask(self, settings: Settings) -> Mask:
        return Mask(settings.secrets(self._blueprint.environ))

    def _listeners(self, settings: Settings) -> UpstreamListeners:
        return UpstreamListeners(self.notices.notice, self._drift.observe, self._mask(settings))


async def _close_observers(observers: Observers) -> None:
    """In a thread, because sending the last spans takes time; the thread bounds it."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(observers.close)


def _tool_timeout(settings: Settings) -> float:
    return settings.limits_for(AgentSpec(name="")).tool_timeout


def _is_required(execution: Execution, server: str) -> bool:
    """Whether the execution requires the server; it then reports the outage itself."""
    agent = execution.request.agent
    return isinstance(agent, AgentSpec) and server in execution.services.settings.required_servers(agent)


class _Notices:
    """Records upstream notices with the execution that called the upstream."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.dispatcher: Dispatcher | None = None

    def place(self, scope_id: str) -> Place | None:
        execution = self._of(scope_id)
        return execution.place if execution is not None else None

    def notice(self, notice: UpstreamNotice) -> None:
        execution = self._of(notice.scope_id or "")
        if execution is None:
            return
        payload = {"server": notice.server, "message": notice.message}
        self._recorder.record_nowait(facts.Noticed(execution.place, f"upstream.{notice.kind}", payload))
        if notice.kind == "unavailable" and not _is_required(execution, notice.server):
            # The execution continues without those tools, so its result carries a warning.
            missing = f"upstream `{notice.server}` {notice.message}"
            where = {"session_id": execution.origin.session, "subagent": execution.name, "code": Code.TOOL_UNAVAILABLE}
            self._recorder.record_nowait(
                Failed(execution.place, execution.name, "tool_unavailable", missing, "medium", where)
            )
            execution.state.warnings.append(missing)

    def _of(self, scope_id: str) -> Execution | None:
        return self.dispatcher.tree.get(scope_id) if self.dispatcher is not None else None


MIDDLE, OLD = 2, 50
"""Collections of a generation before one of the next older. Small values promote survivors early and in small batches, so
no collection takes long; with 10, one of the middle generation stopped 200 agents for 35 ms."""


@contextmanager
def patient_collector() -> Iterator[None]:
    """Collect garbage less often, and never the objects that already exist. The thresholds are restored on exit."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(max(before[0], YOUNG) if before[0] else 0, MIDDLE, OLD)  # 0 means that the collector is disabled
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
