"""One HTTP connection, and what a caller may hold of this process by it: a place, memory, a file descriptor.

Owns the limits of connections, and the end of those that stand still. Must not know: requests, or who sends them.
Invariants: a connection whose caller sends no whole request, or takes no byte of an answer that has ended, is gone within
half a minute; the kernel holds a bounded number of bytes for one that does not read; callers never take the last file
descriptor.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import sys
from collections.abc import Collection
from typing import Any

import anyio
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

log = logging.getLogger("outrider.http")

MOST_CONNECTIONS = 4_096
REFUSED_AT_ONCE = 64
"""Connections beyond the most that are told so; those beyond them are closed without a word."""
KEPT_DESCRIPTORS = 256 + REFUSED_AT_ONCE
"""For the database, the upstream servers, and everything else but callers."""
UNREAD = 128 * 1024
"""The bytes that the kernel holds for a caller that does not read; it grants twice as much, and grew it to megabytes."""
AT_ONCE = struct.pack("ii", 1, 0) if sys.platform != "win32" else struct.pack("hh", 1, 0)
"""Of `SO_LINGER`: to close is to reset."""
STILL_SECONDS = 10.0
"""A connection that stands still is looked at twice, so long apart."""


def room() -> int:
    """The number of connections for which there are file descriptors; the process asks the system for enough of them."""
    if sys.platform == "win32":  # it has no such limit
        return MOST_CONNECTIONS
    import resource

    granted, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + KEPT_DESCRIPTORS
    unlimited = resource.RLIM_INFINITY
    if granted != unlimited and granted < wanted:
        asked = wanted if most == unlimited else min(wanted, most)
        with contextlib.suppress(ValueError, OSError):  # macOS grants less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (asked, most))
            granted = asked
    return MOST_CONNECTIONS if granted == unlimited else min(MOST_CONNECTIONS, max(16, granted - KEPT_DESCRIPTORS))


def limit_unread(listener: socket.socket) -> None:
    """Bound what the kernel holds for each connection of a listening socket."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD)


class BoundedProtocol(H11Protocol):
    """A connection that an application can close without waiting for its reader: `abort` in the state of a request."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: Any = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, "abort": self.abort}, _loop)

    def abort(self) -> None:
        """Close it; what its caller has not read is lost, and the kernel holds it no longer."""
        raw = self.transport.get_extra_info("socket")
        if raw is not None:
            with contextlib.suppress(OSError):  # it is closed already
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        """Begin, unless there are too many even to be told so."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency + REFUSED_AT_ONCE:
            self.abort()

    @property
    def standing(self) -> object:
        """What it waits for from its caller, equal as long as nothing moves; None while the server is at work for it."""
        unread = self.transport.get_write_buffer_size()
        request: RequestResponseCycle | None = self.cycle
        if self.transport.is_closing() or request is None or request.response_complete:
            return self.transport.is_closing(), request, unread
        return None

    def part(self) -> None:
        """Close it: in order, unless that has been tried."""
        if self.transport.is_closing():
            self.abort()
        else:
            self.transport.close()


async def end_still_ones(connections: Collection[Any]) -> None:
    """End connections that stand still, until cancelled."""
    before: dict[BoundedProtocol, object] = {}
    while True:
        await anyio.sleep(STILL_SECONDS)
        bounded = [each for each in connections if isinstance(each, BoundedProtocol)]
        now = {each: waits for each in bounded if (waits := each.standing) is not None}
        still = [each for each, waits in now.items() if before.get(each) == waits]
        for each in still:
            each.part()
        if still:
            log.info("connections that stood still were closed: %d", len(still))
        before = now
