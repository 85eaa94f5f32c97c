"""Serves MCP clients: runs the MCP server and its service until the last client disconnects or a signal arrives.

Owns the order: the server answers at once, while the service opens. After a disconnect or a signal, running executions are
kept for the next process, finished or cancelled, as `on_disconnect` says. Must not know: the transport. Invariant: the
process ends within the grace period, and within two seconds after a second signal. Only `finish` after a disconnect gets
longer: up to `FINISH_SECONDS`.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from db.errors import StoreError
from db.latch import Latch
from server.identity import LOCAL
from server.mcp_face.updates import Updates
from server.service import Service
from server.shutdown import come_to_rest, leave_after

if TYPE_CHECKING:
    from db.store.outage import Trouble
    from runner.service.dispatcher import Dispatcher
    from server.blueprint import Blueprint

log = logging.getLogger("outrider.serving")

FINISH_SECONDS = 600.0
"""Time for executions to end under `on_disconnect: finish` after the last client disconnected."""

ADOPTION_SECONDS = 1.0
"""Interval of the search for trees of dead processes."""
QUICK_SECONDS = 1.5
"""Time to close after a second signal."""
LEFT = 130
"""The exit code of a process that did not close in time."""

PARTING = {
    "keep": "running calls are finished first; `outrider resume` resumes the rest",
    "finish": "executions are finished first; `outrider resume` resumes the rest",
    "cancel": "executions are cancelled",
}
"""What a signal means for what runs, by `on_disconnect`."""

GONE, STOPPED = "its client went away", "the server stopped"

Transport = Callable[[Service], Awaitable[None]]
"""Carries messages until its clients have disconnected."""


@dataclass
class Serving:
    """A serving process."""

    blueprint: Callable[[], Blueprint]
    """Reads the configuration. It is called in a thread, while the first requests are answered."""
    service: Service = field(default_factory=Service)
    updates: Updates = field(default_factory=Updates)
    counts: bool = False
    """Whether there are metrics."""
    adopts: bool = True
    """Whether it resumes the open trees of dead processes by itself."""

    tells: Callable[[str], object] = lambda _: None
    """Tells the person at the terminal."""

    stopping: Latch = field(default_factory=Latch)

    async def run(self, transport: Transport) -> None:
        """Serve until the transport ends or a signal arrives, then shut down in order."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with anyio.create_task_group() as group:
                group.start_soon(self._open, name="open the service")
                carrying = anyio.CancelScope()
                group.start_soon(self._mind, signals, carrying, group, name="mind signals")
                with carrying:
                    await transport(self.service)
                    await self._part()
                group.cancel_scope.cancel("the clients are gone")

    async def _open(self) -> None:
        # In a thread, and in the order in which clients ask: the settings for the list of tools, the SDK for everything
        # else, the database layer for executions. Each takes some hundred milliseconds to import.
        blueprint = await anyio.to_thread.run_sync(self._settled)
        self.service.load(blueprint.settings)
        face = await anyio.to_thread.run_sync(import_module, "server.mcp_face.server")
        blueprint = await anyio.to_thread.run_sync(self._observed, blueprint)
        self.service.serve(face.mcp_server(self.service, self.updates, blueprint.observers))
        app = await anyio.to_thread.run_sync(import_module, "server.app")
        async with app.open_service(blueprint) as dispatcher, anyio.create_task_group() as group:
            if self.adopts:
                await group.start(_adopt_in_time, dispatcher, name="adopt what others leave")
            self.service.open(dispatcher)
            await self.updates.run(dispatcher)
            group.cancel_scope.cancel("the clients are gone")

    def _observed(self, blueprint: Blueprint) -> Blueprint:
        from server.telemetry import observers_of

        if not self.counts:
            return replace(blueprint, observers=observers_of(blueprint))
        from server.metrics import Metrics

        return replace(blueprint, observers=observers_of(blueprint, [Metrics()]))

    def _settled(self) -> Blueprint:
        """The configuration, with the list of tools made once: its parts are cached."""
        from server.mcp_face.tools import listed

        blueprint = self.blueprint()
        listed(blueprint.settings, LOCAL)
        return blueprint

    async def left(self, session: str) -> None:
        """Apply `on_disconnect: cancel` to the executions of a session that its client has ended."""
        dispatcher = await self.service.dispatcher()
        if dispatcher.services.settings.serve.on_disconnect == "cancel":
            for each in dispatcher.tree:
                if each.parent is None and each.origin.session == session:
                    await dispatcher.cancel(each.id, by="outrider", reason=GONE)

    async def trouble(self) -> Trouble | None:
        """Why the database cannot be written; None if it can, or if the service has not opened yet."""
        if not self.service.is_open:
            return None
        return await (await self.service.dispatcher()).services.database.writer.check()

    async def metrics(self) -> bytes:
        """The metrics of this process, as Prometheus reads them."""
        from server.metrics import exposition

        return await exposition(await self.service.dispatcher())

    async def _part(self) -> None:
        """Apply `on_disconnect` after the last client, as after a signal, but with more time for `finish`."""
        if self.stopping.is_set:
            await anyio.sleep_forever()  # a signal came first; its handler cancels this
        if not self.service.is_open:
            return
        dispatcher = await self.service.dispatcher()
        wish = dispatcher.services.settings.serve.on_disconnect
        if wish == "finish":
            await dispatcher.drain(FINISH_SECONDS, wish, GONE)
        else:
            self.stopping.set()
            await come_to_rest(dispatcher, wish, GONE, _leave)

    async def _mind(self, signals: AsyncIterator[signal.Signals], carrying: anyio.CancelScope, group: TaskGroup) -> None:
        """Drain on the first signal, cancel everything on the second.

        A disconnect counts as the first signal: after it, a host sends a signal only when it stops waiting, and kills the
        process soon after.
        """
        await anext(signals)
        if not self.stopping.is_set:
            self.stopping.set()
            group.start_soon(self._stop, carrying, name="come to rest")
            await anext(signals)
        leave_after(QUICK_SECONDS, _leave)
        group.cancel_scope.cancel("a second signal")

    async def _stop(self, carrying: anyio.CancelScope) -> None:
        if self.service.is_open:
            dispatcher = await self.service.dispatcher()
            settings = dispatcher.services.settings.serve
            if list(dispatcher.tree):
                self.tells(f"stopping within {settings.shutdown_grace:g} s: {PARTING[settings.on_disconnect]}")
            await come_to_rest(dispatcher, settings.on_disconnect, STOPPED, _leave)
        carrying.cancel("a signal")


async def _adopt_in_time(dispatcher: Dispatcher, *, task_status: TaskStatus[None]) -> None:
    """Adopt the open trees of dead processes, at the start and whenever another process dies."""
    await dispatcher.adopt(task_status=task_status)
    while True:
        await anyio.sleep(ADOPTION_SECONDS)
        try:
            await dispatcher.adopt()
        except StoreError:
            log.exception("adopting interrupted trees failed")


def _leave() -> None:
    log.error("shutdown timed out; exiting")
    os._exit(LEFT)
