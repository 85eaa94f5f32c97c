"""Fixtures that change the lists of tools and prompts, as far as a listener can tell."""

from __future__ import annotations

from functools import partial

import mcp_types as t
from mcp.shared.subscriptions import PromptsListChanged, ServerEvent, ToolsListChanged

from server.mcp_face.updates import Updates
from tests.conformance.fixture import FIXTURES, Answer, Context, Fixture, say

CHANGES: dict[str, type[ToolsListChanged | PromptsListChanged]] = {
    "test_trigger_tool_change": ToolsListChanged,
    "test_trigger_prompt_change": PromptsListChanged,
}


def enter_changes(updates: Updates) -> None:
    """Enter the tools among the fixtures; they tell through the product's own updates."""
    for name, event in CHANGES.items():
        FIXTURES[name] = Fixture(name, partial(_change, updates, event()), {"type": "object"})


async def _change(updates: Updates, event: ServerEvent, _ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    await updates.publish(event)
    return say("it has changed")
