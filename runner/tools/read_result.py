"""`read_result`: the rest of a text that was cut: a child's answer, or a tool result of one's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import Field

from runner.tools.own import Arguments, OwnTool, answer, refuse
from runner.tools.protocol import ToolResult
from runner.transcript import ToolCall

NAME = "read_result"
MOST = 32_000


class ReadResultArguments(Arguments):
    """Which text, and which part of it."""

    execution_id: str = Field(description="The execution, or the id named where a result was cut.")
    offset: int = Field(default=0, ge=0, description="First character.")
    limit: int = Field(default=MOST, ge=1, le=MOST, description="Characters to return.")


DESCRIPTION = "Read a long result in parts: the full answer of an agent you dispatched, or a tool result that was cut."


def read_result_tool(full_text: Callable[[str], Awaitable[str | None]]) -> OwnTool[ReadResultArguments]:
    """The tool; `full_text` finds the whole text behind an id that belongs to the caller, or None."""

    async def run(_call: ToolCall, arguments: ReadResultArguments) -> ToolResult:
        text = await full_text(arguments.execution_id)
        if text is None:
            message = "nothing to read under this id"
            return refuse(
                "not_found", message, "use an execution_id you were given, or the id named where a result was cut"
            )
        part = text[arguments.offset : arguments.offset + arguments.limit]
        end = arguments.offset + len(part)
        shown = {
            "text": part,
            "offset": arguments.offset,
            "total": len(text),
            "next_offset": end if end < len(text) else None,
        }
        return answer(shown)

    return OwnTool(NAME, DESCRIPTION, ReadResultArguments, run)
