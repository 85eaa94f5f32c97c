"""A real terminal of 12 rows and 90 columns, or as many as are asked for, with a person before it.

Owns: giving a command a terminal as its stdin and stderr, and as its stdout where a test looks at that. Must not know: what
a test is about. Invariant: with `typed` stdout is a pipe, so that data and what a person sees stay apart; a `Screen` shows
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
    """Run a command with a terminal for all that it writes; its exit code, and the lines of the terminal without styles."""
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
    except OSError:  # the other end was closed: that is how a terminal ends
        pass
    finally:
        os.close(master)
    return seen.decode()


def typed(shell: Shell, *words: str, keys: str = "", **environ: str) -> tuple[int, str, str]:
    """Run a command before a person who presses these keys; its exit code, stdout, and what the terminal got."""
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
    os.write(master, keys.encode())  # the terminal keeps them until they are read
    seen = _read(master)
    out, _ = process.communicate(timeout=SECONDS)
    return process.returncode, out.decode(), seen


@dataclass
class Screen:
    """A terminal with a command in it, whose person looks before they press a key."""

    process: subprocess.Popen[bytes]
    _master: int
    text: str = ""

    def until(self, words: str) -> str:
        """Look until these words have come; what was seen since the last time, up to them."""
        while words not in self.text:
            try:
                self.text += os.read(self._master, 65536).decode(errors="replace")
            except OSError:  # the other end was closed
                raise AssertionError(f"`{words}` never came: {self.text}") from None
        before, _, self.text = self.text.partition(words)
        return before + words

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def end(self) -> tuple[int, str]:
        """The exit code, and what was seen since the last time."""
        try:
            while chunk := os.read(self._master, 65536):
                self.text += chunk.decode(errors="replace")
        except OSError:
            pass
        return self.process.wait(SECONDS), self.text


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def screen(shell: Shell, *words: str, **environ: str) -> Iterator[Screen]:
    """A command in a terminal of its own, which is closed at the end, as when its window is."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
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
