"""Serving: an MCP face before its service, from the first message to the last client.

Owns the order: the face answers at once, the service opens behind it, and when the clients are gone or somebody wants the
process to end, what still runs is treated as the configuration says. Must not know: which transport it is.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp.server.lowlevel import Server

from db.errors import StoreError
from server.mcp_face.server import mcp_server
from server.mcp_face.service import Service
from server.mcp_face.updates import Updates

log = logging.getLogger("outrider.serving")

if TYPE_CHECKING:
    from runner.dispatcher import Dispatcher
    from runner.execution import Execution
    from server.app import Blueprint

FINISH_SECONDS = 600.0
"""How long `on_disconnect: finish` lets executions come to their end."""

ADOPTION_SECONDS = 1.0
"""Between looks for processes that are gone."""

Transport = Callable[[Server[Any]], Awaitable[None]]
"""Carries messages until its clients are gone."""


@dataclass
class Serving:
    """One process that serves."""

    blueprint: Callable[[], Blueprint]
    """Reads the configuration; it is called beside the first answers, in a thread."""
    service: Service = field(default_factory=Service)
    updates: Updates = field(default_factory=Updates)

    async def run(self, transport: Transport) -> None:
        """Serve until the transport ends or a signal comes; then close in order."""
        server = mcp_server(self.service, self.updates)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with anyio.create_task_group() as group:
                group.start_soon(self._open, name="open the service")
                carrying = anyio.CancelScope()
                group.start_soon(_mind, signals, carrying, group.cancel_scope, name="mind signals")
                with carrying:
                    await transport(server)
                await self._part()
                group.cancel_scope.cancel("the clients are gone")

    async def _open(self) -> None:
        # In a thread: the database layer takes half a second to import, and the first answers need none of it.
        app = await anyio.to_thread.run_sync(import_module, "server.app")
        blueprint = await anyio.to_thread.run_sync(self.blueprint)
        async with app.open_service(blueprint) as dispatcher:
            await dispatcher.adopt()
            self.service.open(dispatcher)
            async with anyio.create_task_group() as group:
                group.start_soon(_adopt_in_time, dispatcher, name="adopt what others leave")
                await self.updates.run(dispatcher)
                group.cancel_scope.cancel("the clients are gone")

    async def left(self, session: str) -> None:
        """A client has ended its session."""
        dispatcher = await self.service.dispatcher()
        if dispatcher.services.settings.serve.on_disconnect == "cancel":
            theirs = [each for each in dispatcher.tree if each.parent is None and each.origin.session == session]
            await _cancel(dispatcher, theirs)

    async def _part(self) -> None:
        """What becomes of executions whose clients are gone. `keep` leaves them to whoever serves next."""
        if not self.service.is_open:
            return
        dispatcher = await self.service.dispatcher()
        wish = dispatcher.services.settings.serve.on_disconnect
        if wish == "keep":
            return
        if wish == "cancel":
            await _cancel(dispatcher, [each for each in dispatcher.tree if each.parent is None])
        with anyio.move_on_after(FINISH_SECONDS):
            for execution in dispatcher.tree:
                await execution.done.wait()


async def _adopt_in_time(dispatcher: Dispatcher) -> None:
    """Whatever process goes while this one serves: what it left open goes on here."""
    while True:
        await anyio.sleep(ADOPTION_SECONDS)
        try:
            await dispatcher.adopt()
        except StoreError:
            log.exception("nothing could be adopted")


async def _cancel(dispatcher: Dispatcher, executions: Iterable[Execution]) -> None:
    for execution in executions:
        await dispatcher.cancel(execution.id, by="outrider", reason="its client went away")


async def _mind(signals: AsyncIterator[signal.Signals], *scopes: anyio.CancelScope) -> None:
    """The first signal ends the transport, the second whatever is still waited for."""
    for scope in scopes:
        await anext(signals)
        scope.cancel("a signal")
