"""A request that is not answered by a route, as a small JSON body.

Owns its form: `error`, and a `hint` where the caller can do something. Invariant: nothing of the request is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse


def refusal(status: int, error: str, hint: str = "", headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An answer that says why not."""
    return JSONResponse({"error": error} | ({"hint": hint} if hint else {}), status, headers)
