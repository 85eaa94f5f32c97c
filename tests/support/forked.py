"""Runs commands in forks of a process that has done the imports: one such fork server per test worker.

A command spends most of its time importing. Each command is still a real process with its own group, arguments, folder,
environment and streams (pipes); it runs `main` and exits through the end of the interpreter. Shared are the start of the
interpreter, its locale, and the imports. Tests about these ask for a fresh process.

Owns: the fork server, started with the first command and ended with this process, and the protocol with it.
Must not know: the commands. Invariant: a command has ended when `run` returns or raises.
"""

from __future__ import annotations

import atexit
import io
import json
import locale
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.fork_server import HEADER

FILE = Path(__file__).with_name("fork_server.py")
KEPT = ("PATH", "LANG")
"""The variables of our environment that commands and the fork server inherit."""

FORK_SERVERS: set[int] = set()
"""The ids of the fork servers, for tests that count their own processes."""

_READ_AT_START = ("PYTHON", "LC_", "LANG")

Ran = subprocess.CompletedProcess[str]


def read_at_start(name: str) -> bool:
    """Whether a variable is read at interpreter start, so that only a fresh process obeys it."""
    return name.startswith(_READ_AT_START)


@dataclass(frozen=True)
class Started:
    """A running command: our ends of its streams, and of the pipe that reports its process id, then its exit code."""

    stdin: io.FileIO
    stdout: io.FileIO
    told: io.FileIO


class ForkServer:
    """The fork server, which runs one command at a time. It imports the modules `more` beside those of Outrider."""

    def __init__(self, *more: str) -> None:
        self._connection, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", FILE, str(theirs.fileno()), *more],
                env={name: os.environ[name] for name in KEPT if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # so that Ctrl-C reaches only this process
            )
        self._turn = threading.Lock()
        FORK_SERVERS.add(self._process.pid)

    def close(self) -> None:
        self._connection.close()
        FORK_SERVERS.discard(self._process.pid)
        self._process.wait()

    def run(self, words: Sequence[str], folder: Path, environ: Mapping[str, str], stdin: str, seconds: float) -> Ran:
        """Run a command to its end, as `subprocess.run` does."""
        with self._turn, ExitStack() as stack:
            (given, feed), (out, stdout), (err, stderr), (told, telling) = (_pipe(stack) for _ in range(4))
            os.set_blocking(feed.fileno(), False)
            assert feed.write(stdin.encode()) == len(stdin.encode()), "more than a pipe holds"
            theirs = (given, stdout, stderr, telling)
            self._ask({"words": words, "folder": str(folder), "environ": environ}, theirs)
            for end in (feed, *theirs):
                end.close()
            heard = {end: bytearray() for end in (out, err, told)}
            try:
                if not _listen(heard, time.monotonic() + seconds):
                    raise subprocess.TimeoutExpired(words, seconds, bytes(heard[out]), bytes(heard[err]))
            except BaseException:
                _kill(told, heard[told])
                raise
            _, code = map(int, heard[told].split())
            return Ran(words, code, _text(heard[out]), _text(heard[err]))

    def start(self, words: Sequence[str], folder: Path, environ: Mapping[str, str], stderr: io.FileIO) -> Started:
        """Start a command. The caller must wait for its end before it starts another."""
        (given, feed), (out, stdout), (told, telling) = (_ends() for _ in range(3))
        with given, stdout, telling:
            self._ask({"words": words, "folder": str(folder), "environ": environ}, (given, stdout, stderr, telling))
        return Started(feed, out, told)

    def _ask(self, request: Mapping[str, object], descriptors: Sequence[io.FileIO]) -> None:
        content = json.dumps(request).encode()
        socket.send_fds(self._connection, [len(content).to_bytes(HEADER)], [end.fileno() for end in descriptors])
        self._connection.sendall(content)


def _ends() -> tuple[io.FileIO, io.FileIO]:
    reader, writer = os.pipe()
    return io.FileIO(reader, "r"), io.FileIO(writer, "w")


def _pipe(stack: ExitStack) -> tuple[io.FileIO, io.FileIO]:
    reader, writer = _ends()
    return stack.enter_context(reader), stack.enter_context(writer)


def _listen(heard: dict[io.FileIO, bytearray], deadline: float) -> bool:
    """Read until every stream has ended; False if the deadline comes first."""
    with selectors.DefaultSelector() as selector:
        for end in heard:
            selector.register(end, selectors.EVENT_READ, end)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return False
            for key, _ in ready:
                if said := key.data.read(65536):
                    heard[key.data] += said
                else:
                    selector.unregister(key.data)
    return True


def _kill(told: io.FileIO, so_far: bytearray) -> None:
    """Kill the process group of a command, and wait until the fork server has reaped it."""
    process = so_far or told.read(65536)
    with suppress(ProcessLookupError):
        os.killpg(int(process.split()[0]), signal.SIGKILL)
    told.readall()


def _text(said: bytearray) -> str:
    return said.decode(locale.getencoding()).replace("\r\n", "\n").replace("\r", "\n")


@cache
def fork_server() -> ForkServer:
    """The fork server of this test worker."""
    server = ForkServer()
    atexit.register(server.close)
    return server
