"""The MCP server: the handler of each method, the same for stdio and HTTP and for both eras of the protocol.

Owns the registration, the `Client` of a request, and the error a client gets when a handler raises (the SDK would send the
text of the exception). Must not know: the transport. Handlers import late and wait for the service, so that the server
takes messages before the database is open. Over stdio its first answers are given by `server/mcp_face/early.py`, before the
SDK is imported; a test compares the two.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import mcp_types as t
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from db.errors import UnknownExecution
from server.identity import identity_of
from server.mcp_face.elicitation import PersonWanted, Round, person_behind, sealed_rounds
from server.mcp_face.introduction import (
    APPS,
    DESCRIPTION,
    INSTRUCTIONS,
    NAME,
    TITLE,
    TREE_VIEW,
    UNCHANGED_MS,
    VERSION,
    shows_apps,
)
from server.mcp_face.tasks import becomes_task, serve_tasks, started
from server.mcp_face.updates import Updates
from server.service import Service

if TYPE_CHECKING:
    from runner.telemetry.observer import Observers
    from server.mcp_face.client import Client


Context = ServerRequestContext[Any, Any]

RESOURCE_NOT_FOUND = -32002
"""In the older era; in the newer one the code is INVALID_PARAMS."""
UNCHANGING: tuple[CacheableMethod, ...] = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
"""Methods with a constant answer: there is no reload."""
STDIO = "stdio"

log = logging.getLogger("outrider.mcp")

LONGEST_METHOD = 100


def mcp_server(service: Service, updates: Updates, observers: Observers | None = None) -> Server[Any]:
    """The MCP server. Its handlers wait for the service where they need it."""
    handlers = _Handlers(service, updates)
    server: Server[Any] = Server(
        NAME,
        version=VERSION,
        title=TITLE,
        description=DESCRIPTION,
        instructions=INSTRUCTIONS,
        cache_hints=dict.fromkeys(UNCHANGING, CacheHint(UNCHANGED_MS)),
        on_list_tools=handlers.list_tools,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=handlers.listen,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
    )
    # Not by `on_call_tool`, whose type allows no task as a result.
    server.add_request_handler("tools/call", t.CallToolRequestParams, handlers.call_tool)
    if observers is not None:
        server.middleware.append(_observed(observers))
    server.middleware += [in_words, sealed_rounds()]
    server.extensions[APPS] = {}
    serve_tasks(server, handlers.client)
    return server


class _Handlers:
    """One method for each MCP request."""

    def __init__(self, service: Service, updates: Updates) -> None:
        self._service, self._updates = service, updates
        self._own: tuple[str, str] | None = None
        self._listen = ListenHandler(updates)

    async def client(self, ctx: Context, before: Round | None = None) -> Client:
        """The client of a request. `before` is the state of an earlier call that ended with questions."""
        dispatcher = await self._service.dispatcher()
        from server.mcp_face.client import Client, ClientInfo

        async def report(seconds: float, words: str) -> None:
            # The SDK sends nothing unless the client asked for progress.
            await ctx.session.report_progress(round(seconds, 3), message=words)

        person = person_behind(ctx, before) if before is not None else None
        who = identity_of(ctx.request)
        session, since = self._session(ctx, local=who.principal is None)
        dashboard = str(ctx.request.base_url).rstrip("/") if ctx.request is not None else None
        shown: dict[str, Any] = {"has_apps": _has_apps(ctx), "dashboard": dashboard}
        return Client(dispatcher, ClientInfo(who, session, since, ctx.meta or {}, report=report, person=person, **shown))

    def _session(self, ctx: Context, *, local: bool) -> tuple[str | None, str]:
        """The session of a request, and an id that is older than its executions.

        A local request without a session id belongs to the session of this server: over stdio there is one client, and
        local HTTP callers without a session cannot be told apart. A principal needs no session.
        """
        from db.ids import new_id
        from runner.origin import new_session

        self._own = self._own or (new_session(), new_id())
        own, since = self._own
        return _named_session(ctx) or (own if local else None), since

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: Context, _: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        settings, who = await self._service.settings(), identity_of(ctx.request)
        from server.mcp_face.tools import listed

        return t.ListToolsResult(
            tools=[t.Tool.model_validate(tool) for tool in listed(settings, who, has_apps=_has_apps(ctx))]
        )

    async def call_tool(
        self, ctx: Context, params: t.CallToolRequestParams
    ) -> t.CallToolResult | t.InputRequiredResult | dict[str, Any]:
        before = Round.of(params.request_state)
        client = await self.client(ctx, before)
        from runner.messages import ToolCall
        from server.mcp_face.calls import called, called_again, dispatched

        call = ToolCall(str(ctx.request_id), params.name, params.arguments or {})
        try:
            if params.request_state is not None:
                return await called_again(client, call, before, params.input_responses or {})
            if not becomes_task(ctx, params.name):
                return await called(client, call)
        except PersonWanted as wanted:
            return before.after(wanted)
        result = await dispatched(client, call)
        return await started(client, result.structured_content["execution_id"]) if not result.is_error else result

    # -- resources -----------------------------------------------------------------------------------------------------

    async def list_resources(self, ctx: Context, _: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
        await self._service.dispatcher()
        from server.mcp_face.app_view import VIEW
        from server.mcp_face.resources import RESOURCES

        return t.ListResourcesResult(resources=[*RESOURCES, VIEW] if _has_apps(ctx) else list(RESOURCES))

    async def list_templates(self, _ctx: Context, _: t.PaginatedRequestParams | None) -> t.ListResourceTemplatesResult:
        await self._service.dispatcher()
        from server.mcp_face.resources import TEMPLATES

        return t.ListResourceTemplatesResult(resource_templates=list(TEMPLATES))

    async def read_resource(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        if str(params.uri) == TREE_VIEW:  # for every caller: a host may read it on a connection that declared nothing
            from server.mcp_face.app_view import view

            return t.ReadResourceResult(contents=[await view()])
        client = await self.client(ctx)
        from server.mcp_face.resources import read

        contents = await read(client, str(params.uri))
        if contents is None:
            raise _no_such_resource(ctx, str(params.uri))
        return t.ReadResourceResult(contents=[contents])

    async def subscribe(self, ctx: Context, params: t.SubscribeRequestParams) -> t.EmptyResult:
        client, uri = await self.client(ctx), str(params.uri)
        from server.mcp_face.resources import CATALOG, tree_behind

        behind = await tree_behind(client, uri)
        if behind is not None:
            self._updates.subscribe_session(_named_session(ctx) or STDIO, ctx.session, uri, behind)
        elif uri != CATALOG:  # the catalogue never changes, so a subscription to it is accepted and not kept
            raise _no_such_resource(ctx, uri)
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        self._updates.unsubscribe_session(_named_session(ctx) or STDIO, str(params.uri))
        return t.EmptyResult()

    async def listen(self, ctx: Context, params: t.SubscriptionsListenRequestParams) -> t.SubscriptionsListenResult:
        client = await self.client(ctx)
        from server.mcp_face.resources import tree_behind

        wanted = params.notifications
        asked = {str(uri): await tree_behind(client, str(uri)) for uri in wanted.resource_subscriptions or ()}
        seen = {uri: behind for uri, behind in asked.items() if behind is not None}
        honoured = wanted.model_copy(update={"resource_subscriptions": list(seen) or None})
        with self._updates.wanting(seen):
            return await self._listen(ctx, params.model_copy(update={"notifications": honoured}))

    # -- prompts and completion ----------------------------------------------------------------------------------------

    async def list_prompts(self, _ctx: Context, _: t.PaginatedRequestParams | None) -> t.ListPromptsResult:
        settings = await self._service.settings()
        from server.mcp_face.prompts import listed

        return t.ListPromptsResult(prompts=listed(settings))

    async def get_prompt(self, _ctx: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        settings = await self._service.settings()
        from server.mcp_face.prompts import made

        chain = settings.chains.get(params.name)
        if chain is None:
            raise MCPError(t.INVALID_PARAMS, "there is no prompt of this name; `prompts/list` has them")
        try:
            return made(chain, params.arguments or {})
        except ValueError as error:
            raise MCPError(t.INVALID_PARAMS, str(error)) from error

    async def complete(self, ctx: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
        client = await self.client(ctx)
        from server.mcp_face.resources import TEMPLATES, suggestions

        values: list[str] = []
        known = {template.uri_template for template in TEMPLATES}
        if isinstance(params.ref, t.ResourceTemplateReference) and params.ref.uri in known and params.argument.name == "id":
            values = list(await suggestions(client, params.argument.value))
        return t.CompleteResult(completion=t.Completion(values=values, total=len(values), has_more=False))


def _observed(observers: Observers) -> ServerMiddleware[Any]:
    from server.mcp_face.observed import ObservedRequests
    from server.mcp_face.tools import TABLE

    return ObservedRequests(observers, frozenset(TABLE))


def _has_apps(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and shows_apps(capabilities.extensions)


def _named_session(ctx: Context) -> str | None:
    return ctx.request.headers.get(MCP_SESSION_ID_HEADER) if ctx.request is not None else None


def _no_such_resource(ctx: Context, uri: str) -> MCPError:
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    code = t.INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
    return MCPError(code, f"there is no resource `{uri[:200]}`", {"uri": uri[:200]})


async def in_words(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Turn every exception of a handler into an MCPError with a text for users, without class names or tracebacks."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        raise MCPError(t.INVALID_PARAMS, f"the parameters of `{ctx.method}` were refused: {_fields(error)}") from None
    except UnknownExecution as error:  # an ambiguous short id; the handlers themselves answer an unknown one
        raise MCPError(t.INVALID_PARAMS, f"{error}: {error.hint}") from None
    except MCPError as error:
        if error.error.code == t.METHOD_NOT_FOUND:
            raise MCPError(t.METHOD_NOT_FOUND, "Method not found", ctx.method[:LONGEST_METHOD]) from None
        raise
    except Exception:
        log.exception("`%s` failed", ctx.method[:LONGEST_METHOD])
        reason = f"`{ctx.method[:LONGEST_METHOD]}` failed inside Outrider; try again, its log has the details"
        raise MCPError(t.INTERNAL_ERROR, reason) from None


def _fields(error: ValidationError) -> str:
    """The refused parameters by name. Deeper locations are left out: they contain class names and values."""
    found: dict[str, str] = {}
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        where = [str(part) for part in each["loc"] if part != "params"]
        missing = each["type"] == "missing" and len(where) == 1
        found.setdefault(where[0] if where else "params", "is required" if missing else "does not follow the protocol")
    return "; ".join(f"`{name}` {what}" for name, what in found.items())
