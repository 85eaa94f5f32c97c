"""What the command line says besides its data: errors, hints and notes on stderr, and text made safe for a terminal.

Owns the form of these lines and the decision for or against colour. Must not know: what a command does.
Invariant: text that came from a model, a tool or a file reaches a terminal without its control characters.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from typing import Any, TextIO

from server.cli.invocation import runnable

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Everything that moves a cursor, rings, or turns the direction of writing; line breaks and tabs stay."""


def safe(text: str) -> str:
    """Text that a terminal shows and does not obey."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))


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

    from runner.in_words import in_words

    try:
        return in_words(from_json(text, allow_partial="trailing-strings"))  # what an event tells may be cut
    except ValueError:
        return text


def coloured(stream: TextIO) -> bool:
    """Whether colour is wanted there: only on a terminal that can, and never against `NO_COLOR`."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def put(text: str) -> None:
    """Data, on stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def put_json(value: Any) -> None:
    """Data for programs, on stdout: one JSON document."""
    put(json.dumps(_jsonable(value), ensure_ascii=False, indent=2))


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
    _line("note", text, "36")


def error(message: str, hint: str = "") -> None:
    """What went wrong and, after a blank line, what to do about it."""
    _line("error", message, "1;31")
    if hint:
        sys.stderr.write("\n")
        _line("hint", hint, "36")


def _line(label: str, text: str, colour: str) -> None:
    head = f"\x1b[{colour}m{label}:\x1b[0m" if coloured(sys.stderr) else f"{label}:"
    sys.stderr.write(f"{head} {safe(runnable(text))}\n")
    sys.stderr.flush()
