"""The origin of a tree: its principal, user, session and trace. All executions of a tree share it.

Owns the form of a session id, `sess_{unix seconds}_{6 of [a-z0-9]}`, for a caller without one. A session id is neither a
secret nor a proof of identity. Invariant: the session ids of one process are unique.
"""

from __future__ import annotations

import os
import secrets
import string
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a root."""

    principal: str | None = None
    """The authenticated caller; None for a local one."""
    session: str | None = None
    trace: Mapping[str, str] = field(default_factory=dict)
    """The caller's trace context, forwarded with every call to an upstream server."""
    user: User | None = None
    """The user it works for."""

    def in_session(self) -> Origin:
        """This origin with a session: the caller's, or a new one."""
        return self if self.session is not None else replace(self, session=new_session())


NOWHERE = Origin()

ALPHABET = string.ascii_lowercase + string.digits
LENGTH = 6

_TAILS: int = len(ALPHABET) ** LENGTH
_STRIDE = 1_345_338_047
"""Coprime to the number of tails, so that the walk reaches each of them once."""


@cache
def _steps(_process: int) -> Iterator[int]:
    """The walk of a process, from a random tail; a forked process has its own."""
    return count(secrets.randbelow(_TAILS))


def new_session() -> str:
    """A fresh session id."""
    number = next(_steps(os.getpid())) * _STRIDE % _TAILS
    tail = ""
    for _ in range(LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        tail += ALPHABET[digit]
    return f"sess_{int(time.time())}_{tail}"


@dataclass(frozen=True, slots=True)
class User:
    """A person agents work for; every agent may see these fields."""

    id: str
    name: str
    timezone: str = "UTC"
    """An IANA name."""
    locale: str = "en"
    """BCP 47: a language, perhaps with a script or a region."""
    capabilities: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()

    @property
    def zone(self) -> ZoneInfo:
        """The user's time zone."""
        return ZoneInfo(self.timezone)
