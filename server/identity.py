"""The identity of a caller: its principal, its scopes, and the executions it may see.

Owns how an identity travels from HTTP authentication to the handlers. Invariant: an HTTP request without an identity is
refused; only callers without an HTTP request (stdio, the command line) are local by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

READ_ALL = "executions:read_all"
"""The scope for SQL queries, which read the executions of every principal."""

SPEAK_FOR_ALL = "users:speak_for_all"
"""The scope to send messages for any user; without it, a caller sends only its own."""

KEY = "outrider.identity"
"""The key of the identity in an ASGI scope, set by authentication."""

BEARER = "outrider.bearer"
"""The key in an ASGI scope of a request with a bearer token: no page of another site can have sent it."""

EXPIRES = "outrider.expires"
"""The key in an ASGI scope of the time at which the bearer token of a request expires; None if it does not."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller. One without a principal is local: it can read the database file anyway, so it sees every execution."""

    principal: str | None = None
    scopes: frozenset[str] = frozenset()

    @property
    def reads_all(self) -> bool:
        """Whether it may query the executions of every principal."""
        return self.principal is None or READ_ALL in self.scopes

    @property
    def speaks_for_all(self) -> bool:
        """Whether it may send messages for any user."""
        return self.principal is None or SPEAK_FOR_ALL in self.scopes

    def sees(self, principal: str | None) -> bool:
        """Whether this caller sees the executions of `principal`."""
        return self.principal is None or self.principal == principal


LOCAL = Identity()


class NoIdentity(Exception):
    """An HTTP request reached a handler without an identity."""


def identity_of(request: Any | None) -> Identity:
    """The caller of a Starlette request, or LOCAL without one; raises NoIdentity."""
    if request is None:
        return LOCAL
    found = request.scope.get(KEY)
    if not isinstance(found, Identity):
        raise NoIdentity
    return found
