"""The HTTP application: the MCP endpoint, health and OAuth metadata, behind the guard.

Owns the order of the layers (guard, cross-origin, authentication, body, routes), the paths, and the order of the start: the
configuration is checked first, then the address is bound, then the rest opens. Must not know: the answers of the MCP
server. Invariant: every route is behind all layers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from db.latch import Latch
from db.store.outage import Trouble
from registry import HttpSpec, OAuthSpec
from server.http_face.auth import Anonymous, Authentication, FixedTokens, Verifier
from server.http_face.connections import SessionEnd
from server.http_face.errors import HttpFault, refusal
from server.http_face.jwt import AccessTokens
from server.http_face.listen import Address, bind, listen
from server.http_face.security import AllowedNames, Guard, OneMessage, WholeBody
from server.service import Service

ENDPOINT = "/mcp"
HEALTH = "/health"
METADATA = "/.well-known/oauth-protected-resource"
METHODS = ("GET", "POST", "DELETE")

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


def over_http(
    http: HttpSpec, address: Address, environ: Mapping[str, str], tell: Callable[[str], None], backing: HostProcess
) -> Carry:
    """Bind the address and return a transport, which serves until cancelled. Raises HttpFault. `tell` receives the URL."""
    ways = verifiers(http, address, environ)
    listener, bound = bind(address)

    async def carry(service: Service) -> None:
        with listener:
            async with http_app(await service.server(), http, bound, ways, backing) as app:
                await listen(app, listener, lambda: tell(bound.url + ENDPOINT), backing.stopping)

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
async def http_app(
    server: Server[Any], http: HttpSpec, address: Address, ways: list[Verifier], backing: HostProcess
) -> AsyncIterator[ASGIApp]:
    """The ASGI application, which runs the sessions of `server` until the exit. `ways` comes from `verifiers`."""
    sessions = StreamableHTTPSessionManager(server, max_request_body_size=http.max_body)
    metadata = [] if http.oauth is None else [Route(path, _metadata(http.oauth)) for path in _metadata_paths(http.oauth)]
    endpoint = OneMessage(SessionEnd(StreamableHTTPASGIApp(sessions), backing.left))
    routes = [Route(ENDPOINT, endpoint), Route(HEALTH, _health(backing)), *metadata]
    inner = Starlette(routes=routes)
    inner.router.redirect_slashes = False  # a redirect would build its URL from the Host header
    app: ASGIApp = WholeBody(inner, http.max_body)
    if ways:
        url = None if http.oauth is None else urljoin(http.oauth.audience, metadata[0].path)
        app = Authentication(app, ways, {HEALTH, *(route.path for route in metadata)}, url)
    else:
        app = Anonymous(app)
    if http.allowed_origins:
        exposed = ["Mcp-Session-Id", "WWW-Authenticate"]
        app = CORSMiddleware(app, http.allowed_origins, METHODS, allow_headers=["*"], expose_headers=exposed)
    async with sessions.run():
        yield Guard(app, AllowedNames(http, address))


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

    async def answer(_: Request) -> Response:
        trouble = await backing.trouble()
        if trouble is None:
            return JSONResponse({"status": "ok"})
        return refusal(503, "the database cannot be written", trouble.hint, {"retry-after": "5"})

    return answer
