"""The child process of an upstream server: a minimal environment, an orderly stop, nothing left behind.

Owns the child's environment, its process group, the stop sequence, and the tail of its standard error. Must not know: MCP,
messages or tools. Invariants: when `stop` returns, every process of the group has ended or was killed; the child gets no
variable that was not meant for it.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

INHERITED = (
    (
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERPROFILE",
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)
"""All inherited variables; a server gets no secrets of this process."""

STOP_GRACE = 1.5
"""Seconds between closing standard input, SIGTERM and SIGKILL."""

_ENDING_GRACE = 0.3

# Runs in the child before the server replaces it: asks the kernel to kill the child with its parent, and covers the
# moment in which the parent may already be dead. A plain interpreter, because code between fork and exec is not safe
# in a process with threads. In the C locale the interpreter sets LC_CTYPE, which the server was not given.
_LAUNCHER = """
import ctypes, os, signal, sys
parent, locale_given, path, *words = sys.argv[1:]
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(parent):
    sys.exit(1)
if not locale_given:
    os.environ.pop("LC_CTYPE", None)
try:
    os.execv(path, words)
except OSError as error:
    sys.exit(f"cannot run `{path}`: {error.strerror}")
"""

logger = logging.getLogger("outrider.upstream")


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """The command, its working folder, and its variables beyond the inherited ones."""

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None


class CannotStart(Exception):
    """The command could not be started; the message says why."""


class StderrTail:
    """The last lines that a server wrote outside of messages, capped in number and length."""

    LINES = 20
    LINE_LENGTH = 300
    SHOWN = 5

    def __init__(self, clear: Callable[[str], str] = str) -> None:
        self._clear = clear
        """Masks secrets in a line, before it is cut."""
        self._lines: deque[str] = deque(maxlen=self.LINES)
        self._open = b""

    def feed(self, chunk: bytes) -> None:
        """Add raw output; the end of an over-long line is dropped."""
        *complete, self._open = (self._open + chunk).split(b"\n")
        for line in complete[-self.LINES :]:
            self.add(line)
        self._open = self._open[: self.LINE_LENGTH * 4]

    def add(self, line: bytes) -> None:
        """Add one whole line."""
        text = self._shown(line)
        if text:
            self._lines.append(text)

    def _shown(self, line: bytes) -> str:
        return self._clear(line[: self.LINE_LENGTH * 4].decode("utf-8", "replace").strip())[: self.LINE_LENGTH]

    def __str__(self) -> str:
        """The last few lines, joined."""
        rest = self._shown(self._open)
        return " | ".join([*self._lines, *([rest] if rest else [])][-self.SHOWN :])


class ServerProcess:
    """A running server: its streams, its stderr tail and its end."""

    def __init__(self, process: Process, stderr_tail: StderrTail) -> None:
        self._process = process
        self.stderr_tail = stderr_tail

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._process.pid

    @property
    def stdin(self) -> ByteSendStream:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        assert self._process.stdout is not None
        return self._process.stdout

    async def listen(self) -> None:
        """Read standard error to its end, so that the child never blocks on it."""
        assert self._process.stderr is not None
        try:
            async for chunk in self._process.stderr:
                self.stderr_tail.feed(chunk)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            logger.debug("standard error of process %d ended early", self.pid)

    async def ending(self) -> str:
        """How the child ended; called when its output has ended."""
        with anyio.move_on_after(_ENDING_GRACE):
            await self._process.wait()
        code = self._process.returncode
        if code is None:
            return "closed its output"
        if code < 0:
            return f"was ended by {_signal_name(-code)}"
        return f"ended with exit code {code}"

    async def stop(self) -> None:
        """Close standard input, then SIGTERM, then SIGKILL to the whole group; bounded and shielded."""
        with anyio.CancelScope(shield=True):
            await self.stdin.aclose()
            if not await self._exits():
                self._signal_group(signal.SIGTERM)
                await self._exits()
            # Also when the child obeyed: its own children may not have.
            self._signal_group(None)
            with anyio.move_on_after(STOP_GRACE):
                await self._process.aclose()

    async def _exits(self) -> bool:
        with anyio.move_on_after(STOP_GRACE):
            await self._process.wait()
        return self._process.returncode is not None

    def _signal_group(self, number: signal.Signals | None) -> None:
        """Send a signal to every process of the group; None kills them."""
        try:
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self.pid, number or signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            logger.debug("process group %d is gone", self.pid)


async def start(command: ServerCommand, stderr_tail: StderrTail) -> ServerProcess:
    """Start a server in its own process group."""
    environment = _environment(command.env)
    path = _executable(command, environment)
    words = [path, *command.words[1:]]
    if sys.platform == "linux" and sys.executable:
        locale_given = "yes" if "LC_CTYPE" in environment else ""
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), locale_given]
        words = [*launcher, path, *command.words]
    process: Process | None = None
    try:
        # Shielded: a cancellation between the start and its first owner would orphan the process.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=environment,
                cwd=command.cwd,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        raise CannotStart(f"cannot start `{command.words[0]}`: {error}") from error
    assert process is not None
    return ServerProcess(process, stderr_tail)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # An exported shell function runs code in any shell that reads it.
    return {name: value for name, value in inherited.items() if not value.startswith("()")} | dict(extra)


def program_of(command: ServerCommand) -> str:
    """The path of a command's program; raises CannotStart if there is none."""
    return _executable(command, _environment(command.env))


def _executable(command: ServerCommand, environment: Mapping[str, str]) -> str:
    name = command.words[0]
    if command.cwd is not None and not command.cwd.is_dir():
        raise CannotStart(f"cannot start `{name}`: its working folder `{command.cwd}` does not exist")
    if Path(name).name != name and command.cwd is not None:
        name = str(command.cwd / name)
    path = shutil.which(name, path=environment.get("PATH"))
    if path is None:
        raise CannotStart(f"cannot start `{command.words[0]}`: no such program")
    return str(Path(path).absolute())


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
