"""The tools as MCP clients see them: titles, descriptions with the agents on offer, schemas, annotations and results.

Owns the table of tools, and the conversion of answers and errors to MCP results. Invariant: every call gets a result, the
type of an error is one of a closed set, and no traceback is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import mcp_types as t
from pydantic import BaseModel

from db.errors import StoreError
from registry import Settings
from runner.errors import RefusalKind, RunnerError
from runner.messages import ToolCall
from runner.snapshot import DISPATCH
from runner.tools.builtin import OwnTool, OwnTools, refuse
from runner.tools.dispatch import ASK_FOR_IT, CANCEL, GET_RESULT, LIST, WAIT_FOR, dispatch_tools
from runner.tools.protocol import ToolResult
from runner.tools.read_result import NAME as READ_RESULT
from server.mcp_face import schemas, text
from server.mcp_face.chat_tools import SEND_USER_MESSAGE, chat_tools
from server.mcp_face.client import Client
from server.mcp_face.dispatch_tools import RUN_AGENT, RUN_CHAIN, SEND_MESSAGE, start_tools
from server.mcp_face.elicitation import PersonWanted, Round
from server.mcp_face.query_tools import LIST_EXECUTIONS, QUERY, TREE, query_tools

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

# Only hints that differ from the protocol's defaults: read-write, destructive, not idempotent, open-world.
LOOKS = t.ToolAnnotations(read_only_hint=True, open_world_hint=False)
STARTS = t.ToolAnnotations(destructive_hint=False)
SPEAKS = t.ToolAnnotations(destructive_hint=False, open_world_hint=False)
STOPS = t.ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False)


@dataclass(frozen=True, slots=True)
class Presentation:
    """The title, hints, answer schema and text renderer of a tool."""

    title: str
    hints: t.ToolAnnotations
    answer: type[BaseModel]
    render: text.Render


TABLE: Mapping[str, Presentation] = {
    LIST: Presentation("List agents", LOOKS, schemas.AgentsAnswer, text.agents),
    DISPATCH: Presentation("Dispatch an agent", STARTS, schemas.DispatchAnswer, text.dispatched),
    GET_RESULT: Presentation("Get a result", LOOKS, schemas.ResultAnswer, text.described),
    WAIT_FOR: Presentation("Wait for agents", LOOKS, schemas.WaitAnswer, text.waited),
    CANCEL: Presentation("Cancel an agent", STOPS, schemas.CancelAnswer, text.cancelled),
    SEND_MESSAGE: Presentation("Steer an agent", SPEAKS, schemas.MessageAnswer, text.accepted),
    READ_RESULT: Presentation("Read a long result", LOOKS, schemas.TextPart, text.part),
    RUN_AGENT: Presentation("Run an agent", STARTS, schemas.ExecutionState, text.described),
    RUN_CHAIN: Presentation("Run a chain", STARTS, schemas.DispatchAnswer, text.dispatched),
    SEND_USER_MESSAGE: Presentation("Hand over a user's message", STARTS, schemas.ChatAnswer, text.spoken),
    LIST_EXECUTIONS: Presentation("List executions", LOOKS, schemas.ListAnswer, text.listing),
    TREE: Presentation("Show an execution tree", LOOKS, schemas.TreeAnswer, text.tree),
    QUERY: Presentation("Query executions in SQL", LOOKS, schemas.RowsAnswer, text.as_json),
}
"""Every tool, in the order clients see them."""


STARTING = frozenset({DISPATCH, RUN_AGENT, RUN_CHAIN})
"""The tools whose calls can be tasks: they start an execution, and its result is the answer the client wants."""


Make = Callable[[Client], list[OwnTool[Any]]]

MAKERS: Mapping[frozenset[str], Make] = {
    frozenset({LIST, DISPATCH, GET_RESULT, WAIT_FOR, CANCEL}): lambda client: dispatch_tools(client, ASK_FOR_IT),
    frozenset({RUN_AGENT, RUN_CHAIN, SEND_MESSAGE}): start_tools,
    frozenset({SEND_USER_MESSAGE}): chat_tools,
    frozenset({READ_RESULT, LIST_EXECUTIONS, TREE, QUERY}): query_tools,
}
"""The factories of tools, by the names of the tools they make."""


def tools_of(client: Client, name: str | None = None) -> list[OwnTool[Any]]:
    """The tools of a client, in the order of the table; with a name, only those of its factory."""
    tools = [tool for names, make in MAKERS.items() if name is None or name in names for tool in make(client)]
    if not client.dispatcher.services.settings.chains:
        tools = [tool for tool in tools if tool.name != RUN_CHAIN]
    order = list(TABLE)
    return sorted(tools, key=lambda tool: order.index(tool.name))


def listed(client: Client) -> list[t.Tool]:
    """The tools as `tools/list` shows them."""
    settings = client.dispatcher.services.settings
    return [_listed(tool, settings) for tool in tools_of(client)]


def _listed(tool: OwnTool[Any], settings: Settings) -> t.Tool:
    looks, definition = TABLE[tool.name], tool.definition()
    return t.Tool(
        name=tool.name,
        title=looks.title,
        description=definition.description + _choices(tool.name, settings),
        input_schema=dict(definition.input_schema),
        output_schema=schemas.schema_of(looks.answer),
        annotations=looks.hints,
    )


def _choices(name: str, settings: Settings) -> str:
    """The agents or chains the tool can start, so that a model need not list them before its first dispatch."""
    if name == DISPATCH:
        return "\n\nAgents:\n" + "\n".join(f"- {entry.name}: {entry.description}" for entry in settings.offered())
    if name == RUN_CHAIN:
        chains = settings.chains.values()
        return "\n\nChains:\n" + "\n".join(
            f"- {chain.name}: {chain.description or 'a chain of agents'}" for chain in chains
        )
    return ""


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
