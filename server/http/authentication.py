"""Authentication: every request gets an identity, or is told how to get one.

Owns the bearer header, the challenge (RFC 6750, RFC 9728) and which paths are open to everybody. Must not know: how a token
is verified. Invariant: with authentication no path but the open ones is reached without an identity, also one that does not
exist (decided by the path that routes are found by), and no token gets past it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.http.caller import BadToken, Caller, CannotTell, MissingScopes, Verifier
from server.http.keys import PAUSE
from server.http.refusal import refusal
from server.identity import KEY, LOCAL, Identity

log = logging.getLogger("outrider.http")


class Anonymous:
    """Without authentication, where only this machine can call: everybody is local."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as local."""
        scope[KEY] = LOCAL
        await self._app(scope, receive, send)


class Authentication:
    """Finds out who calls."""

    def __init__(
        self, app: ASGIApp, verifiers: Sequence[Verifier], open_paths: Collection[str], metadata_url: str | None
    ) -> None:
        """Let everybody reach `open_paths`; `metadata_url` tells others where tokens are to be had."""
        self._app = AuthContextMiddleware(app)
        self._verifiers, self._open, self._metadata_url = verifiers, open_paths, metadata_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its identity, or refuse it."""
        if scope["path"] in self._open:
            await self._app(scope, receive, send)
            return
        found = await self._caller(Headers(scope=scope).getlist("authorization"))
        if isinstance(found, Response):
            await found(scope, receive, send)
            return
        known = {
            KEY: Identity(found.principal, found.scopes),
            "user": AuthenticatedUser(_access_token(found)),  # by this the SDK keeps a session to whoever opened it
            "headers": [pair for pair in scope["headers"] if pair[0] != b"authorization"],  # it has done its service
        }
        await self._app({**scope, **known}, receive, send)

    async def _caller(self, headers: Sequence[str]) -> Caller | Response:
        scheme, _, token = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not token:
            return refusal(401, "who calls? a bearer token is needed", headers=self._challenge())
        try:
            for verifier in self._verifiers:
                caller = await verifier.verify(token)
                if caller is not None:
                    return caller
            raise BadToken("it is unknown")
        except BadToken as error:
            log.info("a token was refused: %s", error)
            return refusal(401, f"the token is not accepted: {error}", headers=self._challenge(error="invalid_token"))
        except MissingScopes as error:
            challenge = self._challenge(error="insufficient_scope", scope=str(error))
            return refusal(403, "the token does not have the scopes that are needed", headers=challenge)
        except CannotTell:
            after = {"retry-after": f"{PAUSE:.0f}"}
            return refusal(503, "the issuer of tokens cannot be asked for its keys", "try again later", after)

    def _challenge(self, **about: str) -> dict[str, str]:
        if self._metadata_url is not None:
            about["resource_metadata"] = self._metadata_url
        told = ", ".join(f'{name}="{value}"' for name, value in about.items())
        return {"www-authenticate": f"Bearer {told}".strip()}


def _access_token(caller: Caller) -> AccessToken:
    """The caller as the SDK knows callers; the token itself goes no further."""
    return AccessToken(
        token="",
        client_id=caller.client,
        scopes=sorted(caller.scopes),
        expires_at=caller.expires_at,
        subject=caller.principal,
        claims={"iss": caller.issuer} if caller.issuer is not None else None,
    )
