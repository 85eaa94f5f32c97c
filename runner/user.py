"""The user an execution works for. A value: no I/O, and nothing of what is remembered of the person."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo


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
