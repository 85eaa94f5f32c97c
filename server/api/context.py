"""What the API works with: the service, the sessions of browsers, the feed, and how a token is checked.

It stands apart from the endpoints, which all work with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.origin import new_session

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

    from server.api.feed import Feed
    from server.caller.sessions import Sessions
    from server.identity import Identity
    from server.service import Service

CheckToken = Callable[["Scope", str], Awaitable["tuple[Identity, float | None] | Response"]]
"""The owner of a bearer token and the end of the token, or the refusal of the request with it."""


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The surroundings of the API."""

    service: Service
    sessions: Sessions
    check: CheckToken | None
    """None where a caller needs no token."""
    feed: Feed
    tickets_only: bool = False
    """Whether only a one-time token opens a session."""
    author: str = "a person at the dashboard"
    """Recorded as the author of what a local caller does."""
    session: str = field(default_factory=new_session)
    """The session of local callers, who cannot be told apart."""
