"""Search: the lines of texts that match a query.

A regular expression can run forever, and Python cannot stop it: it runs in a process of its own, which is this file run as
a script, with little memory, and is killed when its time is over. A plain text is searched here, in linear time. It
blocks: call it in a thread.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

SECONDS, WAIT_SECONDS = 2, 15
"""CPU seconds of one regular-expression search, and wall-clock seconds, for a busy machine."""
MOST_MEMORY = 512 * 1024 * 1024


class BadPattern(Exception):
    """An invalid regular expression, with the reason."""


@dataclass(frozen=True)
class Match:
    """A matching line."""

    text: int
    """The index of the text."""
    line: int
    """Its number, from 1."""
    offset: int
    """Characters before the line."""
    column: int
    """Where the match begins in the line, from 0."""


def plain_matches(texts: Sequence[str], wanted: str, *, ignore_case: bool) -> Iterator[Match]:
    """The lines that contain a text."""
    if not ignore_case:
        return _lines(texts, lambda line: line.find(wanted))
    folded = wanted.casefold()
    return _lines(texts, lambda line: line.casefold().find(folded))


def pattern_matches(texts: Sequence[str], pattern: str, most: int, *, ignore_case: bool) -> list[Match]:
    """The first lines that match a regular expression; raises BadPattern."""
    asked = json.dumps({"texts": texts, "pattern": pattern, "most": most, "ignore_case": ignore_case})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__],
            input=asked.encode(),
            capture_output=True,
            timeout=WAIT_SECONDS,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        raise BadPattern(f"it takes longer than {SECONDS} s, or too much memory") from None
    answer = json.loads(done.stdout)
    if "fault" in answer:
        raise BadPattern(answer["fault"])
    return [Match(*found) for found in answer["found"]]


def _lines(texts: Sequence[str], find: Callable[[str], int]) -> Iterator[Match]:
    for number, text in enumerate(texts):
        offset = 0
        for line, content in enumerate(text.split("\n"), start=1):
            column = find(content)
            if column >= 0:
                yield Match(number, line, offset, column)
            offset += len(content) + 1


def _serve() -> None:
    """Answer one request on the standard streams."""
    import resource

    for what, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MOST_MEMORY)):
        with suppress(ValueError, OSError):  # no such limit on this system: the parent's timeout still holds
            resource.setrlimit(what, (most, most))
    asked = json.load(sys.stdin)
    try:
        compiled = re.compile(asked["pattern"], re.IGNORECASE if asked["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        json.dump({"fault": f"it is not valid ({error})"}, sys.stdout)
        return
    found: list[tuple[int, int, int, int]] = []
    for each in _lines(asked["texts"], lambda line: match.start() if (match := compiled.search(line)) else -1):
        found.append((each.text, each.line, each.offset, each.column))
        if len(found) >= asked["most"]:
            break
    json.dump({"found": found}, sys.stdout)


if __name__ == "__main__":
    _serve()
