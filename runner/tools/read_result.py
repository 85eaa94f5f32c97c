"""`read_result`: pages of a text that was cut: a child's answer, or the caller's own tool result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import Field

from runner.messages import ToolCall
from runner.text import first_bytes
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.protocol import ToolResult

NAME = "read_result"
MOST = 32_000
"""Characters of one page; also its bytes, for multi-byte text."""


class ReadResultArguments(Arguments):
    execution_id: str = Field(description="Its id, or the one given where a result was cut.")
    offset: int = Field(default=0, ge=0, description="First character.")
    limit: int = Field(default=MOST, ge=1, le=MOST, description="How many characters.")


DESCRIPTION = "Read a long result in parts: an agent's whole answer, or a tool result that was cut."


def page_of(text: str, offset: int, limit: int) -> dict[str, Any]:
    """One page of a text: at most `limit` characters, and at most the bytes of a page."""
    part = first_bytes(text[offset : offset + limit], MOST)
    end = offset + len(part)
    return {"text": part, "offset": offset, "total": len(text), "next_offset": end if end < len(text) else None}


def read_result_tool(full_text: Callable[[str], Awaitable[str | None]]) -> OwnTool[ReadResultArguments]:
    """The tool; `full_text` finds the whole text behind an id of the caller's, or None."""

    async def run(_call: ToolCall, arguments: ReadResultArguments) -> ToolResult:
        text = await full_text(arguments.execution_id)
        if text is None:
            message = "nothing to read under this id"
            return refuse("not_found", message, "use an execution_id of yours, or the id in the mark of a cut result")
        page = page_of(text, arguments.offset, arguments.limit)
        return answer({name: value for name, value in page.items() if value is not None})

    return OwnTool(NAME, DESCRIPTION, ReadResultArguments, run)
