"""Sessions of browsers: a page proves once who it is, and a cookie stands for that afterwards.

Owns the secrets of sessions and one-time tokens, of which only digests are kept, and their ends: a session ends some time
after its last use, with its token, or when there are too many. Must not know: how a cookie travels. Invariant: a one-time
token makes one session.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from server.identity import Identity

MOST = 1_000
"""Sessions held; the one that was not used for longest makes room."""
IDLE_SECONDS = 12 * 3_600.0
"""A session that is not used for this time has ended."""
LONGEST_SECONDS = 7 * 24 * 3_600.0
"""A session ends at this age, however much it is used."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """What a cookie stands for."""

    who: Identity
    used: float
    ends: float
    left: anyio.Event
    """Set when it ends before its time."""


class Sessions:
    """The sessions of one process."""

    def __init__(self, clock: Callable[[], float] = time.time, most: int = MOST) -> None:
        self._clock, self._most = clock, most
        self._open: dict[bytes, BrowserSession] = {}
        """By digest of the secret; the one that was used last comes last."""
        self._tickets: dict[bytes, Identity] = {}

    def enter(self, who: Identity, expires_at: float | None = None) -> str:
        """Begin a session, which ends with the token at the latest; returns its secret."""
        now, secret = self._clock(), secrets.token_urlsafe(32)
        longest = now + LONGEST_SECONDS
        ends = longest if expires_at is None else min(longest, expires_at)
        self._open[_digest(secret)] = BrowserSession(who, now, ends, anyio.Event())
        while len(self._open) > self._most:
            self._end(next(iter(self._open)))
        return secret

    def find(self, secret: str) -> Identity | None:
        """Who a cookie stands for; None if its session has ended."""
        digest, now = _digest(secret), self._clock()
        found = self._open.get(digest)
        if found is None or now >= found.ends or now - found.used > IDLE_SECONDS:
            self._end(digest)
            return None
        del self._open[digest]
        self._open[digest] = replace(found, used=now)
        return found.who

    def leave(self, secret: str) -> None:
        """End a session, if there is one."""
        self._end(_digest(secret))

    def _end(self, digest: bytes) -> None:
        found = self._open.pop(digest, None)
        if found is not None:
            found.left.set()

    async def until_over(self, secret: str) -> None:
        """Return when a session has ended, for whichever reason."""
        found = self._open.get(_digest(secret))
        if found is not None:
            with anyio.move_on_after(max(0.0, found.ends - self._clock())):
                await found.left.wait()

    def ticket(self, who: Identity) -> str:
        """A token that can be exchanged once for a session."""
        token = secrets.token_urlsafe(32)
        self._tickets[_digest(token)] = who
        return token

    def redeem(self, token: str) -> Identity | None:
        """Who a one-time token is for; None for any other token, and the second time."""
        return self._tickets.pop(_digest(token), None)

    @property
    def gives_tickets(self) -> bool:
        """Whether a one-time token waits to be exchanged."""
        return bool(self._tickets)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
