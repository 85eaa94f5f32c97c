"""Puts the fixtures into a server that is otherwise the product's, through the SDK's public handlers.

Invariant: what is no fixture goes to the product's handler unchanged, and lists show both.
"""

from __future__ import annotations

from typing import Any

import mcp_types as t
from mcp.server.lowlevel import Server

import tests.conformance.content  # noqa: F401  # enters its fixtures
from tests.conformance import reading
from tests.conformance.fixture import FIXTURES, Answer, Context


class Installation:
    """The product's handlers, and ours before them."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._product = {
            method: entry
            for method in (
                "tools/list",
                "tools/call",
                "resources/list",
                "resources/templates/list",
                "resources/read",
                "resources/subscribe",
                "resources/unsubscribe",
                "prompts/list",
                "prompts/get",
            )
            if (entry := server.get_request_handler(method)) is not None
        }

    def install(self) -> None:
        """Answer the suite."""
        add = self._server.add_request_handler
        add("tools/list", t.PaginatedRequestParams, self._list_tools)
        add("tools/call", t.CallToolRequestParams, self._call_tool)
        add("resources/list", t.PaginatedRequestParams, self._list_resources)
        add("resources/templates/list", t.PaginatedRequestParams, self._list_templates)
        add("resources/read", t.ReadResourceRequestParams, self._read_resource)
        add("resources/subscribe", t.SubscribeRequestParams, self._subscribe)
        add("resources/unsubscribe", t.UnsubscribeRequestParams, self._unsubscribe)
        add("prompts/list", t.PaginatedRequestParams, self._list_prompts)
        add("prompts/get", t.GetPromptRequestParams, self._get_prompt)
        add("logging/setLevel", t.SetLevelRequestParams, _set_level)

    async def product(self, ctx: Context, params: t.CallToolRequestParams) -> Answer:
        """The product's own answer to a call."""
        answer: Answer = await self._passed("tools/call", ctx, params)
        return answer

    async def _passed(self, method: str, ctx: Context, params: Any) -> Any:
        return await self._product[method].handler(ctx, params)

    async def _list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        listed: t.ListToolsResult = await self._passed("tools/list", ctx, params)
        return listed.model_copy(update={"tools": [*listed.tools, *(each.definition() for each in FIXTURES.values())]})

    async def _call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> Answer:
        found = FIXTURES.get(params.name)
        return await (found.run(ctx, params) if found is not None else self.product(ctx, params))

    async def _list_resources(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListResourcesResult:
        listed: t.ListResourcesResult = await self._passed("resources/list", ctx, params)
        return listed.model_copy(update={"resources": [*listed.resources, *reading.RESOURCES]})

    async def _list_templates(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListResourceTemplatesResult:
        listed: t.ListResourceTemplatesResult = await self._passed("resources/templates/list", ctx, params)
        return listed.model_copy(update={"resource_templates": [*listed.resource_templates, *reading.TEMPLATES]})

    async def _read_resource(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        found = reading.resource(str(params.uri))
        return found if found is not None else await self._passed("resources/read", ctx, params)

    async def _subscribe(self, ctx: Context, params: t.SubscribeRequestParams) -> t.EmptyResult:
        watched = params.uri == reading.WATCHED
        return t.EmptyResult() if watched else await self._passed("resources/subscribe", ctx, params)

    async def _unsubscribe(self, ctx: Context, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        watched = params.uri == reading.WATCHED
        return t.EmptyResult() if watched else await self._passed("resources/unsubscribe", ctx, params)

    async def _list_prompts(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListPromptsResult:
        listed: t.ListPromptsResult = await self._passed("prompts/list", ctx, params)
        return listed.model_copy(update={"prompts": [*listed.prompts, *reading.PROMPTS]})

    async def _get_prompt(
        self, ctx: Context, params: t.GetPromptRequestParams
    ) -> t.GetPromptResult | t.InputRequiredResult:
        found = reading.prompt(params)
        return found if found is not None else await self._passed("prompts/get", ctx, params)


async def _set_level(_ctx: Context, _params: t.SetLevelRequestParams) -> t.EmptyResult:
    """Outrider sends no log messages; the suite wants one to be accepted."""
    return t.EmptyResult()
