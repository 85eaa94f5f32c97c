"""The HTTP application: the MCP endpoint, health and OAuth metadata, and a site beside them, behind the guard.

Owns the order of the layers (guard, cross-origin, authentication, body, routes), the paths, and the order of the start: the
configuration is checked first, then the address is bound, then the rest opens. Must not know: the answers of the MCP
server, or what the site consists of. Invariant: every route is behind all layers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Scope

from db.latch import Latch
from db.store.outage import Trouble
from registry import HttpSpec, OAuthSpec
from server.http_face.auth import Anonymous, Authentication, FixedTokens, Verifier
from server.http_face.connections import SessionEnd
from server.http_face.errors import FOR_CLIENTS, HttpFault, refusal
from server.http_face.jwt import AccessTokens
from server.http_face.listen import Address, bind, listen
from server.http_face.security import AllowedNames, Guard, OneMessage, WholeBody
from server.identity import Identity
from server.service import Service

ENDPOINT = "/mcp"
HEALTH = "/health"
METRICS = "/metrics"
EXPOSITION = "text/plain; version=0.0.4"
METADATA = "/.well-known/oauth-protected-resource"
METHODS = ("GET", "POST", "DELETE")
REFUSED = {
    404: ("there is nothing at this path", "begin at `/`, or at `/api/openapi.json`"),
    405: ("this path does not take that method", "use a method of the header `Allow`"),
    500: ("the request failed", "try again; the log of the server has the details"),
}
"""What is answered, and the hint, where no route answers."""

Carry = Callable[[Service], Coroutine[Any, Any, None]]


class HostProcess(Protocol):
    """The process around the HTTP face."""

    @property
    def stopping(self) -> Latch:
        """Set when no new requests are accepted any more."""
        ...

    async def left(self, session: str) -> None:
        """Called when a client has ended its session."""
        ...

    async def trouble(self) -> Trouble | None:
        """Why the database cannot be written; None if it can."""
        ...

    async def metrics(self) -> bytes:
        """The metrics of the process, as Prometheus reads them."""
        ...


CheckToken = Callable[[Scope, str], Awaitable[tuple[Identity, float | None] | Response]]
"""The owner of a bearer token and the end of the token, or the refusal of the request with it."""


class Site(Protocol):
    """What is served beside MCP: an API and its pages."""

    @property
    def asks_everyone(self) -> bool:
        """Whether callers on this machine need a session, too."""
        ...

    def is_open(self, scope: Scope) -> bool:
        """Whether a request needs no identity."""
        ...

    def visitor(self, scope: Scope) -> Identity | None:
        """Who a request is from, by its session."""
        ...

    def opened(self, service: Service, check: CheckToken | None) -> AbstractAsyncContextManager[Sequence[BaseRoute]]:
        """Its routes, and what works for them until the exit. Without `check` a caller needs no token."""
        ...


@dataclass(frozen=True, slots=True)
class Building:
    """What stands behind the address."""

    http: HttpSpec
    environ: Mapping[str, str]
    backing: HostProcess
    site: Site | None = None


def over_http(building: Building, address: Address, tell: Callable[[str], None]) -> Carry:
    """Bind the address and return a transport, which serves until cancelled. Raises HttpFault. `tell` receives the URL."""
    ways = verifiers(building.http, address, building.environ)
    listener, bound = bind(address)

    async def carry(service: Service) -> None:
        with listener:
            async with http_app(service, building, bound, ways) as app:
                await listen(app, listener, lambda: tell(bound.url + ENDPOINT), building.backing.stopping)

    return carry


def verifiers(http: HttpSpec, address: Address, environ: Mapping[str, str]) -> list[Verifier]:
    """The verifiers of the configuration. Raises HttpFault if there is none and the address is not loopback.

    Called before anything opens, so that an unsafe configuration never starts.
    """
    if not http.authenticates and not address.is_loopback:
        raise HttpFault(
            f"refusing to listen on `{address.name}` without authentication",
            "listen on `127.0.0.1`, or configure `serve.http.tokens` or `serve.http.oauth`",
        )
    found: list[Verifier] = []
    if http.tokens:
        found.append(FixedTokens(http.tokens.values(), environ))
    if http.oauth is not None:
        found.append(AccessTokens(http.oauth))
    return found


@asynccontextmanager
async def http_app(service: Service, building: Building, address: Address, ways: list[Verifier]) -> AsyncIterator[ASGIApp]:
    """The ASGI application, which runs the sessions of MCP clients until the exit. `ways` comes from `verifiers`."""
    http, site = building.http, building.site
    sessions = StreamableHTTPSessionManager(await service.server(), max_request_body_size=http.max_body)
    metadata = [] if http.oauth is None else [Route(path, _metadata(http.oauth)) for path in _metadata_paths(http.oauth)]
    endpoint = OneMessage(SessionEnd(StreamableHTTPASGIApp(sessions), building.backing.left))
    routes: list[BaseRoute] = [Route(ENDPOINT, endpoint), Route(HEALTH, _health(building.backing)), *metadata]
    routes.append(Route(METRICS, _metrics(building.backing)))
    async with AsyncExitStack() as stack:
        inner = _routed(routes)
        app: ASGIApp = WholeBody(inner, http.max_body)
        check: CheckToken | None = None
        if ways or (site is not None and site.asks_everyone):
            url = None if http.oauth is None else urljoin(http.oauth.audience, metadata[0].path)
            app = authentication = Authentication(app, ways, _Doors({HEALTH, *(each.path for each in metadata)}, site), url)
            check = authentication.check
        else:
            app = Anonymous(app)
        if http.allowed_origins:
            exposed = ["Mcp-Session-Id", "WWW-Authenticate"]
            app = CORSMiddleware(app, http.allowed_origins, METHODS, allow_headers=["*"], expose_headers=exposed)
        if site is not None:
            inner.router.routes += await stack.enter_async_context(site.opened(service, check))
        await stack.enter_async_context(sessions.run())
        yield Guard(app, AllowedNames(http, address))


def _routed(routes: Sequence[BaseRoute]) -> Starlette:
    """The routes, with an answer of our form where there is none."""

    async def refused(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        headers = {"allow": ", ".join(_methods(app, request.scope))} if status == 405 else None
        return refusal(request.scope, status, *REFUSED.get(status, ("the request was refused", "")), headers)

    app = Starlette(routes=list(routes), exception_handlers={HTTPException: refused, Exception: refused})
    app.router.redirect_slashes = False  # a redirect would build its URL from the Host header
    return app


def _methods(app: Starlette, scope: Scope) -> list[str]:
    """The methods that the path of a request takes."""
    there = [each for each in app.routes if isinstance(each, Route) and each.matches(scope)[0] is not Match.NONE]
    return sorted({method for each in there for method in each.methods or ()})


@dataclass(frozen=True, slots=True)
class _Doors:
    """The ways in besides a token: open paths, and the sessions of the site. No session opens the MCP endpoint."""

    paths: Collection[str]
    site: Site | None

    def is_open(self, scope: Scope) -> bool:
        return scope["path"] in self.paths or (self.site is not None and self.site.is_open(scope))

    def visitor(self, scope: Scope) -> Identity | None:
        if self.site is None or scope["path"].startswith(FOR_CLIENTS):
            return None
        return self.site.visitor(scope)


def _metadata_paths(oauth: OAuthSpec) -> list[str]:
    """The well-known path followed by that of the audience, then alone: clients look in this order."""
    path = urlsplit(oauth.audience).path.rstrip("/")
    return list(dict.fromkeys((METADATA + path, METADATA)))


def _metadata(oauth: OAuthSpec) -> Callable[[Request], Awaitable[Response]]:
    """The metadata that names the issuer of tokens (RFC 9728). Its URLs must equal the configured ones."""
    about = {
        "resource": oauth.audience,
        "authorization_servers": [oauth.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Outrider",
    } | ({"scopes_supported": list(oauth.scopes)} if oauth.scopes else {})

    async def answer(_: Request) -> Response:
        return JSONResponse(about)

    return answer


def _health(backing: HostProcess) -> Callable[[Request], Awaitable[Response]]:
    """Whether the database can be written. Callers need no token, so the answer has no paths."""

    async def answer(request: Request) -> Response:
        trouble = await backing.trouble()
        if trouble is None:
            return JSONResponse({"status": "ok"})
        return refusal(request.scope, 503, "the database cannot be written", trouble.hint, {"retry-after": "5"})

    return answer


def _metrics(backing: HostProcess) -> Callable[[Request], Awaitable[Response]]:
    """What Prometheus reads. It counts the work of all callers, without an id of any."""

    async def answer(_: Request) -> Response:
        return Response(await backing.metrics(), media_type=EXPOSITION)

    return answer
