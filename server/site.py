"""The site beside MCP: the API, the pages and the data beside them, and the sessions of browsers.

Owns which paths need no identity, which request's data is beside which page, and what works for the API while the site is
open. Must not know: MCP, or the layers in front of it. Invariant: what holds data needs an identity.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from server.api import reads
from server.api import requests as r
from server.api.context import ApiContext, CheckToken
from server.api.endpoint import PREFIX, ApiCall, ApiEndpoint, route
from server.api.feed import Feed
from server.api.openapi import OPENAPI
from server.api.sessions import visitor
from server.api.sql import QueryTable
from server.api.table import ENDPOINTS, ONE
from server.caller.sessions import Sessions
from server.dashboard.files import StaticFiles, is_file_path, wants_page
from server.identity import READ_ALL

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.routing import BaseRoute
    from starlette.types import Scope

    from server.identity import Identity
    from server.service import Service


TWINS = {
    "/executions.json": "/executions",
    f"{ONE}.json": ONE,
    "/agents.json": "/agents",
    "/usage.json": "/usage",
    "/compare.json": "/compare",
}
"""The path of the data, and the path of its request below `/api`."""


async def _sql(call: ApiCall) -> Any:
    """The rows of a question, or what can be asked."""
    return await (reads.sql(call) if call.query.sql.strip() else reads.schema(call))


SQL = ApiEndpoint(
    "GET", "/sql.json", "Ask the database, as the page does", _sql, QueryTable, query=r.SqlQuery, needs=READ_ALL
)


def twins() -> list[ApiEndpoint]:
    """The requests beside the pages, at their own paths."""
    looked = {endpoint.path: endpoint for endpoint in ENDPOINTS if endpoint.method == "GET"}
    return [*(replace(looked[path], path=beside) for beside, path in TWINS.items()), SQL]


def twin_routes(context: ApiContext) -> list[BaseRoute]:
    """The routes of the data beside the pages."""
    return [route(endpoint, context, prefix="") for endpoint in twins()]


class DashboardSite:
    """The API and the dashboard."""

    def __init__(
        self,
        sessions: Sessions | None = None,
        *,
        asks_everyone: bool = False,
        files: Path | None = None,
        feed: Feed | None = None,
    ) -> None:
        """`asks_everyone`: only a one-time token lets a caller in."""
        self.sessions = sessions or Sessions()
        self.asks_everyone = asks_everyone
        self._feed = feed or Feed()
        self._files = StaticFiles(files) if files is not None else StaticFiles()

    def is_open(self, scope: Scope) -> bool:
        """Whether a request needs no identity: for a page without data, or to prove who it is from."""
        path: str = scope["path"]
        if scope["method"] == "POST":
            return path == f"{PREFIX}/session"
        return scope["method"] in ("GET", "HEAD") and (is_file_path(path) or wants_page(scope))

    def visitor(self, scope: Scope) -> Identity | None:
        """Who a request is from, by its session."""
        return visitor(self.sessions, scope)

    @asynccontextmanager
    async def opened(self, service: Service, check: CheckToken | None) -> AsyncIterator[Sequence[BaseRoute]]:
        """The routes, and the feed of events until the exit."""
        context = ApiContext(service, self.sessions, check, tickets_only=self.asks_everyone, feed=self._feed)
        async with anyio.create_task_group() as group:
            group.start_soon(_carry_events, context, name="carry events to listeners")
            yield [
                *(route(endpoint, context) for endpoint in (*ENDPOINTS, OPENAPI)),
                *twin_routes(context),
                *self._files.routes(),
            ]
            group.cancel_scope.cancel("the site closes")


async def _carry_events(context: ApiContext) -> None:
    await context.feed.run(await context.service.dispatcher())
