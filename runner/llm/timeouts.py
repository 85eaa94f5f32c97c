"""How long an answer is waited for: until it begins, while it is silent, and altogether.

Owns the three timeouts of one attempt. Knows no client and no event format.
Invariant: one cancel scope, whose deadline moves on at most twenty times in a timeout, however many pieces arrive.

Any bytes are a sign of life once an answer has begun: a `ping` says that the provider is still at it. Before that they
are none, so a provider that only pings is given up as one that does not begin. What drips for ever ends at the total.
"""

from __future__ import annotations

from typing import Literal

import anyio

from registry import StreamTimeouts

Lapse = Literal["first_token", "stall", "total"]


class AnswerTimeout(Exception):
    """An answer that took too long; `lapse` says in which way."""

    def __init__(self, lapse: Lapse, seconds: float) -> None:
        super().__init__(lapse)
        self.lapse: Lapse = lapse
        self.seconds = seconds


class AttemptTimer:
    """The clock of one attempt; what runs inside `scope` ends when it has run out."""

    def __init__(self, timeouts: StreamTimeouts) -> None:
        now = anyio.current_time()
        self._timeouts = timeouts
        self._slack = timeouts.stall / 20
        self._end = now + timeouts.total
        self._next = now
        self._begun = False
        self.scope = anyio.CancelScope(deadline=min(now + timeouts.first_token, self._end))

    def received(self) -> None:
        """Something of an answer that has begun arrived."""
        now = anyio.current_time()
        if now >= self._next:
            self._begun = True
            self._next = now + self._slack
            self.scope.deadline = min(self._next + self._timeouts.stall, self._end)

    def only(self, seconds: float) -> None:
        """Everything needed is here: what is left gets this long at most."""
        self.scope.deadline = min(self.scope.deadline, anyio.current_time() + seconds)

    def lapsed(self) -> AnswerTimeout:
        """Which timeout it was."""
        if anyio.current_time() >= self._end:
            return AnswerTimeout("total", self._timeouts.total)
        if self._begun:
            return AnswerTimeout("stall", self._timeouts.stall)
        return AnswerTimeout("first_token", self._timeouts.first_token)
