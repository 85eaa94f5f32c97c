"""The session of a page: a token is exchanged for a cookie, once for a one-time token.

Owns the cookie. Must not know: how a token is verified. Invariant: the answer never contains a secret outside the cookie.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

from server.identity import BEARER, EXPIRES
from server.problem import ApiRefused

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

    from server.api.endpoint import ApiCall
    from server.caller.sessions import Sessions
    from server.identity import Identity

COOKIE = "outrider"
USED = "the token is used, or not from this server"
ONCE = "a one-time token opens one page: end the command and type it again for another"


def visitor(sessions: Sessions, scope: Scope) -> Identity | None:
    """Who a request is from, by its cookie."""
    secret = _secret_in(scope)
    return sessions.find(secret) if secret is not None else None


async def enter(call: ApiCall) -> Response:
    """Exchange a token for a cookie; without authentication there is nothing to exchange."""
    context, token = call.context, call.body.token
    who, expires_at = context.sessions.redeem(token), None
    if who is None and context.check is None:
        return Response(status_code=204)
    if who is None:
        if context.tickets_only:
            raise ApiRefused(401, USED, ONCE)
        assert context.check is not None
        found = await context.check(call.request.scope, token)
        if isinstance(found, Response):
            return found
        who, expires_at = found
    answer = Response(status_code=204)
    _set(call.request, answer, context.sessions.enter(who, expires_at))
    return answer


async def leave(call: ApiCall) -> Response:
    """End the session of the request."""
    secret = _secret_in(call.request.scope)
    if secret is not None:
        call.context.sessions.leave(secret)
    answer = Response(status_code=204)
    answer.delete_cookie(_name(call.request.scope), httponly=True, samesite="strict")
    return answer


async def until_over(call: ApiCall) -> None:
    """Return when the caller of a request is no longer known: its token has expired, or its session has ended."""
    scope, sessions = call.request.scope, call.context.sessions
    if scope.get(BEARER):
        if (ends := scope[EXPIRES]) is not None:
            await anyio.sleep(max(0.0, ends - time.time()))
            return
    elif call.context.check is not None and (secret := _secret_in(scope)) is not None:
        await sessions.until_over(secret)
        return
    await anyio.sleep_forever()


def _secret_in(scope: Scope) -> str | None:
    """Other programs on this machine set cookies for the same name, in any form: they are passed over."""
    return cookie_parser(Headers(scope=scope).get("cookie", "")).get(_name(scope))


def _set(request: Request, answer: Response, secret: str) -> None:
    """The browser keeps the cookie until it is closed. Behind TLS it is sent over TLS only."""
    behind_tls = request.headers.get("origin", "").startswith("https://")
    answer.set_cookie(_name(request.scope), secret, httponly=True, samesite="strict", secure=behind_tls)


def _name(scope: Scope) -> str:
    """Cookies do not know ports: two servers on one machine must not overwrite each other's."""
    server = scope.get("server")
    return f"{COOKIE}-{server[1]}" if server else COOKIE
