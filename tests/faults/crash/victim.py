"""Processes of `outrider` that are there to be killed: fresh ones, and ones forked from one that has imported everything.

Owns: starting one either way behind the same interface, and the fork servers kept for it. Must not know: why it is killed.
Invariant: whoever leaves `victim` leaves no process behind.
"""

from __future__ import annotations

import atexit
import io
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from tests.support.forked import ForkServer, Started
from tests.support.shell import SCRIPT

SDK = ("runner.llm.anthropic", "anthropic")
"""Imported before forking: a killed tree talks to a model server through the real client."""

_IDLE: list[ForkServer] = []


class Mouth(ByteReceiveStream):
    """The end of a pipe that something comes out of."""

    def __init__(self, pipe: io.FileIO) -> None:
        self._pipe = pipe

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """What there is next."""
        await anyio.wait_readable(self._pipe)
        if data := os.read(self._pipe.fileno(), max_bytes):
            return data
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        """Close our end."""
        self._pipe.close()


class Ear(ByteSendStream):
    """The end of a pipe that somebody listens at."""

    def __init__(self, pipe: io.FileIO) -> None:
        self._pipe = pipe

    async def send(self, item: bytes) -> None:
        """Say it; requests are far smaller than a pipe."""
        await anyio.lowlevel.checkpoint()
        try:
            self._pipe.write(item)
        except BrokenPipeError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close our end."""
        self._pipe.close()


class Forked(Process):
    """A forked command, as `anyio.open_process` would give a fresh one."""

    def __init__(self, server: ForkServer, started: Started) -> None:
        self._server: ForkServer | None = server
        self._told = Mouth(started.told)
        self._heard = b""
        self._stdin, self._stdout = Ear(started.stdin), Mouth(started.stdout)
        self._pid = 0

    async def born(self) -> Forked:
        """Itself, once its process is there."""
        while b"\n" not in self._heard:
            self._heard += await self._told.receive()
        self._pid = int(self._heard.split()[0])
        return self

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        while len(self._heard.split()) < 2 or not self._heard.endswith(b"\n"):
            self._heard += await self._told.receive()
        if self._server is not None:
            _IDLE.append(self._server)
            self._server = None
        return int(self._heard.split()[1])

    def send_signal(self, signal: signal.Signals) -> None:
        """Tell it something."""
        if self._server is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    async def aclose(self) -> None:
        """Kill it if it still lives, wait for its end, and close our ends."""
        with anyio.CancelScope(shield=True):
            self.kill()
            await self.wait()
            for end in (self._stdin, self._stdout, self._told):
                await end.aclose()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, if it was waited for."""
        return int(self._heard.split()[1]) if self._server is None else None

    @property
    def stdin(self) -> ByteSendStream:
        """Its ear."""
        return self._stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        """Its mouth."""
        return self._stdout

    @property
    def stderr(self) -> None:
        """In a file."""
        return


def _fork_server() -> ForkServer:
    if _IDLE:
        return _IDLE.pop()
    server = ForkServer(*SDK)
    atexit.register(server.close)
    return server


@asynccontextmanager
async def victim(
    words: Sequence[str], folder: Path, environ: Mapping[str, str], *, fresh: bool = False, under: Sequence[str] = ()
) -> AsyncIterator[Process]:
    """A command of `outrider`; its notes go to `stderr` in the folder. It is killed if it lives longer than it is wanted.

    `under` is a program that starts it, such as a tracer; then it is a fresh one.
    """
    command = [str(SCRIPT), *words]
    process: Process
    with io.FileIO(folder / "stderr", "a") as notes:
        if fresh or under:
            process = await anyio.open_process([*under, *command], cwd=folder, env=environ, stderr=notes)
        else:
            server = _fork_server()
            process = await Forked(server, server.start(command, folder, environ, notes)).born()
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()
