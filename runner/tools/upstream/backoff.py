"""When a failed upstream may be tried again.

Owns: the count of failures and the waits. Must not know: what failed.
Invariant: the first death of a healthy server costs no wait; a server that cannot be started is not started in a loop.
"""

from __future__ import annotations

LONGEST_WAIT = 30.0


class BackOff:
    """Waits of 1, 2, 4 … 30 seconds between attempts that keep failing; times are given by the caller."""

    def __init__(self) -> None:
        self._strikes = 0
        self._until = 0.0

    def remaining(self, now: float) -> float:
        """Return the seconds until the next attempt is due; 0 when it is."""
        return max(0.0, self._until - now)

    def died(self, now: float) -> None:
        """Note that a working server went away; the next attempt is due at once, unless it keeps doing so."""
        self._strike(now, self._strikes + 1)

    def refused(self, now: float) -> None:
        """Note that an attempt to start or reach the server failed."""
        self._strike(now, max(self._strikes, 1) + 1)

    def worked(self) -> None:
        """Note that the server did its work: what was is forgotten."""
        self._strikes = 0
        self._until = 0.0

    def _strike(self, now: float, strikes: int) -> None:
        self._strikes = strikes
        wait = 0.0 if strikes < 2 else min(2.0 ** min(strikes - 2, 10), LONGEST_WAIT)
        self._until = now + wait
