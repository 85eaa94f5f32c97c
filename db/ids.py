"""Ids: sortable by the time they were made, with 128 random bits, safe to paste into a shell.

Owns generation and the shape check; an id carries no meaning beyond its order.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import NewType

ExecutionId = NewType("ExecutionId", str)
Owner = NewType("Owner", str)
"""A process instance that runs executions."""

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no letter that reads like another."""

TIME_DIGITS, RANDOM_DIGITS = 11, 26
"""Microseconds until the year 3111, then 130 bits of which 128 are random."""

PATTERN = re.compile(f"[{ALPHABET}]{{{TIME_DIGITS + RANDOM_DIGITS}}}")


_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_SHIFTS = range(10 * ((TIME_DIGITS + RANDOM_DIGITS) // 2), -1, -10)


def new_id() -> str:
    """A fresh id for any row."""
    number = (time.time_ns() // 1000 << 5 * RANDOM_DIGITS) | secrets.randbits(128)
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])[-TIME_DIGITS - RANDOM_DIGITS :]


def new_execution_id() -> ExecutionId:
    """A fresh execution id."""
    return ExecutionId(new_id())


def result_delivery(child: str) -> str:
    """The id of the delivery of a child's result: derived, so that a second one is refused by the primary key."""
    return f"{child}.result"
