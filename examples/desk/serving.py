"""A server of the desk: functions become MCP tools, served over stdio.

Owns the annotations, the check of arguments and the one mapping from our errors to tool errors. Knows nothing of what the
tools do. Invariant: an argument that a tool does not have is refused, never ignored: `exclude_summary` in place of
`exclude_summaries` must not delete what was to be kept.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import mcp.types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs, ErrorDetails, to_json

from examples.desk.errors import DeskError

READS = t.ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
ADDS = t.ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
CHANGES = t.ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
"""Also for what deletes: a second call changes nothing more."""
SENDS = t.ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)

_WORDS = {"missing_argument": "is required", "unexpected_keyword_argument": "is not an argument of this tool"}

Answer = dict[str, Any]
Function = Callable[..., Answer]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function with what is shown of it and what checks its arguments."""

    definition: t.Tool
    checked: TypeAdapter[Answer]

    def call(self, arguments: Mapping[str, Any]) -> Answer:
        """Check the arguments, then call the function."""
        return self.checked.validate_python(ArgsKwargs((), dict(arguments)))


class Desk:
    """One server: a name, a word to its users, and tools."""

    def __init__(self, name: str, instructions: str) -> None:
        self._tools: dict[str, Tool] = {}
        self._server = Server[Any](
            name, instructions=instructions, on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )

    def tool(self, hints: t.ToolAnnotations) -> Callable[[Function], Function]:
        """Make a tool of a function: its name, its documentation and its arguments are the tool's."""

        def add(function: Function) -> Function:
            form: Any = function  # typed for types only, but made for functions, too: it checks arguments, then calls
            checked: TypeAdapter[Answer] = TypeAdapter(form)
            name, schema = function.__name__, checked.json_schema()
            shown = t.Tool(name=name, description=function.__doc__, input_schema=schema, annotations=hints)
            self._tools[name] = Tool(shown, checked)
            return function

        return add

    def serve(self) -> None:
        """Serve over stdio until nobody asks any more."""
        atexit.register(gc.freeze)  # else whoever waits for the end waits for a search for garbage in the whole SDK
        anyio.run(self._serve)

    async def _serve(self) -> None:
        async with stdio_server() as (incoming, outgoing):
            await self._server.run(incoming, outgoing, self._server.create_initialization_options())

    async def _list_tools(self, _context: object, _params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[tool.definition for tool in self._tools.values()])

    async def _call_tool(self, _context: object, params: t.CallToolRequestParams) -> t.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            return _refused(f"there is no tool `{params.name}`", f"the tools are {', '.join(self._tools)}")
        try:
            answer = tool.call(params.arguments or {})
        except DeskError as error:
            return _refused(error.message, error.hint)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            known = ", ".join(tool.definition.input_schema["properties"]) or "none"
            return _refused("; ".join(_problem(each) for each in found), f"the arguments of `{params.name}` are: {known}")
        return t.CallToolResult(content=[t.TextContent(text=to_json(answer).decode())], structured_content=answer)


def _refused(message: str, hint: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=f"{message}\nhint: {hint}")], is_error=True)


def _problem(found: ErrorDetails) -> str:
    name = ".".join(str(part) for part in found["loc"])
    return f"`{name}` {_WORDS.get(found['type']) or 'is wrong: ' + found['msg']}"
