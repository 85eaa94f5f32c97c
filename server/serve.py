"""Serving: an MCP face before its service, from the first message to the last client.

Owns the order: the face answers at once, the service opens behind it. After the last client or a signal, running executions
are finished, cancelled or left as the configuration says. Must not know: which transport it is. Invariant: the process ends
within the grace after a signal or the last client, and within two seconds after a second signal.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.lowlevel import Server

from db.errors import StoreError
from db.latch import Latch
from db.store.outage import Trouble
from server.mcp_face.server import Service, mcp_server
from server.mcp_face.updates import Updates
from server.shutdown import come_to_rest, leave_after

if TYPE_CHECKING:
    from runner.service.dispatcher import Dispatcher
    from server.app import Blueprint

log = logging.getLogger("outrider.serving")

FINISH_SECONDS = 600.0
"""How long `on_disconnect: finish` lets executions come to their end."""

ADOPTION_SECONDS = 1.0
"""Between looks for processes that are gone."""
QUICK_SECONDS = 1.5
"""How long closing may take after a second signal."""
LEFT = 130
"""The exit code of a process that did not close in time."""

GONE, STOPPED = "its client went away", "the server stopped"

Transport = Callable[[Server[Any]], Awaitable[None]]
"""Carries messages until its clients are gone."""


@dataclass
class Serving:
    """One process that serves."""

    blueprint: Callable[[], Blueprint]
    """Reads the configuration; it is called beside the first answers, in a thread."""
    service: Service = field(default_factory=Service)
    updates: Updates = field(default_factory=Updates)

    stopping: Latch = field(default_factory=Latch)

    async def run(self, transport: Transport) -> None:
        """Serve until the transport ends or a signal comes; then close in order."""
        server = mcp_server(self.service, self.updates)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with anyio.create_task_group() as group:
                group.start_soon(self._open, name="open the service")
                carrying = anyio.CancelScope()
                group.start_soon(self._mind, signals, carrying, group, name="mind signals")
                with carrying:
                    await transport(server)
                    await self._part()
                group.cancel_scope.cancel("the clients are gone")

    async def _open(self) -> None:
        # In a thread: the database layer takes half a second to import, and the first answers need none of it.
        app = await anyio.to_thread.run_sync(import_module, "server.app")
        blueprint = await anyio.to_thread.run_sync(self.blueprint)
        async with app.open_service(blueprint) as dispatcher, anyio.create_task_group() as group:
            await group.start(_adopt_in_time, dispatcher, name="adopt what others leave")
            self.service.open(dispatcher)
            await self.updates.run(dispatcher)
            group.cancel_scope.cancel("the clients are gone")

    async def left(self, session: str) -> None:
        """A client has ended its session."""
        dispatcher = await self.service.dispatcher()
        if dispatcher.services.settings.serve.on_disconnect == "cancel":
            for each in dispatcher.tree:
                if each.parent is None and each.origin.session == session:
                    await dispatcher.cancel(each.id, by="outrider", reason=GONE)

    async def trouble(self) -> Trouble | None:
        """Why no work can be done at the moment; None when all is well, or nothing is known yet."""
        if not self.service.is_open:
            return None
        return await (await self.service.dispatcher()).services.database.writer.check()

    async def _part(self) -> None:
        """What becomes of executions whose clients are gone: as after a signal, but to `finish` there is more time."""
        if self.stopping.is_set:
            await anyio.sleep_forever()  # a signal came first, and ends this
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
        """The first signal lets what is under way come to its end, the second ends whatever is still waited for.

        Where a client has gone before, that counts as the first: a host sends a signal when it will wait no longer, and
        kills soon after.
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
            await come_to_rest(dispatcher, dispatcher.services.settings.serve.on_disconnect, STOPPED, _leave)
        carrying.cancel("a signal")


async def _adopt_in_time(dispatcher: Dispatcher, *, task_status: TaskStatus[None]) -> None:
    """Whatever process has gone, or goes while this one serves: what it left open goes on here."""
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
