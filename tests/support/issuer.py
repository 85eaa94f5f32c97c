"""An OAuth issuer on loopback: its metadata, its keys, and the tokens it signs.

Owns a private key, and a record of the requests it got. Must not know: the verifier of its tokens.
Invariant: a token that `token` signs with default arguments is valid for `audience`.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from starlette.types import Receive, Scope, Send

from db.latch import Latch
from server.http_face.listen import Address, bind, listen

KEY_ID = "key-1"


class Issuer:
    """Signs tokens, and serves its keys."""

    def __init__(self, url: str, audience: str) -> None:
        self.url, self.audience = url, audience
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.keys = [public_key(self.key, KEY_ID)]
        self.asked: list[str] = []
        self.status = 200
        self.padding = 0
        """Bytes added to the keys."""
        self.gate: anyio.Event | None = None
        """Blocks every answer until it is set."""
        self.held = anyio.Event()

    def token(self, *, key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Sign a token. Claims and headers that are None are left out."""
        now = int(time.time())
        good = {"iss": self.url, "aud": self.audience, "sub": "bob", "client_id": "cli", "iat": now, "exp": now + 60}
        payload = {name: value for name, value in {**good, **claims}.items() if value is not None}
        head = {name: value for name, value in {"kid": KEY_ID, **(header or {})}.items() if value is not None}
        algorithm = str(head.pop("alg", "ES256"))
        return jwt.encode(payload, self.key if key is None else key, algorithm, head)

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        if self.gate is not None:
            self.held.set()
            await self.gate.wait()
        content: dict[str, Any] = {"keys": self.keys, "padding": "x" * self.padding}
        if "well-known" in scope["path"]:
            content = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        status = 404 if "oauth-authorization-server" in scope["path"] else self.status
        headers = [(b"location", f"{self.url}/elsewhere".encode())] if status == 302 else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(content).encode()})


def public_key(key: ec.EllipticCurvePrivateKey, key_id: str) -> dict[str, Any]:
    """The public key as a JSON Web Key."""
    published: dict[str, Any] = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**published, "kid": key_id, "use": "sig", "alg": "ES256"}


@asynccontextmanager
async def issuer_on_loopback(audience: str) -> AsyncIterator[Issuer]:
    """Run an issuer on a free port."""
    listener, bound = bind(Address("127.0.0.1", 0))
    issuer, ready = Issuer(bound.url, audience), anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(listen, issuer, listener, ready.set, Latch(), name="an issuer of tokens")
        with anyio.fail_after(10):
            await ready.wait()
        yield issuer
        group.cancel_scope.cancel()
