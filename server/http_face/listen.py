"""The address to listen on, its socket, and uvicorn inside our event loop.

Owns the grammar of an address, which addresses are loopback, and the socket from binding to the last connection. Must not
know: the answers of the application. Invariants: parsing resolves no names, so whether authentication is required follows
from the written address alone; uvicorn handles no signals and never ends the process; `listen` returns within a bounded
time once cancelled.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import anyio
import uvicorn
from starlette.types import ASGIApp

from db.latch import Latch
from server.http_face.connections import OpenRequests
from server.http_face.errors import HttpFault
from server.http_face.protocol import BoundedProtocol, end_still_ones, limit_unread, room

FINISH_SECONDS = 0.7
"""Time for open requests when the server stops; a stream never ends by itself."""
STOP_SECONDS = 5
"""Longest stop, even with a caller that stops reading."""

LOOPBACK = "127.0.0.1"
LAST_PORT = 65_535

_WRITTEN = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)?:)?(?P<port>[0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """A host without brackets, and a port; port 0 takes a free one."""

    host: str
    port: int

    @property
    def name(self) -> str:
        """The host as in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def url(self) -> str:
        return f"http://{self.name}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. Any name but `localhost` may resolve to another address."""
        number = _number(self.host)
        return self.host.lower() == "localhost" if number is None else number.is_loopback

    @property
    def is_everywhere(self) -> bool:
        """Whether it is the wildcard address, which no client can use as a name."""
        number = _number(self.host)
        return number is not None and number.is_unspecified


def parse_address(text: str) -> Address:
    """Parse `HOST:PORT`, `[::1]:8080`, `:8080` or `8080`; the default host is loopback. Raises HttpFault."""
    match = _WRITTEN.fullmatch(text)
    if match is None or int(match["port"]) > LAST_PORT:
        hint = "write `HOST:PORT`, such as `127.0.0.1:8080` or `[::1]:8080`; port 0 takes a free one"
        raise HttpFault(f"`{text}` is not an address to listen on", hint)
    return Address((match["host"] or LOOPBACK).strip("[]"), int(match["port"]))


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


_WHY = {
    errno.EADDRINUSE: ("the port is in use", "choose another port; port 0 takes a free one"),
    errno.EACCES: ("this user may not use the port", "choose a port from 1024 on"),
    errno.EADDRNOTAVAIL: ("this machine has no such address", "`127.0.0.1` is always there"),
}


def bind(address: Address) -> tuple[socket.socket, Address]:
    """A listening socket, and the address with its actual port; raises HttpFault."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise HttpFault(f"cannot listen on `{address.name}`: there is no such host", "check the name") from None
    # IPv4 first: every client tries this address of `localhost`.
    family, kind, protocol, _, where = min(found, key=lambda each: each[0] != socket.AF_INET)
    # With an explicit protocol: the event loop sets TCP_NODELAY only on a socket it knows to be TCP. Without it, each
    # answer waits 40 ms for the caller to acknowledge its headers.
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # on Windows two servers could then share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        limit_unread(listener)
        listener.bind(where)
        listener.listen()
    except OSError as error:
        listener.close()
        why, hint = _WHY.get(error.errno or 0, (error.strerror, "choose another address"))
        raise HttpFault(f"cannot listen on `{address.name}:{address.port}`: {why}", hint) from None
    return listener, Address(address.host, int(listener.getsockname()[1]))


async def listen(app: ASGIApp, listener: socket.socket, started: Callable[[], None], stopping: Latch) -> None:
    """Serve the application until cancelled; `started` is called once it accepts requests.

    Once `stopping` is set, open requests are finished, and new ones are refused with a retry time.
    """
    requests = OpenRequests(app)
    server = _Guest(_configuration(requests), started)
    ended, serving = anyio.Event(), anyio.CancelScope(shield=True)

    async def serve() -> None:
        try:
            with serving:
                await server.serve([listener])
        finally:
            ended.set()

    async def turn_away() -> None:
        await stopping.wait()
        await requests.finish(FINISH_SECONDS)

    async with anyio.create_task_group() as group:
        group.start_soon(serve, name="carry HTTP requests")
        group.start_soon(turn_away, name="turn requests away")
        group.start_soon(end_still_ones, server.server_state.connections, name="end connections that stand still")
        try:
            await ended.wait()
        finally:
            server.should_exit = True
            with anyio.move_on_after(STOP_SECONDS + FINISH_SECONDS, shield=True):
                await requests.finish(FINISH_SECONDS)
                await ended.wait()
            serving.cancel("stopping took too long")
            group.cancel_scope.cancel()


def _configuration(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # forwarded headers are not trusted
        limit_concurrency=room(),
        timeout_graceful_shutdown=STOP_SECONDS,
    )


class _Guest(uvicorn.Server):
    """A uvicorn server that captures no signals and reports its start."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_started = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_started()
