"""The origin of a tree: who asked for it, for whom, in which session and trace. Every execution of it has the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runner.session import new_session
from runner.user import User


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
