"""Randomness that is the same everywhere.

Only `random.Random.random` is promised to stay the same between versions of Python, so everything is made of it. Each
purpose has its own dice: adding a line somewhere must not change the numbers elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Choice = TypeVar("Choice")

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet Kubernetes draws its suffixes from: no vowels, no look-alikes."""


class Dice:
    """A stream of chance for one purpose of one story."""

    def __init__(self, seed: int, purpose: str) -> None:
        self._random = Random(f"{seed}/{purpose}")  # noqa: S311 (made-up data, no secret)

    def between(self, low: float, high: float) -> float:
        """Anywhere from low to high."""
        return low + (high - low) * self._random.random()

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self._random.random() < probability

    def pick(self, choices: Sequence[Choice]) -> Choice:
        """One of them, all equally likely."""
        return choices[int(self._random.random() * len(choices))]

    def whole(self, mean: float) -> int:
        """A whole number whose average is the mean: the fraction decides how often it is rounded up."""
        return int(mean + self._random.random())

    def hexadecimal(self, length: int) -> str:
        """An identifier of lower-case hexadecimal digits."""
        return "".join(self.pick("0123456789abcdef") for _ in range(length))

    def suffix(self, length: int = 5) -> str:
        """An identifier as Kubernetes hangs it on the names of pods."""
        return "".join(self.pick(_LETTERS) for _ in range(length))
