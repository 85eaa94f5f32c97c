"""Verifies access tokens of an OAuth issuer (RFC 9068) with the issuer's keys, fetched when a token first needs one.

Owns the acceptance of a token, the discovery of keys and their cache. Invariants: a token is accepted only if a key of the
configured issuer signed it with an asymmetric algorithm, and its audience is this server. No claim or header of a token
chooses where keys are fetched. However many tokens with unknown keys arrive, keys are fetched at most once in `PAUSE`
seconds, and a fetch is bounded in time and size.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt

from db.clock import loop_time
from registry import OAuthSpec
from server.http_face.auth import BadToken, CannotTell, MissingScopes, VerifiedToken

log = logging.getLogger("outrider.http")

PAUSE = 30.0
"""Seconds between two fetches, successful or not."""
FRESH = 3_600.0
"""Seconds until keys are fetched again, so that a revoked key is dropped."""
BELIEVED = 24 * 3_600.0
"""Seconds that keys are used while the issuer is unreachable."""
FETCH_SECONDS = 10.0
MOST_BYTES = 256 * 1024

_METADATA = (".well-known/oauth-authorization-server", ".well-known/openid-configuration")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""No symmetric ones: with them, a caller could sign with the public key as the secret."""
CLOCKS_DIFFER_SECONDS = 30.0
REQUIRED = ("iss", "aud", "sub", "exp")


class AccessTokens:
    """Verifies tokens of one issuer."""

    def __init__(self, oauth: OAuthSpec) -> None:
        self._oauth, self._keys = oauth, IssuerKeys(oauth)
        bare = oauth.audience.removesuffix("/")
        self._audience = (bare, f"{bare}/")

    async def verify(self, token: str) -> VerifiedToken:
        """The owner of a valid token; raises BadToken, MissingScopes or CannotTell."""
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS:
                raise BadToken("its algorithm is not accepted")
            key = await self._keys.find(header.get("kid"))
            if key is None or key.get("alg", algorithm) != algorithm:
                raise BadToken("its key is unknown")
            claims = self._claims(token, jwt.PyJWK(dict(key), algorithm))
        except (jwt.PyJWTError, ValueError) as error:
            raise BadToken(_reason(error)) from None
        return self._caller(claims)

    def _claims(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        return jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            audience=self._audience,
            issuer=self._oauth.issuer,
            leeway=CLOCKS_DIFFER_SECONDS,
            options={"require": list(REQUIRED), "enforce_minimum_key_length": True},
        )

    def _caller(self, claims: Mapping[str, Any]) -> VerifiedToken:
        if not claims["sub"]:
            raise BadToken("it has no subject")
        scopes = _words(claims.get("scope")) | _words(claims.get("scp"))
        if any(scope not in scopes for scope in self._oauth.scopes):
            raise MissingScopes(self._oauth.scopes)
        issuer, subject = self._oauth.issuer, str(claims["sub"])
        client = claims.get("client_id") or claims.get("azp") or ""
        # The issuer is part of the principal, so that it never equals the principal of a fixed token.
        return VerifiedToken(f"{issuer}#{subject}", scopes, str(client), issuer, int(claims["exp"]))


def _words(claim: object) -> frozenset[str]:
    """Scopes as issuers write them: separated by spaces, or a list."""
    words = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return frozenset(word for word in words if isinstance(word, str))


def _reason(error: Exception) -> str:
    reasons: dict[type[Exception], str] = {
        jwt.ExpiredSignatureError: "it has expired",
        jwt.InvalidAudienceError: "it was made for another audience",
        jwt.InvalidIssuerError: "another issuer made it",
        jwt.ImmatureSignatureError: "it is not valid yet",
        jwt.MissingRequiredClaimError: "it lacks a claim",
        jwt.InvalidSignatureError: "its signature is wrong",
    }
    return reasons.get(type(error), "it cannot be read")


class FetchFault(Exception):
    """The issuer is unreachable, or its answer is invalid."""


class IssuerKeys:
    """The cached public keys of an issuer by id, as JSON Web Keys."""

    def __init__(self, oauth: OAuthSpec) -> None:
        self._issuer, self._url = oauth.issuer, oauth.jwks_url
        self._keys: Mapping[str | None, Mapping[str, Any]] = {}
        self._asked = self._fetched = -math.inf
        self._lock = anyio.Lock()

    async def find(self, key_id: str | None) -> Mapping[str, Any] | None:
        """The key with this id, or None if the issuer has none; raises CannotTell if the keys are unavailable."""
        # A request whose key is cached, though stale, does not wait for the refresh of another request.
        if not self._fresh(key_id) and not (key_id in self._keys and self._lock.locked()):
            async with self._lock:  # one fetch at a time; waiting requests use its keys
                now = loop_time()
                if not self._fresh(key_id) and now - self._asked > PAUSE:
                    self._asked = now
                    await self._refresh()
        if loop_time() - self._fetched > BELIEVED:
            raise CannotTell(PAUSE)
        return self._keys.get(key_id)

    def _fresh(self, key_id: str | None) -> bool:
        return key_id in self._keys and loop_time() - self._fetched < FRESH

    async def _refresh(self) -> None:
        try:
            with anyio.fail_after(FETCH_SECONDS):
                async with httpx2.AsyncClient(follow_redirects=False, timeout=FETCH_SECONDS) as client:
                    url = self._url or await self._published_url(client)
                    self._keys = _by_id(await _fetched(client, url))
                    self._fetched = loop_time()
        except (FetchFault, TimeoutError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            log.warning("the keys of %s cannot be fetched: %r", self._issuer, error)

    async def _published_url(self, client: httpx2.AsyncClient) -> str:
        """The `jwks_uri` of the issuer's metadata (RFC 8414, else OpenID Connect discovery)."""
        parts = urlsplit(self._issuer)
        path = parts.path.rstrip("/")
        root = f"{parts.scheme}://{parts.netloc}"
        for address in (f"{root}/{_METADATA[0]}{path}", f"{root}{path}/{_METADATA[1]}"):
            try:
                metadata = await _fetched(client, address)
            except FetchFault:
                continue
            url = metadata.get("jwks_uri")
            # An issuer on HTTPS must not point to keys on plain HTTP.
            if metadata.get("issuer") == self._issuer and isinstance(url, str) and url.startswith(f"{parts.scheme}://"):
                return url
        raise FetchFault("its metadata has no `jwks_uri`")


async def _fetched(client: httpx2.AsyncClient, url: str) -> dict[str, Any]:
    body = b""
    async with client.stream("GET", url, headers={"accept": "application/json"}) as response:
        if response.status_code != httpx2.codes.OK:
            raise FetchFault(f"{url} answered {response.status_code}")
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MOST_BYTES:
                raise FetchFault(f"{url} answered more than {MOST_BYTES} bytes")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise FetchFault(f"{url} did not answer a JSON object")
    return content


def _by_id(content: Mapping[str, Any]) -> dict[str | None, Mapping[str, Any]]:
    """The signing keys by id. A single key also serves tokens without a key id."""
    listed = content.get("keys")
    keys = [key for key in listed if isinstance(key, dict)] if isinstance(listed, list) else []
    found: dict[str | None, Mapping[str, Any]] = {
        key["kid"]: key for key in keys if isinstance(key.get("kid"), str) and key.get("use", "sig") == "sig"
    }
    if not found and not keys:
        raise FetchFault("there are no keys in its answer")
    if len(keys) == 1:
        found[None] = keys[0]
    return found
