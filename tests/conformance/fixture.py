"""Fixtures: tools the suite calls by name. They exist in the process it is run against and nowhere else.

Owns the table they are entered in. Must not know: the product.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as t
from mcp.server.context import ServerRequestContext

Context = ServerRequestContext[Any, Any]
Answer = t.CallToolResult | t.InputRequiredResult | dict[str, Any]
Run = Callable[[Context, t.CallToolRequestParams], Awaitable[Answer]]


@dataclass(frozen=True)
class Fixture:
    """One tool."""

    name: str
    run: Run
    schema: Mapping[str, Any]

    def definition(self) -> t.Tool:
        """As `tools/list` shows it."""
        return t.Tool(name=self.name, description="A fixture of the conformance suite.", input_schema=dict(self.schema))


FIXTURES: dict[str, Fixture] = {}
"""By name, in the order of their definition."""


def fixture(name: str, **properties: Mapping[str, Any]) -> Callable[[Run], Run]:
    """Enter a function as the tool of this name; it takes these arguments."""
    return shaped(name, {"type": "object", "properties": properties})


def shaped(name: str, schema: Mapping[str, Any]) -> Callable[[Run], Run]:
    """Enter a function as the tool of this name, with a whole schema."""

    def enter(run: Run) -> Run:
        FIXTURES[name] = Fixture(name, run, schema)
        return run

    return enter


def say(words: str, *, is_error: bool = False) -> t.CallToolResult:
    """A result of one text."""
    return t.CallToolResult(content=[t.TextContent(type="text", text=words)], is_error=is_error)
