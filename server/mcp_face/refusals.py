"""Requests that go wrong outside of a tool, in words: the field is named, and nothing of the inside is told.

Owns what becomes of every exception that a handler lets through; the SDK would send its text. Must not know: the handlers.
"""

from __future__ import annotations

import logging
from typing import Any

import mcp_types as t
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from db.errors import UnknownExecution

log = logging.getLogger("outrider.mcp")

LONGEST_METHOD = 100


async def in_words(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer a request; whatever goes wrong is an error that a client can show to people."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        raise MCPError(t.INVALID_PARAMS, f"the parameters of `{ctx.method}` were refused: {_fields(error)}") from None
    except UnknownExecution as error:  # a short id that means several; what means none is answered where it is looked for
        raise MCPError(t.INVALID_PARAMS, f"{error}: {error.hint}") from None
    except MCPError as error:
        if error.error.code == t.METHOD_NOT_FOUND:
            raise MCPError(t.METHOD_NOT_FOUND, "Method not found", ctx.method[:LONGEST_METHOD]) from None
        raise
    except Exception:
        log.exception("`%s` failed", ctx.method[:LONGEST_METHOD])
        reason = f"`{ctx.method[:LONGEST_METHOD]}` failed inside Outrider; try again, its log has the details"
        raise MCPError(t.INTERNAL_ERROR, reason) from None


def _fields(error: ValidationError) -> str:
    """The parameters in question: their names only, for below them stand names of classes and values."""
    found: dict[str, str] = {}
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        where = [str(part) for part in each["loc"] if part != "params"]
        missing = each["type"] == "missing" and len(where) == 1
        found.setdefault(where[0] if where else "params", "is required" if missing else "is not as the protocol wants it")
    return "; ".join(f"`{name}` {what}" for name, what in found.items())
