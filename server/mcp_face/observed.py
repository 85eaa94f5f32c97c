"""Observed requests: observers are told of what MCP clients ask, and the client's trace goes on through it.

Owns the middleware. Must not know: spans, metrics. Invariant: a request is answered as without it; only the trace context
in its metadata is replaced, by that of its own span. The SDK's own span for each message stays silent: it belongs to the
global provider, which Outrider never sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import mcp_types as t
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.exceptions import MCPError

from db.clock import loop_time
from runner.telemetry.names import OTHER, PIPE, TCP, TOOLS_CALL
from runner.telemetry.observer import ObservedRequest, Observers, RequestOutcome
from runner.trace_context import trace_context

OBSERVED = (TOOLS_CALL, "prompts/get", "resources/read", "tasks/get", "tasks/result", "tasks/cancel")
"""Methods that do something; lists and handshakes are left out."""
TOOL_ERROR = "tool_error"


class ObservedRequests:
    """A middleware of the SDK's server."""

    def __init__(self, observers: Observers, tools: frozenset[str]) -> None:
        self._observers, self._tools = observers, tools

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method not in OBSERVED:
            return await call_next(ctx)
        about, begun = self._about(ctx), loop_time()
        end = self._observers.request(about)
        outcome = RequestOutcome(0.0)
        if about.carried:
            ctx = replace(ctx, meta=cast("t.RequestParamsMeta", {**(ctx.meta or {}), **about.carried}))
        try:
            result = await call_next(ctx)
            if _is_tool_error(result):
                outcome = replace(outcome, error_type=TOOL_ERROR)
            return result
        except MCPError as error:
            outcome = replace(outcome, error_type=str(error.error.code), code=error.error.code)
            raise
        except Exception:
            outcome = replace(outcome, error_type=OTHER)
            raise
        finally:
            end(replace(outcome, seconds=loop_time() - begun))

    def _about(self, ctx: ServerRequestContext[Any, Any]) -> ObservedRequest:
        target = ctx.params.get("name") if ctx.params and ctx.method == TOOLS_CALL else None
        return ObservedRequest(
            method=ctx.method,
            target=target if isinstance(target, str) and target in self._tools else None,
            id=str(ctx.request_id),
            protocol=ctx.protocol_version,
            transport=PIPE if ctx.request is None else TCP,
            session=ctx.request.headers.get(MCP_SESSION_ID_HEADER) if ctx.request is not None else None,
            meta=trace_context(ctx.meta or {}),
        )


def _is_tool_error(result: HandlerResult) -> bool:
    if isinstance(result, Mapping):
        return result.get("isError") is True
    return isinstance(result, t.CallToolResult) and bool(result.is_error)
