"""The identity of a caller: its principal, its scopes, and what it may see.

Owns how an identity travels from the HTTP guard to the handlers. Invariant: an HTTP request without an identity is refused;
only callers without an HTTP request (stdio, the command line) are local by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

READ_ALL = "executions:read_all"
"""The scope that lets a caller ask about executions of others, in SQL."""

SPEAK_FOR_ALL = "users:speak_for_all"
"""The scope that lets a caller hand over what any user says; others speak for themselves."""

KEY = "outrider.identity"
"""Where the guard leaves the identity in an ASGI scope."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller. Without a principal it is local: it could read the database file as well, so it sees everything."""

    principal: str | None = None
    scopes: frozenset[str] = frozenset()

    @property
    def reads_all(self) -> bool:
        """Whether it may ask about executions of others."""
        return self.principal is None or READ_ALL in self.scopes

    @property
    def speaks_for_all(self) -> bool:
        """Whether it may hand over what any user says."""
        return self.principal is None or SPEAK_FOR_ALL in self.scopes

    def sees(self, principal: str | None) -> bool:
        """Whether executions of `principal` exist for this caller."""
        return self.principal is None or self.principal == principal


LOCAL = Identity()


class NoIdentity(Exception):
    """A request came past the guard without an identity."""


def identity_of(request: Any | None) -> Identity:
    """The caller of a Starlette request, or of none; raises NoIdentity."""
    if request is None:
        return LOCAL
    found = request.scope.get(KEY)
    if not isinstance(found, Identity):
        raise NoIdentity
    return found
