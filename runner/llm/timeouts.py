"""The timeouts of one attempt: until the answer begins, between its pieces, and in total.

Knows no client and no event format. Invariant: one cancel scope, whose deadline moves at most twenty times in a timeout,
however many pieces arrive.

Once an answer has begun, any bytes are a sign of life, also a `ping`. Before that they are not: a provider that only pings
has not begun. An answer that trickles forever ends at the total.
"""

from __future__ import annotations

from typing import Literal

import anyio

from db.clock import loop_time
from registry import StreamTimeouts

Lapse = Literal["first_token", "stall", "total"]


class AnswerTimeout(Exception):
    """An answer that took too long; `lapse` names the timeout."""

    def __init__(self, lapse: Lapse, seconds: float) -> None:
        super().__init__(lapse)
        self.lapse: Lapse = lapse
        self.seconds = seconds


class AttemptTimer:
    """The timer of one attempt; it cancels `scope` when a timeout is over."""

    def __init__(self, timeouts: StreamTimeouts) -> None:
        now = loop_time()
        self._timeouts = timeouts
        self._slack = timeouts.stall / 20
        self._end = now + timeouts.total
        self._next = now
        self._begun = False
        self.scope = anyio.CancelScope(deadline=min(now + timeouts.first_token, self._end))

    def received(self) -> None:
        """A piece arrived, of an answer that has begun."""
        now = loop_time()
        if now >= self._next:
            self._begun = True
            self._next = now + self._slack
            self.scope.deadline = min(self._next + self._timeouts.stall, self._end)

    def only(self, seconds: float) -> None:
        """The message is complete: allow this many seconds for the rest of the stream."""
        self.scope.deadline = min(self.scope.deadline, loop_time() + seconds)

    def lapsed(self) -> AnswerTimeout:
        """The error for the timeout that was hit."""
        if loop_time() >= self._end:
            return AnswerTimeout("total", self._timeouts.total)
        if self._begun:
            return AnswerTimeout("stall", self._timeouts.stall)
        return AnswerTimeout("first_token", self._timeouts.first_token)
