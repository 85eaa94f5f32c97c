"""Asking again: the one place where a model call is repeated.

Owns the number of attempts and the time between them. Knows neither providers nor what a request is: an attempt is a
function, a failure says whether another one can help. Invariant: cancelling ends a wait or an attempt at once and
starts none.
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
    first_wait: float = 0.5
    longest_wait: float = 8.0
    longest_obeyed: float = 60.0
    """A provider that asks for more patience than this is not waited for: another model, or the caller, is told instead."""

    async def ask(
        self, attempt: Callable[[], Awaitable[Answer]], failure_of: Callable[[Exception], Failure | None]
    ) -> Answer:
        """Call `attempt` until it succeeds, cannot be helped, or was made often enough."""
        number = 1
        while True:
            try:
                return await attempt()
            except Exception as error:
                failure = failure_of(error)
                if failure is None:
                    raise
                wait = self._wait(number, failure)
                if wait is None:
                    raise failure.error from error
            await anyio.sleep(wait)
            number += 1

    def _wait(self, number: int, failure: Failure) -> float | None:
        """Seconds until the next attempt, or None when there is none."""
        if number >= self.attempts or not failure.retryable:
            return None
        if failure.retry_after is not None:
            return failure.retry_after if failure.retry_after <= self.longest_obeyed else None
        # Full jitter: many agents that failed together must not come back together.
        return random.uniform(0, min(self.longest_wait, self.first_wait * 2 ** (number - 1)))  # noqa: S311
