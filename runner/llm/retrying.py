"""Asking again: the one place where a model call is repeated.

Owns the number of attempts and the time between them. Knows neither providers nor what a request is: an attempt is a
function, a failure says whether another one can help. The SDK's own retries are off, so what is counted here is what is
sent. Invariant: cancelling ends a wait or an attempt at once and starts none.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio

from runner.llm.failures import Failure

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Retrying:
    """How often and how patiently a call is repeated."""

    attempts: int = 3
    """For one model."""
    altogether: int = 6
    """For one call, with all fallbacks."""
    first_wait: float = 0.5
    longest_wait: float = 8.0
    longest_obeyed: float = 60.0
    """A provider that asks for more patience than this is not waited for: another model, or the caller, is told instead."""

    def share(self, made: int, others: int) -> int:
        """Attempts the next model may make when `made` were made and `others` come after it: one is kept for each."""
        left = self.altogether - made
        return min(left, self.attempts, max(1, left - others))

    async def ask(
        self,
        attempt: Callable[[], Awaitable[Answer]],
        failure_of: Callable[[Exception], Failure | None],
        attempts: int | None = None,
    ) -> Answer:
        """Call `attempt` until it succeeds, cannot be helped, or was made often enough."""
        allowed, number = self.attempts if attempts is None else attempts, 1
        while True:
            try:
                return await attempt()
            except Exception as error:
                failure = failure_of(error)
                if failure is None or failure.error is error:
                    raise
                wait = self._wait(number, failure) if number < allowed and failure.retryable else None
                if wait is None:
                    raise failure.error from error
            await anyio.sleep(wait)
            number += 1

    def _wait(self, number: int, failure: Failure) -> float | None:
        """Seconds until the next attempt, or None when there will be none."""
        # Full jitter: many agents that failed together must not come back together.
        jitter = random.uniform(0, min(self.longest_wait, self.first_wait * 2 ** (number - 1)))  # noqa: S311
        if failure.retry_after is None:
            return jitter
        wait = failure.retry_after + jitter
        obeyed = failure.retry_after <= self.longest_obeyed
        return wait if obeyed and anyio.current_time() + wait < anyio.current_effective_deadline() else None
