"""A failing endpoint is left alone: one breaker for all agents that ask it.

Owns when an endpoint counts as dead and when it is tried again. Knows no client and no request.
Invariant: while it is open nothing is sent, except one probe after each rest.

Many agents fail together when a connection is reset, and come back a moment later: failures open the breaker only when
there are many in a row *and* the row has lasted. One answer, even an error of the caller, ends the row. Calls that are
refused meanwhile wait as they would after any other failure, so the breaker spares the endpoint and fails no call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio

from runner.llm.failures import EndpointSuspended, ModelFailure
from runner.llm.protocol import ModelError

Answer = TypeVar("Answer")

DEAD = frozenset({"connection", "timeout", "server", "overloaded", "broken_stream"})
"""Kinds of errors by which an endpoint shows that nobody is served; refusals of one request are not among them."""


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When an endpoint counts as dead, and for how long."""

    failures: int = 8
    lasting: float = 1.0
    """Seconds from the start of the first failed attempt."""
    rest: float = 5.0
    """Seconds between two probes; short, because an outage that ends is to be noticed within `retry.for`."""


class Breaker:
    """The state of one endpoint."""

    def __init__(self, endpoint: str, settings: BreakerSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._failures = 0
        self._since = 0.0
        self._closed_again_at: float | None = None
        self._probing = False
        self._last: ModelError | None = None

    async def through(
        self, attempt: Callable[[], Awaitable[Answer]], failure_of: Callable[[Exception], ModelFailure | None]
    ) -> Answer:
        """Make an attempt if the endpoint is not left alone, and learn from how it ends.

        Raises what the attempt raises, or EndpointSuspended in its place while nothing is sent.
        """
        began = anyio.current_time()
        self._admit(began)
        try:
            answer = await attempt()
        except Exception as error:
            failure = failure_of(error)
            if failure is None or failure.error.kind not in DEAD:
                self._answered()
                raise
            self._failed(began, failure.error)
            raise
        except BaseException:
            self._probing = False  # cancelled: that says nothing, and the next one may probe
            raise
        self._answered()
        return answer

    def _refusal(self) -> EndpointSuspended | None:
        """Why nothing is sent at the moment, or None."""
        if self._closed_again_at is None:
            return None
        seconds = max(0.0, self._closed_again_at - anyio.current_time())
        again = f"in {seconds:.0f} s" if seconds >= 1 else "as soon as one trial call is through"
        return EndpointSuspended(
            f"`{self._endpoint}` failed {self._failures} times in a row and is left alone; it is tried again {again}",
            "check that the provider is up and can be reached, or name a `fallback` behind another endpoint",
            seconds,
            self._last.provider if self._last is not None else None,
        )

    def _admit(self, now: float) -> None:
        refusal = self._refusal()
        if refusal is None or self._closed_again_at is None:
            return
        if now < self._closed_again_at or self._probing:
            raise refusal
        self._probing = True

    def _failed(self, began: float, error: ModelError) -> None:
        self._last = error
        self._since = min(self._since, began) if self._failures else began
        self._failures += 1
        now = anyio.current_time()
        lasted = now - self._since >= self._settings.lasting
        if self._probing or (self._failures >= self._settings.failures and lasted):
            self._closed_again_at = now + self._settings.rest
        self._probing = False

    def _answered(self) -> None:
        self._failures = 0
        self._closed_again_at = None
        self._probing = False
