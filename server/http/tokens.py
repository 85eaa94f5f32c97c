"""Fixed tokens: callers named in the configuration, each with a secret from an environment variable.

Owns reading these variables when the server starts, and the comparison. Invariant: only digests are kept, and how long a
comparison takes says nothing about any of them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping

from registry import TokenSpec
from server.http.caller import Caller
from server.http.errors import HttpFault

SHORTEST = 16
"""Characters: what is shorter can be guessed."""

_MADE = "make one with `openssl rand -hex 32`"
_SENDABLE = re.compile(r"[!-~]+")


class FixedTokens:
    """The callers with a token of their own."""

    def __init__(self, specs: Iterable[TokenSpec], environ: Mapping[str, str]) -> None:
        """Read the tokens; raises HttpFault when one is missing, weak, or two are the same."""
        self._known: dict[bytes, Caller] = {}
        for spec in specs:
            digest = _digest(_token(spec, environ))
            if digest in self._known:
                other = self._known[digest].principal
                raise HttpFault(f"`{spec.principal}` and `{other}` have the same token", "give each caller one of its own")
            self._known[digest] = Caller(spec.principal, spec.scopes, client=spec.principal)

    async def verify(self, token: str) -> Caller | None:
        """The caller of this token, if it is one of these."""
        given, found = _digest(token), None
        for digest, caller in self._known.items():  # all of them, always
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
