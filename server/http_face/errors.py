"""Errors of the HTTP face: the reason why a server cannot start, and the JSON answer to a refused request.

Invariant: a refusal repeats nothing of the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.responses import JSONResponse


class HttpFault(Exception):
    """The server cannot start: the address, the tokens or the authentication settings do not allow it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def refusal(status: int, error: str, hint: str = "", headers: Mapping[str, str] | None = None) -> JSONResponse:
    """A JSON answer with an error and a hint."""
    from starlette.responses import JSONResponse  # late: every failing command imports this module for `HttpFault`

    return JSONResponse({"error": error} | ({"hint": hint} if hint else {}), status, headers)
