"""Circuit breaker: a failing endpoint gets no requests; all agents share one breaker per endpoint.

Owns when an endpoint counts as dead and when it is probed. Knows no client and no request.
Invariant: while it is open nothing is sent, except one probe after each rest.

Many agents fail together when a connection is reset, and recover a moment later. So failures open the breaker only when
there are many in a row *and* the row has lasted. One answer, even an error of the caller, ends the row. Refused calls
wait and retry as after any other failure: the breaker spares the endpoint and fails no call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from db.clock import loop_time
from runner.llm.failures import EndpointSuspended, FailureOf
from runner.llm.protocol import ModelError

Answer = TypeVar("Answer")

DEAD = frozenset({"connection", "timeout", "server", "overloaded", "broken_stream"})
"""Kinds of errors that show a dead endpoint; refusals of single requests are not among them."""


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When an endpoint counts as dead, and for how long."""

    failures: int = 8
    lasting: float = 1.0
    """Seconds from the start of the first failed attempt."""
    rest: float = 5.0
    """Seconds between two probes; short, so that the end of an outage is noticed within `retry.for`."""


class Breaker:
    """The state of one endpoint."""

    def __init__(self, endpoint: str, settings: BreakerSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._failures = 0
        self._since = 0.0
        self._next_probe_at: float | None = None
        self._probing = False
        self._last: ModelError | None = None

    async def through(self, attempt: Callable[[], Awaitable[Answer]], failure_of: FailureOf) -> Answer:
        """Make an attempt unless the breaker is open, and record its outcome.

        Raises the attempt's exception, or EndpointSuspended while nothing is sent.
        """
        began = loop_time()
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
            self._probing = False  # cancelled: no verdict, the next attempt may probe
            raise
        self._answered()
        return answer

    def _refusal(self) -> EndpointSuspended | None:
        """The refusal while the breaker is open, or None."""
        if self._next_probe_at is None:
            return None
        seconds = max(0.0, self._next_probe_at - loop_time())
        again = f"in {seconds:.0f} s" if seconds >= 1 else "after the current probe"
        return EndpointSuspended(
            f"`{self._endpoint}` failed {self._failures} times in a row and is suspended; it is probed {again}",
            "check that the provider is up and reachable, or name a `fallback` behind another endpoint",
            seconds,
            self._last.provider if self._last is not None else None,
        )

    def _admit(self, now: float) -> None:
        refusal = self._refusal()
        if refusal is None or self._next_probe_at is None:
            return
        if now < self._next_probe_at or self._probing:
            raise refusal
        self._probing = True

    def _failed(self, began: float, error: ModelError) -> None:
        self._last = error
        self._since = min(self._since, began) if self._failures else began
        self._failures += 1
        now = loop_time()
        lasted = now - self._since >= self._settings.lasting
        if self._probing or (self._failures >= self._settings.failures and lasted):
            self._next_probe_at = now + self._settings.rest
        self._probing = False

    def _answered(self) -> None:
        self._failures = 0
        self._next_probe_at = None
        self._probing = False
