"""The backing of the HTTP face: what it asks of the process it serves in. Must not know: how that process does it."""

from __future__ import annotations

from typing import Protocol

from db.latch import Latch
from db.store.outage import Trouble


class Backing(Protocol):
    """Who stands behind the HTTP face."""

    @property
    def stopping(self) -> Latch:
        """Set when nothing new is to be taken any more."""
        ...

    async def left(self, session: str) -> None:
        """A client has ended its session."""
        ...

    async def trouble(self) -> Trouble | None:
        """Why no work can be done at the moment; None when all is well."""
        ...
