"""Access tokens of an OAuth issuer (RFC 9068): who they were made for, by whom, and until when.

Owns what a good token is. Must not know: where keys come from. Invariant: a token is believed only if its signature fits a
key of the configured issuer by an asymmetric algorithm, and its audience is this server; nothing in it says where to look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jwt

from registry import OAuthSpec
from server.http.caller import BadToken, Caller, MissingScopes
from server.http.keys import Keys

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""None with a shared secret: whoever knows the public key could then sign."""
CLOCKS_DIFFER_SECONDS = 30.0
REQUIRED = ("iss", "aud", "sub", "exp")


class AccessTokens:
    """Verifies tokens of one issuer."""

    def __init__(self, oauth: OAuthSpec) -> None:
        self._oauth, self._keys = oauth, Keys(oauth)
        bare = oauth.audience.removesuffix("/")
        self._audience = (bare, f"{bare}/")

    async def verify(self, token: str) -> Caller:
        """The caller of a good token; raises BadToken, MissingScopes or CannotTell."""
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

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        if not claims["sub"]:
            raise BadToken("it names nobody")
        scopes = _words(claims.get("scope")) | _words(claims.get("scp"))
        if any(scope not in scopes for scope in self._oauth.scopes):
            raise MissingScopes(self._oauth.scopes)
        issuer, subject = self._oauth.issuer, str(claims["sub"])
        client = claims.get("client_id") or claims.get("azp") or ""
        # With its issuer, so that it can never be mistaken for a caller with a fixed token.
        return Caller(f"{issuer}#{subject}", scopes, str(client), issuer, int(claims["exp"]))


def _words(claim: object) -> frozenset[str]:
    """Scopes as issuers write them: words in one text, or a list."""
    words = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return frozenset(word for word in words if isinstance(word, str))


def _reason(error: Exception) -> str:
    reasons: dict[type[Exception], str] = {
        jwt.ExpiredSignatureError: "it has expired",
        jwt.InvalidAudienceError: "it was made for another audience",
        jwt.InvalidIssuerError: "it is of another issuer",
        jwt.ImmatureSignatureError: "it does not hold yet",
        jwt.MissingRequiredClaimError: "it lacks a claim",
        jwt.InvalidSignatureError: "its signature does not fit",
    }
    return reasons.get(type(error), "it cannot be read")
