"""Errors of the HTTP face: the reason why a server cannot start, and the JSON answer to a refused request.

Owns which of two forms a refusal has: that of MCP clients, or a problem for the API and its pages. Invariant: a refusal
repeats nothing of the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from server.problem import problem

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

FOR_CLIENTS = ("/mcp", "/health", "/.well-known/")
"""Paths below which a refusal has the form that MCP clients know; elsewhere it is a problem."""


class HttpFault(Exception):
    """The server cannot start: the address, the tokens or the authentication settings do not allow it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def refusal(scope: Scope, status: int, error: str, hint: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer with an error and a hint, in the form of the path."""
    from starlette.responses import JSONResponse  # late: every failing command imports this module for `HttpFault`

    if scope["path"].startswith(FOR_CLIENTS):
        return JSONResponse({"error": error} | ({"hint": hint} if hint else {}), status, headers)
    return problem(status, error, hint, headers)
