"""Counts the calls of Python functions in one thread, and the memory blocks that are kept, between marks.

Owns: the profile function and what it leaves out. Must not know: any scenario. Invariant: calls of `tests` and `bench` are
never counted, nor those of a collection at a mark.

A coroutine that goes on after a wait counts as a call, as it costs one. `sys.setprofile` counts one thread, on every version
of Python; `sys.monitoring` would see all threads and would have to tell them apart at each call.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType

from tests.support.sources import ROOT

OURS = tuple(f"{ROOT / folder}{os.sep}" for folder in ("tests", "bench"))

Calls = Mapping[str, int]
"""How often each function was called, by file and name."""


@dataclass(frozen=True)
class Mark:
    """A moment of a run: what was called until then, and how many blocks were allocated."""

    codes: Mapping[CodeType, int]
    blocks: int

    def calls(self, before: Mark) -> Counter[CodeType]:
        """What was called since an earlier mark."""
        return Counter({code: count - before.codes.get(code, 0) for code, count in self.codes.items()})


@dataclass
class Calling:
    """The calls of the thread that starts it, and of the writer's."""

    marks: list[Mark] = field(default_factory=list)
    _codes: dict[CodeType, int] = field(default_factory=dict)

    def mark(self) -> None:
        """Set a mark; the first begins the count."""
        sys.setprofile(None)
        gc.collect()
        self.marks.append(Mark(dict(self._codes), sys.getallocatedblocks()))
        sys.setprofile(self._note)

    def end(self) -> None:
        """Count no more."""
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code, codes = frame.f_code, self._codes
            codes[code] = codes.get(code, 0) + 1

    def intervals(self, skip: int = 0) -> list[Counter[CodeType]]:
        """What was called between each two marks, without the first ones."""
        found = [later.calls(earlier) for earlier, later in zip(self.marks, self.marks[1:], strict=False)]
        return [_counted(each) for each in found[skip:]]

    def blocks(self, skip: int = 0) -> list[int]:
        """How many more blocks were allocated at each mark than at the one before."""
        found = [later.blocks - earlier.blocks for earlier, later in zip(self.marks, self.marks[1:], strict=False)]
        return found[skip:]


def _counted(calls: Counter[CodeType]) -> Counter[CodeType]:
    return Counter({code: count for code, count in calls.items() if count and not code.co_filename.startswith(OURS)})


def middle(counts: Iterable[int]) -> int:
    """The median, one of the counts."""
    return statistics.median_low(counts)
