"""Retries: the one place where a model call is repeated.

Owns the time for retries, the waits between attempts, and the order of a model and its fallbacks. Knows neither providers
nor requests: an attempt is a function, and its failure says whether a retry can help. The SDK's own retries are off, so
every request is counted here. Invariant: cancelling ends a wait or an attempt at once and starts none.

All models that may be asked are asked in order before any wait: a fallback's answer is better than a minute of waiting.
Then all wait together, and the first model is first again.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

from db.clock import loop_time
from registry import Retry
from runner.llm.failures import FailureOf, ModelFailure
from runner.llm.protocol import ModelError, Pause, RetryWait

Answer = TypeVar("Answer")

MIDWAY = 3
"""Attempts of one model that may break off during the answer: the tokens of each may be billed."""
_DOUBLINGS = 20


@dataclass(slots=True)
class ModelCandidate(Generic[Answer]):
    """A model that may be asked, over all attempts of one call."""

    name: str
    attempt: Callable[[], Awaitable[Answer]]
    failure_of: FailureOf
    failure: ModelFailure | None = None
    """Its last failure, other than an open breaker."""
    out: bool = False
    """Whether a retry cannot help."""
    not_before: float = 0.0
    midway: int = 0

    def failed(self, failure: ModelFailure) -> None:
        """Record a failed attempt."""
        if self.failure is None or failure.error.kind != "circuit_open":
            self.failure = failure
        self.midway += failure.midway
        self.out = not failure.retryable or self.midway >= MIDWAY
        self.not_before = loop_time() + (failure.retry_after or 0.0)


async def _sleep(wait: RetryWait) -> None:
    await anyio.sleep(wait.seconds)


class Retrying(Generic[Answer]):
    """One call, over all its attempts; the first candidate is the requested model."""

    def __init__(self, retry: Retry, candidates: Sequence[ModelCandidate[Answer]], pause: Pause | None = None) -> None:
        self._retry, self._candidates, self._pause = retry, candidates, pause or _sleep
        self._made = self._made_before = 0
        """Attempts sent so far, and at the last wait."""
        self._rounds = 0
        self._began: float | None = None
        """When the first attempt failed."""

    async def ask(self) -> Answer:
        """The first answer. Raises the first model's error when retries cannot help or the time is over."""
        while True:
            for each in self._candidates:
                if each.out or each.not_before > loop_time():
                    continue
                try:
                    return await each.attempt()
                except Exception as error:
                    self._record(each, error)
            await self._pause(self._next())

    def _record(self, candidate: ModelCandidate[Answer], error: Exception) -> None:
        """Record a failure; raises it at once for a bug, or for a mistake that no fallback should hide."""
        failure = candidate.failure_of(error)
        if failure is None:
            raise error
        if failure.error is not error:
            failure.error.__cause__ = error
        candidate.failed(failure)
        self._made += failure.error.kind != "circuit_open"
        self._began = loop_time() if self._began is None else self._began
        if candidate is self._candidates[0] and candidate.out and not failure.elsewhere:
            raise failure.error

    def _next(self) -> RetryWait:
        """The next wait; raises the error of a call that is given up."""
        assert self._began is not None
        now = loop_time()
        left = self._began + self._retry.seconds - now
        waiting = [each for each in self._candidates if not each.out]
        if not waiting or left <= 0:
            raise self._given_up(now)
        # An attempt that was not sent does not lengthen the wait: the end of the outage is noticed soon.
        self._rounds, self._made_before = self._rounds + (self._made > self._made_before), self._made
        # Full jitter: agents that failed together must not retry together.
        doubled = self._retry.first_wait * 2 ** min(max(0, self._rounds - 1), _DOUBLINGS)
        jitter = random.uniform(0, min(self._retry.longest_wait, doubled))  # noqa: S311
        next_up = min(waiting, key=lambda each: each.not_before)
        earliest = max(0.0, next_up.not_before - now)
        left = min(left, max(0.0, anyio.current_effective_deadline() - now))
        if earliest > left:
            raise self._given_up(now, f"it cannot be asked again for {earliest:.0f} s, and {left:.0f} s are left")
        # The last attempt is made at the end of the time, not before.
        seconds = max(earliest, min(left, earliest + jitter))
        assert next_up.failure is not None
        return RetryWait(next_up.name, next_up.failure.error, seconds, left)

    def _given_up(self, now: float, why: str = "") -> ModelError:
        first, *others = self._candidates
        assert first.failure is not None
        assert self._began is not None
        error = first.failure.error
        parts = [str(error)]
        if failed := [f"`{each.name}`" for each in others if each.failure is not None]:
            parts.append(f"{', '.join(failed)} failed, too")
        if why:
            parts.append(why)
        elif self._made > 1:
            parts.append(f"asked {self._made} times in {now - self._began:.3g} s")
        message = "; ".join(parts)
        given_up = ModelError(error.kind, message, error.hint, recoverable=error.recoverable, provider=error.provider)
        given_up.__cause__ = error.__cause__
        return given_up
