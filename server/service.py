"""The service behind the MCP face, while it opens: each part is handed out as soon as it is there.

Owns the three stages: the settings, then the server of the SDK, then the dispatcher. Must not know: how they are loaded. It
imports neither the SDK nor the database layer, because a transport waits here before either is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from registry import Settings
    from runner.service.dispatcher import Dispatcher


class Service:
    """Hands out the parts of a service, each to those that wait for it."""

    def __init__(self) -> None:
        self._loaded, self._served, self._opened = anyio.Event(), anyio.Event(), anyio.Event()
        self._settings: Settings | None = None
        self._server: Server[Any] | None = None
        self._dispatcher: Dispatcher | None = None

    def load(self, settings: Settings) -> None:
        """Publish the settings: the tools can be listed."""
        self._settings = settings
        self._loaded.set()

    def serve(self, server: Server[Any]) -> None:
        """Publish the MCP server: every message can be taken."""
        self._server = server
        self._served.set()

    def open(self, dispatcher: Dispatcher) -> None:
        """Publish the dispatcher: executions can be started and shown."""
        if self._settings is None:
            self.load(dispatcher.services.settings)
        self._dispatcher = dispatcher
        self._opened.set()

    @property
    def is_open(self) -> bool:
        return self._dispatcher is not None

    @property
    def loaded(self) -> Settings | None:
        """The settings, if they are loaded."""
        return self._settings

    async def settings(self) -> Settings:
        """Wait until the configuration is loaded."""
        await self._loaded.wait()
        assert self._settings is not None
        return self._settings

    async def server(self) -> Server[Any]:
        """Wait until the SDK is imported."""
        await self._served.wait()
        assert self._server is not None
        return self._server

    async def dispatcher(self) -> Dispatcher:
        """Wait until the service has opened."""
        await self._opened.wait()
        assert self._dispatcher is not None
        return self._dispatcher
