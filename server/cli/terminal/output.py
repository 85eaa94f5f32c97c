"""What the command line writes: data on stdout; errors, hints, notes and questions on stderr; and the streams themselves.

Owns the form of these lines, the decision for or against colour, and making the standard streams usable: one may be closed,
full, unread, or unable to encode a character. Must not know: what a command does. Invariants: a terminal shows what a
model, a tool or a file said and obeys none of it, because text is made safe where it is written: here, in `console` and
in log lines. JSON keeps every character, by its number. A reader who stops reading fails no command.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
import math
import os
import re
import sys
from contextlib import suppress
from typing import Any, TextIO

from server.cli.terminal.exits import CommandError, CommandFailure, Exit
from server.cli.terminal.options import runnable

_MARKS = re.compile("[\u061c\u200e\u200f]")
"""They only tell a terminal the direction of their neighbours; right-to-left texts are full of them."""

_OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""What moves a cursor, rings, starts a sequence, or turns the direction of writing; line breaks and tabs stay."""

_PLAIN = dict(zip("○◐●◕✕◷⊘▣◌✓├└─│…·›→≥’�•▌━═", "o~*%xt/#-+|`-|>->>>'?*|-=", strict=True))
"""What stands for a drawn character where it cannot be written: as wide as that, so that columns stay."""


def safe(text: str) -> str:
    """Text that a terminal shows and does not obey."""
    if text.isascii() and text.isprintable():
        return text
    return _OBEYED.sub("\ufffd", _MARKS.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, most: int = 0) -> str:
    """Text on one line, cut to `most` characters if given."""
    flat = " ".join(safe(text).split())
    return flat if not most or len(flat) <= most else flat[: most - 1] + "…"


def gist(text: str) -> str:
    """The first line of a text that says something: no heading, no mark-up around it. An object says it in its words."""
    lines = (line.strip() for line in _in_words(text).splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return one_line(first.replace("**", "").lstrip("-*> "))


def _in_words(text: str) -> str:
    if not text.lstrip().startswith("{"):
        return text
    from pydantic_core import from_json

    from runner.strategies.loop.acceptance import in_words

    try:
        return in_words(from_json(text, allow_partial="trailing-strings"))  # what an event tells may be cut
    except ValueError:
        return text


def coloured(stream: TextIO) -> bool:
    """Whether colour is wanted there: only on a terminal that can, and never against `NO_COLOR`."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def put(text: str) -> None:
    """Text for people, on stdout."""
    _write(sys.stdout, safe(text))


def put_json(value: Any) -> None:
    """Data for programs, on stdout: one JSON document. Exact: what a terminal would obey is written by its number."""
    _write(sys.stdout, _exact(json.dumps(_jsonable(value), ensure_ascii=False, indent=2)))


def put_json_line(value: Any) -> None:
    """One of many JSON documents on stdout, each on a line of its own."""
    _write(sys.stdout, _exact(json.dumps(_jsonable(value), ensure_ascii=False)))


def _exact(text: str) -> str:
    return _OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _write(stream: TextIO, text: str) -> None:
    stream.write(text if text.endswith("\n") else text + "\n")
    stream.flush()


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def note(text: str) -> None:
    """A remark, on stderr."""
    _labelled("note", text, "36")


def error(message: str, hint: str = "") -> None:
    """What went wrong and, after a blank line, what to do about it."""
    _labelled("error", message, "1;31")
    if hint:
        sys.stderr.write("\n")
        _labelled("hint", hint, "36")


def say(line: str, colour: str = "") -> None:
    """A line on stderr, in a colour where that is wanted."""
    _write(sys.stderr, _in_colour(safe(line), colour))


def ask(question: str) -> None:
    """A question on stderr; the person answers on the same line."""
    sys.stderr.write(safe(question))
    sys.stderr.flush()


def _labelled(label: str, text: str, colour: str) -> None:
    _write(sys.stderr, f"{_in_colour(label + ':', colour)} {safe(runnable(text))}")


def _in_colour(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and coloured(sys.stderr) else text


class LogLines(logging.Formatter):
    """Log lines: nothing in them is obeyed, and no text in them begins a line that looks like another record."""

    def format(self, record: logging.LogRecord) -> str:
        """One record, its further lines indented."""
        return safe(super().format(record)).replace("\n", "\n    ")


def settle_streams() -> None:
    """Make the standard streams fit to be written to; call it once, before anything is opened."""
    codecs.register_error("outrider", _in_plain_characters)
    _reopen_closed()
    if sys.stdout is sys.__stdout__:  # else they are replaced, as in a test
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
    """A stream that reports once that it cannot be written to, and stays silent when its reader is gone."""

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
            raise CommandError(message, "check where it is redirected; executions are kept in the database") from error


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unwritten = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in unwritten), error.end


def tell(failure: CommandFailure) -> None:
    """Say what went wrong, on stderr; a program that wants JSON finds it on stdout, too, as one line."""
    from server.cli.terminal.options import runnable, wants_json

    if wants_json():
        kind = Exit(failure.code).name.lower()
        told = {"message": failure.message, "hint": runnable(failure.hint), "kind": kind, "exit": int(failure.code)}
        with suppress(CommandError):  # where stdout cannot be written, stderr says what went wrong
            put_json_line({"error": told})
    error(failure.message, failure.hint)
