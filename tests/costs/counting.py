"""Counts the calls of Python functions in two threads, and the memory blocks that are kept, between marks.

Owns: the profile functions and what they leave out. Must not know: any scenario. Invariant: calls of `tests` and `bench`
are never counted, nor those of a collection at a mark.

A coroutine that goes on after a wait counts as a call, because it costs one. `sys.setprofile` counts one thread, on every
version of Python; `sys.monitoring` would see all threads and would have to tell them apart at each call.
"""

from __future__ import annotations

import cProfile
import gc
import os
import statistics
import sys
import threading
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from types import CodeType, FrameType

from tests.support.sources import ROOT

LEFT_OUT = tuple(f"{ROOT / folder}{os.sep}" for folder in ("tests", "bench"))
WRITER = "outrider-writer"
"""The name of the thread that commits."""

Codes = dict[CodeType, int]
ORIGIN = 1000
"""Where a count begins: a number above 256 is a block of memory from its start, so that counting keeps no further one."""


@dataclass(frozen=True, slots=True)
class Calls:
    """How often each function was called until a moment. The numbers are no objects, because blocks are counted, too."""

    codes: Codes
    """In the order of their first call; later ones may follow."""
    counts: array[int]

    @classmethod
    def of(cls, codes: Codes) -> Calls:
        return cls(codes, array("q", codes.values()))

    def since(self, before: Calls) -> Counter[CodeType]:
        """What was called since an earlier moment."""
        earlier = zip_longest(self.counts, before.counts, fillvalue=ORIGIN)
        grown = {code: now - then for code, (now, then) in zip(self.codes, earlier, strict=False)}
        return Counter({code: more for code, more in grown.items() if more and not code.co_filename.startswith(LEFT_OUT)})


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment: what was called until then by the thread of the marks and by the writer, and the allocated blocks."""

    calls: Calls
    writes: Calls
    blocks: int


@dataclass
class Calling:
    """The calls of the thread that sets the marks, and of the writers that start meanwhile."""

    marks: list[Mark] = field(default_factory=list)
    _calls: Codes = field(default_factory=dict)
    _writes: Codes = field(default_factory=dict)
    _own_blocks: int = 0
    """Allocated by the marks themselves."""

    def __post_init__(self) -> None:
        threading.setprofile(self._note_writer)

    def mark(self) -> None:
        """Set a mark; the first begins the count."""
        sys.setprofile(None)
        gc.collect()
        if not self.marks:
            gc.freeze()  # later collections are quicker
        blocks = sys.getallocatedblocks()
        self.marks.append(Mark(Calls.of(self._calls), Calls.of(self._writes), blocks - self._own_blocks))
        self._own_blocks += sys.getallocatedblocks() - blocks
        sys.setprofile(self._note)

    def end(self) -> None:
        """Count no more."""
        sys.setprofile(None)
        threading.setprofile(None)

    def intervals(self, warm: int) -> Sequence[Interval]:
        """What was done between each two marks, without the first intervals."""
        return [Interval(*each) for each in zip(self.marks[warm:], self.marks[warm + 1 :], strict=False)]

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code, calls = frame.f_code, self._calls
            calls[code] = calls.get(code, ORIGIN) + 1

    def _note_writer(self, frame: FrameType, event: str, _: object) -> None:
        if threading.current_thread().name != WRITER:
            sys.setprofile(None)
        elif event == "call":
            code, calls = frame.f_code, self._writes
            calls[code] = calls.get(code, ORIGIN) + 1


@dataclass(frozen=True)
class Interval:
    """What lies between two marks."""

    begin: Mark
    end: Mark

    @property
    def calls(self) -> Counter[CodeType]:
        return self.end.calls.since(self.begin.calls)

    @property
    def writes(self) -> Counter[CodeType]:
        return self.end.writes.since(self.begin.writes)

    @property
    def blocks(self) -> int:
        return self.end.blocks - self.begin.blocks


def median(found: Sequence[Counter[CodeType]]) -> Counter[CodeType]:
    """The one with the median sum: calls that depend on a clock, or on how writes share a commit, are in few intervals."""
    return sorted(found, key=Counter.total)[(len(found) - 1) // 2]


def usual(blocks: Sequence[int]) -> float:
    """The mean of the middle half: caches that are filled or emptied in one interval are not in it."""
    quarter = len(blocks) // 4
    return statistics.fmean(sorted(blocks)[quarter : len(blocks) - quarter])


@dataclass
class Timing(Calling):
    """Measures, instead of counting, how long each function runs: for a person who looks for what is slow."""

    warm: int = 0
    profile: cProfile.Profile = field(default_factory=cProfile.Profile)
    units: int = -1

    def __post_init__(self) -> None:
        """No thread is counted."""

    def mark(self) -> None:
        self.units += 1
        if self.units == self.warm:
            self.profile.enable()

    def end(self) -> None:
        self.profile.disable()


def seconds_by_file(timing: Timing) -> Mapping[str, float]:
    """The seconds that a unit spends in each file."""
    found: Counter[str] = Counter()
    for entry in timing.profile.getstats():
        file = entry.code.co_filename if isinstance(entry.code, CodeType) else "functions in C"
        if not file.startswith(LEFT_OUT):
            found[file] += entry.inlinetime  # type: ignore[assignment]
    return {file: spent / (timing.units - timing.warm) for file, spent in found.most_common()}
