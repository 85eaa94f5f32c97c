"""Facts about what goes wrong, and about what people do about it; everything else that happens is in `runner/facts.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from db.error_records import Fix
from db.writes import Place


@dataclass(frozen=True, slots=True)
class Refused:
    """A dispatch was not admitted."""

    place: Place
    agent: str
    wanted: str
    kind: str
    message: str
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """Something went wrong that somebody should look at."""

    place: Place
    agent: str
    kind: str
    message: str
    severity: str = "high"
    context: Mapping[str, Any] = field(default_factory=dict)
    stack_trace: str | None = None
    same: str | None = None
    """What two errors of one agent have in common that are the same, where it is not the message."""


@dataclass(frozen=True, slots=True)
class Addressed:
    """Somebody does something about an error."""

    fix: Fix


ErrorFact = Refused | Failed | Addressed
