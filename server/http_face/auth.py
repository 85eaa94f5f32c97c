"""Authentication: a request gets the identity of its token, or a challenge.

Owns the bearer header, the challenge (RFC 6750, RFC 9728), the open paths, and the fixed tokens of the configuration.
Invariants: with authentication only the open paths are served without an identity, and unknown paths get a challenge too;
no token reaches a handler; of fixed tokens only digests are kept, and the time of a comparison reveals nothing about them.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from registry import TokenSpec
from server.http_face.errors import FOR_CLIENTS, HttpFault, refusal
from server.identity import BEARER, EXPIRES, KEY, LOCAL, Identity

log = logging.getLogger("outrider.http")

SHORTEST = 16
"""Fewest characters of a fixed token: a shorter one can be guessed."""

_MADE = "make one with `openssl rand -hex 32`"
_SENDABLE = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """The owner of a token. An MCP session belongs to client, issuer and subject together."""

    principal: str
    scopes: frozenset[str]
    client: str
    issuer: str | None = None
    expires_at: int | None = None


class BadToken(Exception):
    """The token is not accepted. The message goes to the log and to the caller."""


class MissingScopes(Exception):
    """The token is valid, but lacks these scopes."""

    def __init__(self, scopes: Sequence[str]) -> None:
        super().__init__(" ".join(scopes))


class CannotTell(Exception):
    """The token cannot be verified now: the keys of its issuer are unavailable. Retry after `retry_seconds`."""

    def __init__(self, retry_seconds: float) -> None:
        super().__init__()
        self.retry_seconds = retry_seconds


class Verifier(Protocol):
    """Verifies one kind of token."""

    async def verify(self, token: str) -> VerifiedToken | None:
        """The owner, or None for a token of another kind; raises BadToken, MissingScopes or CannotTell."""
        ...


class Doors(Protocol):
    """The ways in besides a token."""

    def is_open(self, scope: Scope) -> bool:
        """Whether a request needs no identity."""
        ...

    def visitor(self, scope: Scope) -> Identity | None:
        """Who a request without a token is from, by its session; None if that is unknown."""
        ...


class Anonymous:
    """Makes every caller local. Used without authentication, on loopback only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[KEY] = LOCAL
        await self._app(scope, receive, send)


class Authentication:
    """Adds the identity of its token to a request, or refuses the request."""

    def __init__(self, app: ASGIApp, verifiers: Sequence[Verifier], doors: Doors, metadata_url: str | None) -> None:
        """A challenge names `metadata_url`, where a client finds the issuer."""
        self._app = AuthContextMiddleware(app)
        self._verifiers, self._doors, self._metadata_url = verifiers, doors, metadata_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._doors.is_open(scope):
            await self._app(scope, receive, send)
            return
        tokens = Headers(scope=scope).getlist("authorization")
        who = self._doors.visitor(scope) if not tokens else None
        if who is not None:
            await self._app({**scope, KEY: who}, receive, send)
            return
        found = await self._caller(scope, tokens)
        if isinstance(found, Response):
            await found(scope, receive, send)
            return
        known = {
            KEY: Identity(found.principal, found.scopes),
            BEARER: True,
            EXPIRES: found.expires_at,
            "user": AuthenticatedUser(_access_token(found)),  # the SDK binds a session to the user that opened it
            "headers": [pair for pair in scope["headers"] if pair[0] != b"authorization"],  # no handler needs the token
        }
        await self._app({**scope, **known}, receive, send)

    async def _caller(self, scope: Scope, headers: Sequence[str]) -> VerifiedToken | Response:
        scheme, _, token = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not token:
            return refusal(scope, 401, "missing bearer token", _hint(scope), self._challenge())
        return await self._verified(scope, token)

    async def check(self, scope: Scope, token: str) -> tuple[Identity, float | None] | Response:
        """The owner of a token that a request has in its body, and the end of the token; or the refusal."""
        found = await self._verified(scope, token)
        if isinstance(found, Response):
            return found
        return Identity(found.principal, found.scopes), found.expires_at

    async def _verified(self, scope: Scope, token: str) -> VerifiedToken | Response:
        try:
            for verifier in self._verifiers:
                caller = await verifier.verify(token)
                if caller is not None:
                    return caller
            raise BadToken("it is unknown")
        except BadToken as error:
            log.info("a token was refused: %s", error)
            challenge = self._challenge(error="invalid_token")
            return refusal(scope, 401, f"the token is not accepted: {error}", _hint(scope), challenge)
        except MissingScopes as error:
            challenge = self._challenge(error="insufficient_scope", scope=str(error))
            return refusal(scope, 403, "the token lacks required scopes", f"ask its issuer for `{error}`", challenge)
        except CannotTell as error:
            after = {"retry-after": f"{error.retry_seconds:.0f}"}
            return refusal(scope, 503, "the token issuer's keys are unavailable", "try again later", after)

    def _challenge(self, **about: str) -> dict[str, str]:
        if self._metadata_url is not None:
            about["resource_metadata"] = self._metadata_url
        told = ", ".join(f'{name}="{value}"' for name, value in about.items())
        return {"www-authenticate": f"Bearer {told}".strip()}


def _hint(scope: Scope) -> str:
    """What to do about a token; MCP clients have the challenge."""
    is_for_clients = scope["path"].startswith(FOR_CLIENTS)
    return "" if is_for_clients else "open the pages with your token, or send it with the request"


def _access_token(caller: VerifiedToken) -> AccessToken:
    """The verified token in the SDK's form, without the secret."""
    return AccessToken(
        token="",
        client_id=caller.client,
        scopes=sorted(caller.scopes),
        expires_at=caller.expires_at,
        subject=caller.principal,
        claims={"iss": caller.issuer} if caller.issuer is not None else None,
    )


class FixedTokens:
    """Verifies the fixed tokens of the configuration."""

    def __init__(self, specs: Iterable[TokenSpec], environ: Mapping[str, str]) -> None:
        """Read the tokens; raises HttpFault if one is missing or weak, or two are equal."""
        self._known: dict[bytes, VerifiedToken] = {}
        for spec in specs:
            digest = _digest(_token(spec, environ))
            if digest in self._known:
                other = self._known[digest].principal
                raise HttpFault(f"`{spec.principal}` and `{other}` have the same token", "give each caller one of its own")
            self._known[digest] = VerifiedToken(spec.principal, spec.scopes, client=spec.principal)

    async def verify(self, token: str) -> VerifiedToken | None:
        """The owner of the token, or None."""
        given, found = _digest(token), None
        for digest, caller in self._known.items():  # no early exit: the time must not depend on the match
            if hmac.compare_digest(digest, given):
                found = caller
        return found


def _token(spec: TokenSpec, environ: Mapping[str, str]) -> str:
    token = environ.get(spec.token_env, "")
    if not token:
        raise HttpFault(f"environment variable `{spec.token_env}`, the token of `{spec.principal}`, is not set", _MADE)
    if len(token) < SHORTEST or not _SENDABLE.fullmatch(token):
        raise HttpFault(
            f"`{spec.token_env}` cannot be a token: {SHORTEST} characters at least, without spaces and control characters",
            _MADE,
        )
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
