"""A caller whose token was accepted, and the reasons why one was not.

Owns what the ways to authenticate have in common. Invariant: neither a reason nor a representation holds a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a token belongs to. A session of MCP belongs to client, issuer and subject together."""

    principal: str
    scopes: frozenset[str]
    client: str
    issuer: str | None = None
    expires_at: int | None = None


class BadToken(Exception):
    """The token proves nothing here; the reason is for the log and for the caller."""


class MissingScopes(Exception):
    """The token is good, but not for this."""

    def __init__(self, scopes: Sequence[str]) -> None:
        super().__init__(" ".join(scopes))


class CannotTell(Exception):
    """Whether the token is good cannot be found out now: its issuer cannot be asked."""


class Verifier(Protocol):
    """One way to authenticate."""

    async def verify(self, token: str) -> Caller | None:
        """The caller, or None when it is no token of this kind; raises BadToken, MissingScopes or CannotTell."""
        ...
