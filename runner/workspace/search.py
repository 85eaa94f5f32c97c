"""Matching: which lines of some texts hold what is looked for.

Owns the search in texts that were read. A regular expression can take for ever, and Python cannot stop one: it is tried
in a process of its own, which is this file run as a script, has little memory, and is ended when its time is over. A plain
text is looked for right here, in a time that grows with the texts. It blocks: call it in a thread.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

SECONDS, PATIENCE = 2, 15
"""Of a processor for one search with a regular expression; and of a clock, where others keep the processors busy."""
MOST_MEMORY = 512 * 1024 * 1024


class BadPattern(Exception):
    """A regular expression that cannot be used; says why."""


@dataclass(frozen=True)
class Match:
    """A line that matches."""

    text: int
    """Which of the texts."""
    line: int
    """Its number, from 1."""
    offset: int
    """Characters before it."""
    column: int
    """Where in it the match begins, from 0."""


def plain_matches(texts: Sequence[str], wanted: str, *, ignore_case: bool) -> Iterator[Match]:
    """The lines that hold a text."""
    if not ignore_case:
        return _lines(texts, lambda line: line.find(wanted))
    folded = wanted.casefold()
    return _lines(texts, lambda line: line.casefold().find(folded))


def pattern_matches(texts: Sequence[str], pattern: str, most: int, *, ignore_case: bool) -> list[Match]:
    """The first lines that a regular expression matches; raises BadPattern."""
    asked = json.dumps({"texts": texts, "pattern": pattern, "most": most, "ignore_case": ignore_case})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__], input=asked.encode(), capture_output=True, timeout=PATIENCE, check=True
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        raise BadPattern(f"it takes longer than {SECONDS} s, or too much memory") from None
    told = json.loads(done.stdout)
    if "fault" in told:
        raise BadPattern(told["fault"])
    return [Match(*found) for found in told["found"]]


def _lines(texts: Sequence[str], find: Callable[[str], int]) -> Iterator[Match]:
    for number, text in enumerate(texts):
        offset = 0
        for line, content in enumerate(text.split("\n"), start=1):
            column = find(content)
            if column >= 0:
                yield Match(number, line, offset, column)
            offset += len(content) + 1


def _serve() -> None:
    """Answer one question on the standard streams."""
    import resource

    for what, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MOST_MEMORY)):
        with suppress(ValueError, OSError):  # a system without that limit: its time is limited by whoever asked
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
