"""The service behind the face, which opens while the first answers are already being given.

A host starts Outrider and waits for it: `initialize` is answered before the configuration and the database are loaded, and
only what needs them waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from runner.service.dispatcher import Dispatcher


class Service:
    """The dispatcher, as soon as there is one."""

    def __init__(self) -> None:
        self._opened = anyio.Event()
        self._dispatcher: Dispatcher | None = None

    def open(self, dispatcher: Dispatcher) -> None:
        """It is ready: those who wait go on."""
        self._dispatcher = dispatcher
        self._opened.set()

    @property
    def is_open(self) -> bool:
        """Whether anything can run."""
        return self._dispatcher is not None

    async def dispatcher(self) -> Dispatcher:
        """The dispatcher, once it is there."""
        await self._opened.wait()
        assert self._dispatcher is not None
        return self._dispatcher
