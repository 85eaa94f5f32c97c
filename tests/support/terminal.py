"""Commands in a real terminal (a pseudo-terminal), with keys typed by the test.

Owns: giving a command a terminal as its stdin and stderr, and as its stdout for tests of that. Must not know: the subject
of a test. Invariant: with `typed` stdout is a pipe, so that data is separate from the terminal's text; a `Screen` shows
both.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.shell import SCRIPT, SECONDS, Shell


def watched(shell: Shell, *words: str, columns: int = 90, **environ: str) -> tuple[int, list[str]]:
    """Run a command with a terminal for all its streams. Return its exit code, and the terminal's lines without styles."""
    master, slave = _opened(columns)
    process = subprocess.Popen(
        [SCRIPT, *words], cwd=shell.folder, env=_surroundings(shell, environ), stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    written = _read(master)
    process.wait(timeout=SECONDS)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written).replace("\r", "")
    return process.returncode, plain.splitlines()


def _opened(columns: int) -> tuple[int, int]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, columns, 0, 0))
    return master, slave


def _surroundings(shell: Shell, environ: dict[str, str]) -> dict[str, str]:
    return shell.surroundings(**{"TERM": "xterm-256color", **environ})


def _read(master: int) -> str:
    seen = bytearray()
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
    except OSError:  # a terminal reports its end as an error
        pass
    finally:
        os.close(master)
    return seen.decode()


def typed(shell: Shell, *words: str, keys: str = "", **environ: str) -> tuple[int, str, str]:
    """Run a command and type `keys`. Return its exit code, its stdout, and the text of the terminal."""
    master, slave = _opened(90)
    process = subprocess.Popen(
        [SCRIPT, *words],
        cwd=shell.folder,
        env=_surroundings(shell, environ),
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    os.write(master, keys.encode())  # the terminal buffers them until they are read
    seen = _read(master)
    out, _ = process.communicate(timeout=SECONDS)
    return process.returncode, out.decode(), seen


@dataclass
class Screen:
    """A terminal with a command in it; a test reads the output before it types."""

    process: subprocess.Popen[bytes]
    _master: int
    text: str = ""

    def until(self, words: str) -> str:
        """Wait until `words` appear. Return the output since the last call, up to and including them."""
        while words not in self.text:
            try:
                self.text += os.read(self._master, 65536).decode(errors="replace")
            except OSError:  # the command closed the terminal
                raise AssertionError(f"`{words}` never came: {self.text}") from None
        before, _, self.text = self.text.partition(words)
        return before + words

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> tuple[int, str]:
        """Wait for the end. Return the exit code, and the output since the last call."""
        try:
            while chunk := os.read(self._master, 65536):
                self.text += chunk.decode(errors="replace")
        except OSError:
            pass
        return self.process.wait(SECONDS), self.text


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def screen(shell: Shell, *words: str, rows: int = 24, columns: int = 120, **environ: str) -> Iterator[Screen]:
    """A command in its own terminal, which is closed at the end, as when a user closes the window."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        [SCRIPT, *words],
        cwd=shell.folder,
        env=shell.surroundings(**{"TERM": "xterm-256color", "NO_COLOR": "1", **environ}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - it only makes a system call
    )
    os.close(slave)
    try:
        yield Screen(process, master)
    finally:
        os.close(master)
        try:
            process.wait(SECONDS)
        finally:
            process.kill()
