"""The tools of the MCP App: `follow_tree`, a long poll for changes of a tree, and `read_execution`.

Owns which tools carry the metadata of the extension, and the two that only a view calls. They are listed and callable only
for clients that declared the extension; they answer in the shapes of the HTTP API. Must not know: the SDK, the view.
Invariant: none of them decides an approval, because only the host keeps app-only tools from the model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import anyio
from pydantic import BaseModel, Field

from db.clock import loop_time
from runner.messages import ToolCall
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.dispatch import missing
from runner.tools.protocol import ToolResult
from server.mcp_face.introduction import TREE_VIEW
from server.mcp_face.query_tools import TREE

if TYPE_CHECKING:
    from runner.record.events import Event
    from server.mcp_face.client import Client
    from server.views.answers import ExecutionTree
    from server.views.views import Views

FOLLOW_TREE, READ_EXECUTION = "follow_tree", "read_execution"

LONGEST_POLL = 20
"""Seconds: hosts give a call of a view less time than one of a model."""
LOOK_SECONDS = 0.5
"""Interval of reads while a call waits: other processes write events that no bus here carries."""
GATHER_SECONDS = 0.2
"""Batching of changes: a busy tree must not be read for each of its events."""

Meta = Mapping[str, Any]
Part = Literal["execution", "transcript", "timeline", "plan", "call"]

SHOWN_BY_VIEW: Meta = {"ui": {"resourceUri": TREE_VIEW, "visibility": ["model", "app"]}, "ui/resourceUri": TREE_VIEW}
"""The flat key is deprecated, and hosts in the field read it."""
ONLY_FOR_VIEW: Meta = {"ui": {"visibility": ["app"]}}

META: Mapping[str, Meta] = {TREE: SHOWN_BY_VIEW, FOLLOW_TREE: ONLY_FOR_VIEW, READ_EXECUTION: ONLY_FOR_VIEW}
"""The metadata of tools, for clients that declared the extension."""


class FollowTreeArguments(Arguments):
    """Which tree, and since when."""

    execution_id: str = Field(description="Whole or short id.")
    after: int | None = Field(
        default=None, ge=0, le=2**63 - 1, description="`cursor` of the last answer; without it the whole tree."
    )
    wait_seconds: float = Field(default=LONGEST_POLL, ge=0, le=LONGEST_POLL, description="How long to wait for a change.")


class ReadExecutionArguments(Arguments):
    """Which part of which execution, or which tool call."""

    id: str = Field(description="Whole or short id of an execution; for `call` the row id of a tool call.")
    part: Part = Field(description="Which part.")
    position: int = Field(default=0, ge=0, le=2**63 - 1, description="First message of a transcript.")


def app_tools(client: Client) -> list[OwnTool[Any]]:
    if not client.has_apps:
        return []
    tools = _AppTools(client)
    return [
        OwnTool(
            FOLLOW_TREE,
            "For the view of the tree: what of it changed after an event, as soon as something did.",
            FollowTreeArguments,
            tools.follow,
        ),
        OwnTool(
            READ_EXECUTION,
            "For the view of the tree: a part of one execution, or one of its tool calls with its whole result.",
            ReadExecutionArguments,
            tools.read,
        ),
    ]


class _AppTools:
    """The handlers of the tools."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def follow(self, _call: ToolCall, arguments: FollowTreeArguments) -> ToolResult:
        row = await self._client.row(arguments.execution_id)
        if row is None:
            return missing(arguments.execution_id)
        if arguments.after is None:
            return self._answer(await self._views().tree(row["id"]))
        async with self._changes(row["root_execution_id"]) as changes:
            until = loop_time() + arguments.wait_seconds
            tree = await self._views().tree(row["id"], arguments.after)
            while not (tree.nodes or tree.refused or tree.ended) and await changes.come(tree.cursor, until):
                tree = await self._views().tree(row["id"], arguments.after)
        return self._answer(tree)

    async def read(self, _call: ToolCall, arguments: ReadExecutionArguments) -> ToolResult:
        if arguments.part == "call":
            found = await self._views().tool_call(arguments.id)
            if found is None or await self._client.row(found[0]) is None:
                return refuse("not_found", f"no tool call `{arguments.id[:100]}`", "use the id of a call in a transcript")
            return answer({"part": found[1].model_dump(mode="json")})
        row = await self._client.row(arguments.id)
        if row is None:
            return missing(arguments.id)
        part = await self._part(row["id"], arguments)
        return answer({"part": part} if part is not None else {})

    async def _part(self, execution: str, arguments: ReadExecutionArguments) -> dict[str, Any] | None:
        """A part of an execution; None if it has no such part."""
        views = self._views()
        match arguments.part:
            case "plan":
                return await views.plan(execution)
            case "transcript":
                part: BaseModel = await views.transcript(execution, arguments.position)
            case "timeline":
                part = await views.timeline(execution)
            case _:
                part = await views.execution(execution)
        return part.model_dump(mode="json")

    def _answer(self, tree: ExecutionTree) -> ToolResult:
        shown = tree.model_dump(mode="json")
        dashboard = self._client.dashboard
        return answer(shown if dashboard is None else {**shown, "dashboard": dashboard})

    def _views(self) -> Views:
        from server.views.views import Views  # late: the tools are listed before the database layer is imported

        dispatcher = self._client.dispatcher
        database = dispatcher.services.database
        return Views(database.reads, database.path, dispatcher.lacks)

    @asynccontextmanager
    async def _changes(self, root: str) -> AsyncIterator[_Changes]:
        """Watched from here on, so that no event between two reads is missed."""
        async with self._client.dispatcher.services.bus.watch(root) as events:
            yield _Changes(self._client, root, events)


class _Changes:
    """Waits for events of one tree, whichever process writes them."""

    def __init__(self, client: Client, root: str, events: Any) -> None:
        self._reads = client.dispatcher.services.database.reads
        self._root, self._events = root, events

    async def come(self, cursor: int, until: float) -> bool:
        """Return soon after the tree has an event behind `cursor`; False if there is none until then."""
        while (left := until - loop_time()) > 0:
            with anyio.move_on_after(min(LOOK_SECONDS, left)):  # never cuts a read
                await self._stored(cursor)
                await anyio.sleep(GATHER_SECONDS)
                return True
            newest = await self._reads.last_event(self._root)
            if newest is not None and newest["seq"] > cursor:
                return True
        return False

    async def _stored(self, cursor: int) -> None:
        try:
            while True:
                event: Event = await self._events.receive()
                if (event["seq"] or 0) > cursor:
                    return
        except anyio.EndOfStream:  # too slow for the bus: the interval of reads remains
            await anyio.sleep_forever()
