"""A guarantee: a promise in words, and how it is measured.

Owns: the vocabulary between those who measure and those who tell of it. Must not know: any promise.
Invariant: a measurement that finds the promise broken raises and has no figure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Course:
    """One measurement on its way."""

    folder: Path
    """Where it keeps how far it has come: one that was cut goes on from there."""
    seed: int
    tell: Callable[[str], None]
    """Says how far it is."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it."""

    figure: str
    n: int
    """How often it was tried."""


class Broken(Exception):
    """The promise does not hold."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One row of the table."""

    name: str
    promise: str
    measure: Callable[[Course], Measured]
