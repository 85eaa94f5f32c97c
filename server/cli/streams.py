"""The standard streams as they are found: closed, full, read by nobody, or unable to write what we draw.

Owns: making the three usable before a command begins. Must not know: what is written to them.
Invariant: a reader who has read enough never fails a command, and a character that cannot be written never does.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any

from server.cli.exits import CommandError

_PLAIN = dict(zip("○◐●◕✕◷⊘▣◌✓├└─│…·›→≥’�•▌━═", "o~*%xt/#-+|`-|>->>>'?*|-=", strict=True))
"""What stands for a drawn character where it cannot be written: as wide as that, so that columns stay."""


def settle_streams() -> None:
    """Make the standard streams fit to be written to; call it once, before anything is opened."""
    codecs.register_error("outrider", _in_plain_characters)
    _reopen_closed()
    if sys.stdout is sys.__stdout__:  # else somebody took them over, such as a test
        sys.stdout = _outlet(sys.stdout, "standard output")
        sys.stderr = _outlet(sys.stderr, "standard error")


def _reopen_closed() -> None:
    """Give a closed stream its descriptor back, or the first file we open would get what is said there."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - stays open as long as the process
            if opened.fileno() != descriptor:
                os.dup2(opened.fileno(), descriptor)
            setattr(sys, name, opened)
            setattr(sys, f"__{name}__", opened)


def _outlet(stream: object, name: str) -> io.TextIOWrapper:
    assert isinstance(stream, io.TextIOWrapper)
    stream.flush()
    if os.name == "nt" and stream.isatty():  # a console there takes characters, not bytes
        stream.reconfigure(errors="outrider")
        return stream
    raw = _Outlet(stream.fileno(), name)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors="outrider", line_buffering=stream.isatty(), newline=None
    )


class _Outlet(io.FileIO):
    """A stream that tells once that it cannot be written to, and says nothing at all when nobody reads it."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._stream = name
        self._broken = False

    def write(self, data: Any) -> int:
        """Write, or let it go."""
        size = memoryview(data).nbytes
        if self._broken:
            return size
        try:
            return super().write(data)
        except BlockingIOError:
            raise
        except OSError as error:
            self._broken = True
            if isinstance(error, BrokenPipeError) or self._stream == "standard error":
                return size
            message = f"cannot write to {self._stream}: {(error.strerror or str(error)).lower()}"
            raise CommandError(message, "look at what it is directed to; what was run is kept in the database") from error


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unwritten = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in unwritten), error.end
