"""Sessions: the id that a tree of executions works under when whoever asked for it brought none.

Owns the shape, `sess_{unix seconds}_{6 of [a-z0-9]}`. Not a secret, and no proof of who asks.
Invariant: no two of one process are the same, because their tails follow a walk through all there are.
"""

from __future__ import annotations

import os
import secrets
import string
import time
from itertools import count

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
