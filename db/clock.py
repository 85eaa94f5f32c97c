"""Stored times: UTC, ISO-8601, microseconds, fixed width, so that they sort as text."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(moment: datetime | None = None) -> str:
    """The stored form of a moment (now, if none is given)."""
    moment = datetime.now(UTC) if moment is None else moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment(stamped: str) -> datetime:
    """The moment a stored time stands for."""
    return datetime.fromisoformat(stamped.replace("Z", "+00:00"))
