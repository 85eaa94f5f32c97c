"""Ids: sortable by the time they were made, with 130 random bits, safe to paste into a shell.

Owns generation and the shape check; an id carries no meaning beyond its order and the moment it was made.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType

ExecutionId = NewType("ExecutionId", str)
Owner = NewType("Owner", str)
"""A process instance that runs executions."""

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no letter that reads like another."""

TIME_DIGITS, RANDOM_DIGITS = 11, 26
"""Microseconds until the year 3111, then 130 random bits."""

PATTERN = re.compile(f"[{ALPHABET}]{{{TIME_DIGITS + RANDOM_DIGITS}}}")

LAST = "\U0010ffff"
"""Sorts after every id: ids with a prefix lie between the prefix and the prefix followed by this."""

SHORT, LEAST_ENDING = 6, 4
"""Characters of an id's short form, which is its end: ids made at the same time begin alike and end at random. The second
number is the shortest end that names an id: fewer characters are too easily typed by mistake."""

_POOL: deque[str] = deque()
"""Random digits made in advance: reading them from the system one by one costs more than the rest of an id."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.clear)
_EPOCH = datetime.fromtimestamp(0, UTC)
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_DIGITS = bytes(ord(ALPHABET[byte % len(ALPHABET)]) for byte in range(256))
"""The digit for each random byte; every digit stands for eight bytes, so all are equally likely."""


def _random() -> str:
    while True:
        try:
            return _POOL.pop()  # one operation, so no two threads get the same
        except IndexError:
            many = secrets.token_bytes(RANDOM_DIGITS * 256).translate(_DIGITS).decode()
            _POOL.extend(many[start : start + RANDOM_DIGITS] for start in range(0, len(many), RANDOM_DIGITS))


@lru_cache(maxsize=4)
def _high(number: int) -> str:
    """The digits of a time that change once a second; cached, because thousands of ids are made."""
    return "".join(ALPHABET[number >> shift & 31] for shift in range(5 * (TIME_DIGITS - 5), -1, -5))


def new_id() -> str:
    """A fresh id for any row."""
    now = time.time_ns() // 1000
    return _high(now >> 20) + _PAIRS[now >> 10 & 1023] + _PAIRS[now & 1023] + _random()


def made_at(identifier: str) -> datetime:
    """The moment an id was made."""
    microseconds = 0
    for digit in identifier[:TIME_DIGITS]:
        microseconds = microseconds << 5 | ALPHABET.index(digit)
    return _EPOCH + timedelta(microseconds=microseconds)


def shortened(identifier: str, others: Iterable[str]) -> str:
    """The shortest end of an id, of at least six characters, with which none of the others ends or begins."""
    size = SHORT
    for other in others:
        if other != identifier:
            while other.endswith(identifier[-size:]) or other.startswith(identifier[-size:]):
                size += 1
    return identifier[-size:]


def named_among(given: str, identifiers: Iterable[str]) -> list[str]:
    """The ids that a whole or short id may mean, by the rule of `meanings` in `db/tables.py`."""
    known = list(identifiers)
    if given in known:
        return [given]
    begin = [each for each in known if given and each.startswith(given)]
    return begin or [each for each in known if len(given) >= LEAST_ENDING and each.endswith(given)]


def new_execution_id() -> ExecutionId:
    """A fresh execution id."""
    return ExecutionId(new_id())


def result_delivery(child: str) -> str:
    """The id of the delivery of a child's result: derived, so that a second one is refused by the primary key."""
    return f"{child}.result"


def inherited_delivery(child: str, heir: str) -> str:
    """The id of that delivery for an execution that continues the child's parent; each such execution has its own."""
    return f"{child}.result.{heir}"
