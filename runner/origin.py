"""The origin of a tree: the principal who asked for it, its user, its session and its trace. Every execution of it has the
same.

Owns the shape of a session id, `sess_{unix seconds}_{6 of [a-z0-9]}`, for a caller that brought none. A session id is not a
secret, and no proof of who asks. Invariant: no two session ids of one process are the same.
"""

from __future__ import annotations

import os
import secrets
import string
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a top-level execution came from."""

    principal: str | None = None
    """Whose it is; None for somebody at this machine."""
    session: str | None = None
    trace: Mapping[str, str] = field(default_factory=dict)
    """The caller's trace context, sent on with every call of an upstream server."""
    user: User | None = None
    """The person it works for."""

    def in_session(self) -> Origin:
        """The same, in a session of its own where whoever asked brought none."""
        return self if self.session is not None else replace(self, session=new_session())


NOWHERE = Origin()

ALPHABET = string.ascii_lowercase + string.digits
LENGTH = 6

_TAILS: int = len(ALPHABET) ** LENGTH
_STRIDE = 1_345_338_047
"""Has no factor in common with the number of tails, so that a walk by it comes to each of them once."""


class _Walk:
    """From a random tail on, through all of them."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._steps = count(secrets.randbelow(_TAILS))

    def next(self) -> int:
        return next(self._steps) * _STRIDE % _TAILS


_WALK = _Walk()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WALK.begin)


def new_session() -> str:
    """A fresh session id."""
    number = _WALK.next()
    tail = ""
    for _ in range(LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        tail += ALPHABET[digit]
    return f"sess_{int(time.time())}_{tail}"


@dataclass(frozen=True, slots=True)
class User:
    """A person agents work for, as every agent may know them."""

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
