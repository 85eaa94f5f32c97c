"""Reading and searching the recorded log lines.

Owns the lines in memory, their labels and the patterns of their messages; knows no MCP. Invariant: lines are in order
of time, and a line's labels are its stream's labels and its logger's fields together.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path

from outrider_sre.errors import BrokenIncidentError
from outrider_sre.incident import Incident
from outrider_sre.logql import LogQuery
from outrider_sre.times import parse_time

STREAM_LABELS = ("namespace", "service", "pod", "container", "level")
"""Every line has these; what else a line carries are fields of its logger."""

_VARIABLE = re.compile(r"\b[0-9a-f]{12,}\b|\d+")
_PLACE = "<_>"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line: its moment, as text and in seconds, its labels and its message."""

    at: float
    ts: str
    labels: dict[str, str]
    message: str


class LogStore:
    """All lines of one incident."""

    def __init__(self, lines: list[LogLine]) -> None:
        self._lines = sorted(lines, key=attrgetter("at"))

    def everything(self) -> list[LogLine]:
        """Every line, oldest first."""
        return self._lines

    def search(self, query: LogQuery, start: float, end: float) -> Iterator[LogLine]:
        """The lines a query selects from `start` up to and with `end`, oldest first."""
        first = bisect_left(self._lines, start, key=attrgetter("at"))
        last = bisect_right(self._lines, end, key=attrgetter("at"))
        for line in self._lines[first:last]:
            if query.matches(line.labels, line.message):
                yield line


@cache
def pattern_of(message: str) -> str:
    """The message with its numbers and identifiers taken out, so that alike lines look alike."""
    return _VARIABLE.sub(_PLACE, message)


@cache
def open_logs(incident: Incident) -> LogStore:
    """Read every log file of the incident; done once, on the first question."""
    lines: list[LogLine] = []
    for path in sorted(incident.file("logs").glob("*.jsonl.gz")):
        lines += _read(path)

    return LogStore(lines)


def _read(path: Path) -> Iterator[LogLine]:
    namespace, _, service = path.name.removesuffix(".jsonl.gz").partition(".")
    stream = {"namespace": namespace, "service": service}
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for text in file:
                row: dict[str, str] = json.loads(text)
                ts, message = row.pop("ts"), row.pop("message")
                yield LogLine(parse_time(ts, 0.0), ts, {**stream, **row}, message)
    except (OSError, EOFError, ValueError, KeyError) as error:
        hint = "write the incident again with `write_incident`"
        raise BrokenIncidentError(f"the log file `{path}` is damaged: {error}", hint) from None
