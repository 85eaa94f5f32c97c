"""The tools as MCP clients see them: titles, descriptions with the agents on offer, schemas and annotations.

Owns the table of tools, and the list that clients get. Must not know: the SDK, the database. Both take longer to import
than a client should wait for this list (`server/mcp_face/early.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from registry import CatalogueEntry, Settings
from runner.snapshot import DISPATCH
from runner.tools.builtin import OwnTool
from runner.tools.dispatch import ASK_FOR_IT, CANCEL, GET_RESULT, LIST, WAIT_FOR, dispatch_tools
from runner.tools.read_result import NAME as READ_RESULT
from server.identity import Identity
from server.mcp_face import schemas, text
from server.mcp_face.app_tools import FOLLOW_TREE, META, READ_EXECUTION, app_tools
from server.mcp_face.chat_tools import SEND_USER_MESSAGE, chat_tools
from server.mcp_face.dispatch_tools import RUN_AGENT, RUN_CHAIN, SEND_MESSAGE, start_tools
from server.mcp_face.query_tools import LIST_EXECUTIONS, QUERY, TREE, query_tools

if TYPE_CHECKING:
    from server.mcp_face.client import Client

Hints = Mapping[str, bool]

# Only hints that differ from the protocol's defaults: read-write, destructive, not idempotent, open-world.
LOOKS: Hints = {"openWorldHint": False, "readOnlyHint": True}
STARTS: Hints = {"destructiveHint": False}
SPEAKS: Hints = {"destructiveHint": False, "openWorldHint": False}
STOPS: Hints = {"destructiveHint": True, "idempotentHint": True, "openWorldHint": False}


@dataclass(frozen=True, slots=True)
class Presentation:
    """The title, hints, answer schema and text renderer of a tool."""

    title: str
    hints: Hints
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
    FOLLOW_TREE: Presentation("Follow an execution tree", LOOKS, schemas.TreeChanges, text.changes),
    READ_EXECUTION: Presentation("Read an execution", LOOKS, schemas.ExecutionPart, text.as_json),
}
"""Every tool, in the order clients see them."""


STARTING = frozenset({DISPATCH, RUN_AGENT, RUN_CHAIN})
"""The tools whose calls can be tasks: they start an execution, and its result is the answer the client wants."""


Make = Callable[["Client"], list[OwnTool[Any]]]

MAKERS: Mapping[frozenset[str], Make] = {
    frozenset({LIST, DISPATCH, GET_RESULT, WAIT_FOR, CANCEL}): lambda client: dispatch_tools(client, ASK_FOR_IT),
    frozenset({RUN_AGENT, RUN_CHAIN, SEND_MESSAGE}): start_tools,
    frozenset({SEND_USER_MESSAGE}): chat_tools,
    frozenset({READ_RESULT, LIST_EXECUTIONS, TREE, QUERY}): query_tools,
    frozenset({FOLLOW_TREE, READ_EXECUTION}): app_tools,
}
"""The factories of tools, by the names of the tools they make."""


@dataclass(frozen=True, slots=True)
class Onlooker:
    """A caller to whom the tools are listed, before it can call them: what decides which tools there are."""

    settings: Settings
    who: Identity
    has_apps: bool

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        return self.settings.offered()


def tools_of(client: Client, name: str | None = None) -> list[OwnTool[Any]]:
    """The tools of a client, in the order of the table; with a name, only those of its factory."""
    tools = [tool for names, make in MAKERS.items() if name is None or name in names for tool in make(client)]
    if not client.settings.chains:
        tools = [tool for tool in tools if tool.name != RUN_CHAIN]
    order = list(TABLE)
    return sorted(tools, key=lambda tool: order.index(tool.name))


def listed(settings: Settings, who: Identity, *, has_apps: bool = False) -> list[dict[str, Any]]:
    """The tools as `tools/list` shows them to a caller, in the form of the protocol."""
    client = cast("Client", Onlooker(settings, who, has_apps))  # enough to describe the tools; none of them is called
    shown = [_listed(tool, settings) for tool in tools_of(client)]
    if not has_apps:
        return shown
    return [{**tool, "_meta": META[tool["name"]]} if tool["name"] in META else tool for tool in shown]


def _listed(tool: OwnTool[Any], settings: Settings) -> dict[str, Any]:
    looks, definition = TABLE[tool.name], tool.definition()
    return {
        "name": tool.name,
        "title": looks.title,
        "description": definition.description + _choices(tool.name, settings),
        "inputSchema": dict(definition.input_schema),
        "outputSchema": schemas.schema_of(looks.answer),
        "annotations": looks.hints,
    }


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
