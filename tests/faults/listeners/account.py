"""What listeners should have heard, and how late they heard it, by the rows of the events.

Owns the comparison of rows with what arrived. Must not know: how either came about. Invariant: an event that a listener
missed, heard twice, heard out of order or should not have heard is a fault in words.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

PATH = re.compile(r"/api/(?:executions/(?P<top>\w+)/)?events(?:\?after=(?P<after>\d+))?")
EVENTS = "select seq, execution_id, root_execution_id, at from events order by seq"


@dataclass(frozen=True, slots=True)
class Heard:
    """What one listener has heard of."""

    path: str
    reads: bool
    cuts: int
    numbers: Sequence[int]
    moments: Sequence[float]
    """When something came."""
    counts: Sequence[int]
    """How many events it was."""


class Account:
    """The events of a database."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._every: array[int] = array("q", (row["seq"] for row in rows))
        self._of: dict[str, array[int]] = defaultdict(lambda: array("q"))
        self._at: dict[int, float] = {}
        for row in rows:
            self._at[row["seq"]] = datetime.fromisoformat(row["at"]).timestamp()
            for each in {row["execution_id"], row["root_execution_id"]}:
                self._of[each].append(row["seq"])

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self._every[-1]

    def after(self, number: int) -> int:
        """How many events came after one."""
        return sum(each > number for each in self._every)

    def expected(self, path: str) -> Sequence[int]:
        """The events of a stream: of a tree, of an execution with nothing below it, or of all trees."""
        found = PATH.fullmatch(path)
        assert found is not None, path
        if found["top"] is not None:
            return self._of[found["top"]]
        after = int(found["after"])
        return array("q", (number for number in self._every if number > after))

    def faults(self, heard: Sequence[Heard]) -> list[str]:
        """What did not arrive as it should; the connections of those that read must last."""
        expected: dict[str, Sequence[int]] = {}
        found = []
        for each in heard:
            if each.path not in expected:
                expected[each.path] = self.expected(each.path)
            wanted = expected[each.path]
            if each.numbers != wanted:
                missed, more = set(wanted) - set(each.numbers), len(each.numbers) - len(set(each.numbers))
                found.append(f"{each.path}: {len(missed)} missed, {more} twice, of {len(wanted)}")
            if each.reads and each.cuts:
                found.append(f"{each.path}: cut off {each.cuts} times though it reads")
        return found

    def delays(self, heard: Sequence[Heard], since: float) -> list[float]:
        """From the moments of events after `since` to their arrivals, in order of length."""
        found: list[float] = []
        for each in heard:
            start, at = 0, self._at
            for moment, count in zip(each.moments, each.counts, strict=True):
                found += [moment - at[number] for number in each.numbers[start : start + count] if at[number] > since]
                start += count
        found.sort()
        return found
