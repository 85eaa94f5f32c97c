"""The calls of the tools by MCP clients: carried out, with answers and errors as MCP results.

Owns the conversion, and the set of error types. Invariant: every call gets a result, the type of an error is one of a
closed set, and no traceback is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal, get_args

import mcp_types as t

from db.errors import StoreError
from runner.errors import RefusalKind, RunnerError
from runner.messages import ToolCall
from runner.snapshot import DISPATCH
from runner.tools.builtin import OwnTools, refuse
from runner.tools.dispatch import GET_RESULT
from runner.tools.protocol import ToolResult
from server.mcp_face.chat_tools import SEND_USER_MESSAGE
from server.mcp_face.client import Client
from server.mcp_face.dispatch_tools import RUN_AGENT
from server.mcp_face.elicitation import PersonWanted, Round
from server.mcp_face.tools import TABLE, tools_of

log = logging.getLogger("outrider.mcp")

ErrorType = (
    RefusalKind
    | Literal[
        "unknown_tool",
        "invalid_arguments",
        "not_found",
        "unknown_chain",
        "query_refused",
        "unavailable",
        "internal",
    ]
)
ERROR_TYPES = frozenset(name for part in get_args(ErrorType) for name in get_args(part))
"""The types of an error. Clients may rely on this set."""

ERROR = "io.github.outrider-dev/error"
"""The key in `_meta` of an error: its type, message and hint, for programs."""

NOT_FOUND = frozenset({"not_found", "unknown_agent", "unknown_chain"})


async def called(client: Client, call: ToolCall) -> t.CallToolResult:
    """Call a tool. A failure becomes an error result; only PersonWanted is raised."""
    try:
        result = await OwnTools(tools_of(client, call.name)).call(call)
    except PersonWanted:
        raise
    except (StoreError, RunnerError) as error:
        log.warning("a call of `%s` failed: %s", call.name, error)
        result = refuse("unavailable", str(error), error.hint or "try again in a moment")
    except Exception:
        log.exception("a call of `%s` failed", call.name)
        result = refuse("internal", f"`{call.name}` failed inside Outrider", "try again; its log has the details")
    return _with_late_answers(client, wire(call.name, _placed(client, result)))


def _with_late_answers(client: Client, result: t.CallToolResult) -> t.CallToolResult:
    """Append the notes about answers that came too late."""
    if not client.late:
        return result
    return result.model_copy(update={"content": [*result.content, _text("\n".join(client.late))]})


def _placed(client: Client, result: ToolResult) -> ToolResult:
    """Add the paths of configuration and database to a not-found error. Callers with a principal must not see paths."""
    if not result.is_error or result.error_type not in NOT_FOUND or client.who.principal is not None:
        return result
    services, problem = client.dispatcher.services, result.structured
    places = f"\n  configuration: {services.settings.source}\n  database: {services.database.path}"
    return refuse(problem["type"], problem["message"] + places, problem["hint"])


async def called_again(client: Client, call: ToolCall, before: Round, answers: Mapping[str, Any]) -> t.CallToolResult:
    """Continue a call that ended with questions, with their answers. It waits for the execution it started before."""
    await client.answer_all(before.waited, answers, before.shown)
    if call.name in (RUN_AGENT, SEND_USER_MESSAGE):
        wait = {name: value for name, value in call.arguments.items() if name == "wait_seconds"}
        call = ToolCall(call.id, GET_RESULT, {"execution_id": before.waited[0], **wait})
    return await called(client, call)


async def dispatched(client: Client, call: ToolCall) -> t.CallToolResult:
    """Call a tool that starts an execution, without its wait."""
    if call.name == RUN_AGENT:
        arguments = {name: value for name, value in call.arguments.items() if name != "wait_seconds"}
        call = ToolCall(call.id, DISPATCH, arguments)
    return await called(client, call)


def wire(name: str, result: ToolResult) -> t.CallToolResult:
    """A tool result as MCP: text for models, and the structured form."""
    if result.is_error:
        assert result.error_type in ERROR_TYPES
        # No structured content: clients validate it against the output schema even in an error.
        return t.CallToolResult(content=[_text(result.text)], is_error=True, _meta={ERROR: result.structured})
    return t.CallToolResult(content=[_text(TABLE[name].render(result.structured))], structured_content=result.structured)


def _text(text: str) -> t.TextContent:
    return t.TextContent(type="text", text=text)
