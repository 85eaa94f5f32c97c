"""The keyboard: lines of standard input, one when it is asked for, from a terminal or from a pipe.

Owns the reading, in a thread of its own: the service runs on while a person types. Must not
know: what a line means. Invariant: a cancelled read does not wait for the next key, nor does a process that ends.
"""

from __future__ import annotations

import os
import sys
import threading

import anyio
import anyio.from_thread
import anyio.lowlevel

from server.cli.terminal.output import ask

MOST = 65_536
"""Bytes read at once."""


class Keyboard:
    """Standard input, line by line."""

    def __init__(self) -> None:
        self._rest = b""

    async def line(self, prompt: str, *, fresh: bool = False) -> str | None:
        """The next line, without its end; None when there is no more. On a terminal the prompt is shown before it.

        A `fresh` one is typed after that: what was typed before is no answer.
        """
        if sys.stdin.isatty():
            if fresh:
                forget_typed()
            ask(prompt)
        while b"\n" not in self._rest:
            read = await _read()
            if not read and not self._rest:
                return None
            self._rest += read or b"\n"  # the last line may lack its end
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(sys.stdin.encoding or "utf-8", errors="replace").rstrip("\r")


def forget_typed() -> None:
    """Drop what was typed at the terminal and is not read yet."""
    if os.name != "posix" or not is_in_foreground():
        return
    import termios

    try:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except termios.error:  # it is gone
        return


def is_in_foreground() -> bool:
    """Whether what is typed is for this program; one in the background that touches the terminal is stopped for it."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:  # it is gone: reading says so
        return True


async def _read() -> bytes:
    """The next bytes; none at the end. A reading thread cannot be stopped, so it is not waited for."""
    read: list[bytes] = []
    done, token = anyio.Event(), anyio.lowlevel.current_token()

    def wait() -> None:
        try:
            read.append(os.read(sys.stdin.fileno(), MOST))
        except OSError:  # a terminal that is gone has no more to say
            read.append(b"")
        try:
            anyio.from_thread.run_sync(done.set, token=token)
        except RuntimeError:  # the event loop is closed
            return

    threading.Thread(target=wait, name="keyboard", daemon=True).start()
    await done.wait()
    return read[0]
