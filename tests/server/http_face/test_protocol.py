"""Connections that stand still, and more of them than there is room for: real sockets, a real server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import SocketStream
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from db.latch import Latch
from server.http_face import protocol
from server.http_face.listen import Address, bind, listen, parse_address

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LONG = "x" * 8_000_000
"""More than the buffers between two sockets hold."""
TIME = 20.0


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[Address]:
    """A server for one application."""
    listener, bound = bind(parse_address("127.0.0.1:0"))
    started = anyio.Event()
    with listener:
        async with anyio.create_task_group() as group:
            group.start_soon(listen, app, listener, started.set, Latch())
            with anyio.fail_after(TIME):
                await started.wait()
                yield bound
            group.cancel_scope.cancel()


async def connected(address: Address) -> SocketStream:
    """A caller's connection."""
    return await anyio.connect_tcp(address.host, address.port)


async def everything(stream: SocketStream) -> bytes:
    """What comes until the connection ends."""
    came = b""
    try:
        while True:
            came += await stream.receive(1_000_000)
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return came


@pytest.mark.parametrize("sent", [b"", GET[:10], GET + GET[:20]], ids=["nothing", "half a head", "half of a second one"])
async def test_a_connection_without_a_whole_request_is_ended(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(protocol, "STILL_SECONDS", 0.1)
    async with listening(PlainTextResponse("here")) as address, await connected(address) as idle:
        if sent:
            await idle.send(sent)
        came = await everything(idle)

    assert came.count(b"here") == sent.count(b"\r\n\r\n")


async def test_a_caller_that_takes_nothing_of_an_answer_loses_its_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "STILL_SECONDS", 0.2)
    ended = anyio.Event()

    class Told(protocol.BoundedProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            ended.set()

    monkeypatch.setattr("server.http_face.listen.BoundedProtocol", Told)
    async with listening(PlainTextResponse(LONG)) as address, await connected(address) as idle:
        await idle.send(GET)
        await ended.wait()
        came = await everything(idle)

    assert len(came) < len(LONG)


async def test_an_answer_comes_whole_to_a_caller_that_reads_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "STILL_SECONDS", 0.2)
    came = 0
    async with listening(PlainTextResponse(LONG)) as address, await connected(address) as slow:
        await slow.send(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        with suppress(anyio.EndOfStream):
            while True:
                came += len(await slow.receive(400_000))
                with anyio.move_on_after(0.05):
                    await anyio.sleep_forever()

    assert came > len(LONG)


async def test_connections_beyond_the_most_are_refused_and_those_far_beyond_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(protocol, "REFUSED_AT_ONCE", 2)
    async with listening(PlainTextResponse("here")) as address:
        streams = [await connected(address) for _ in range(6)]
        came = await everything(streams[-1])
        await streams[-2].send(GET)
        refused = await streams[-2].receive()
        for each in streams:
            await each.aclose()
        async with await connected(address) as later:
            await later.send(GET)
            answered = await later.receive()

    assert came == b""
    assert refused.startswith(b"HTTP/1.1 503")
    assert answered.startswith(b"HTTP/1.1 200")


ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({}, {}))
from server.http_face.protocol import room
print(room(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(("granted", "most", "expected"), [(256, 20_000, "4096 4416"), (256, 1_024, "704 1024")])
def test_a_process_asks_for_the_descriptors_of_its_connections_and_takes_no_more_callers_than_it_gets(
    granted: int, most: int, expected: str
) -> None:
    import resource  # not on Windows

    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < most:
        pytest.skip("this system grants fewer file descriptors")
    code = "import outrider\n" + ROOM.format(granted, most)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=TIME)

    assert ran.stdout.strip() == expected
