import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tests.support.http_serving import Served, served
from tests.support.issuer import KEY_ID, Issuer, issuer_on_loopback, public_key

AUDIENCE = "https://agents.example.org/mcp"
ELSEWHERE = "https://other.example.org/mcp"
SECRET = b"s" * 48
METADATA = "https://agents.example.org/.well-known/oauth-protected-resource/mcp"


@asynccontextmanager
async def protected(folder: Path, scopes: str = "[]", jwks_url: str = "") -> AsyncIterator[tuple[Served, Issuer]]:
    """A server that takes the tokens of an issuer."""
    async with issuer_on_loopback(AUDIENCE) as issuer:
        keys = f"jwks_url: '{issuer.url}{jwks_url}'," if jwks_url else ""
        section = f"serve: {{http: {{oauth: {{issuer: '{issuer.url}', audience: '{AUDIENCE}', {keys} scopes: {scopes}}}}}}}"
        async with served(folder, section) as server:
            yield server, issuer


async def status(server: Served, token: str) -> int:
    return (await server.ask(headers={"Authorization": f"Bearer {token}"})).status


async def test_a_token_of_the_issuer_says_who_calls(tmp_path: Path) -> None:
    async with protected(tmp_path) as (server, issuer):
        reply = await server.ask(headers={"Authorization": f"Bearer {issuer.token(scope='agents executions:read_all')}"})

        assert reply.said == {"principal": f"{issuer.url}#bob", "scopes": ["agents", "executions:read_all"]}
        assert await status(server, issuer.token(aud=[ELSEWHERE, AUDIENCE], sub="eve", scp=["agents"])) == 200
        assert await status(server, issuer.token(aud=f"{AUDIENCE}/")) == 200
        assert issuer.asked == [
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
            "/keys",
        ]  # once, for all of them


async def test_no_bad_token_is_accepted(tmp_path: Path) -> None:
    now = int(time.time())
    async with protected(tmp_path) as (server, issuer):
        published = issuer.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        issuer.keys.append({"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(SECRET).decode()})
        good = issuer.token()
        head, payload, signature = good.split(".")
        other = ec.generate_private_key(ec.SECP256R1())
        forged = {
            "another audience": issuer.token(aud=ELSEWHERE),
            "several other audiences": issuer.token(aud=[ELSEWHERE, f"{AUDIENCE}x"]),
            "an audience within another": issuer.token(aud=f"{AUDIENCE}.evil.example"),
            "an audience in capitals": issuer.token(aud=AUDIENCE.upper()),
            "no audience": issuer.token(aud=None),
            "an empty audience": issuer.token(aud=""),
            "another issuer": issuer.token(iss="https://evil.example"),
            "an issuer with a slash": issuer.token(iss=f"{issuer.url}/"),
            "no issuer": issuer.token(iss=None),
            "expired": issuer.token(exp=now - 60),
            "no end": issuer.token(exp=None),
            "an end that is no time": issuer.token(exp="soon"),
            "not yet": issuer.token(nbf=now + 600),
            "issued in the future": issuer.token(iat=now + 600),
            "nobody": issuer.token(sub=None),
            "an empty subject": issuer.token(sub=""),
            "a subject that is no text": rewritten(good, {"sub": 7}),
            "no algorithm": unsigned(payload, {"alg": "none", "kid": KEY_ID}),
            "no algorithm in capitals": unsigned(payload, {"alg": "NONE", "kid": KEY_ID}),
            "no algorithm, old signature": f"{encoded({'alg': 'none', 'kid': KEY_ID})}.{payload}.{signature}",
            "the public key as a secret": hmac_signed(payload, published),
            "the published key as a secret": hmac_signed(payload, json.dumps(issuer.keys[0]).encode()),
            "a secret the issuer published": hmac_signed(payload, SECRET, "shared"),
            "another key": issuer.token(key=other),
            "another algorithm": issuer.token(key=ec.generate_private_key(ec.SECP384R1()), header={"alg": "ES384"}),
            "an RSA key": issuer.token(key=rsa.generate_private_key(65537, 2048), header={"alg": "RS256"}),
            "an EdDSA key": issuer.token(key=ed25519.Ed25519PrivateKey.generate(), header={"alg": "EdDSA"}),
            "an unknown key": issuer.token(key=other, header={"kid": "key-2"}),
            "a key that is a path": issuer.token(key=other, header={"kid": "../../../../dev/null"}),
            "a key of its own": issuer.token(key=other, header={"jwk": public_key(other, KEY_ID)}),
            "a key from elsewhere": issuer.token(key=other, header={"jku": "https://evil.example/keys"}),
            "a critical extension": issuer.token(header={"crit": ["exp"]}),
            "a changed claim": rewritten(good, {"sub": "root"}),
            "without its signature": f"{head}.{payload}.",
            "half a signature": good[:-10],
            "two tokens": f"{good}.{good}",
            "no token": "e30.e30.e30",
            "words": "let me in please",
        }

        assert {why: code for why, token in forged.items() if (code := await status(server, token)) != 401} == {}
        assert server.calls == 0
        assert await status(server, good) == 200
        assert len(issuer.asked) == 3, "strangers made us ask the issuer again"


async def test_a_client_without_a_token_learns_where_to_get_one(tmp_path: Path) -> None:
    async with protected(tmp_path, "[agents, files]") as (server, issuer):
        refused = await server.ask()
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{METADATA}"'

        for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            metadata = (await server.ask(path, {"Host": "agents.example.org"}, "GET")).json
            assert metadata["resource"] == AUDIENCE
            assert metadata["authorization_servers"] == [issuer.url]
            assert metadata["scopes_supported"] == ["agents", "files"]


async def test_scopes_that_are_missing_are_named_all_at_once(tmp_path: Path) -> None:
    async with protected(tmp_path, "[agents, files]") as (server, issuer):
        for scope in (None, "", "agents", "files other", "agents:files", "AGENTS FILES"):
            reply = await server.ask(headers={"Authorization": f"Bearer {issuer.token(scope=scope)}"})
            assert reply.status == 403
            challenge = reply.headers["www-authenticate"]
            assert 'error="insufficient_scope"' in challenge
            assert 'scope="agents files"' in challenge
        assert await status(server, issuer.token(scope="other files agents")) == 200
        assert await status(server, issuer.token(scp=["files", "agents"])) == 200


async def test_a_new_key_is_found_but_invented_ones_do_not_make_us_ask_without_end(tmp_path: Path) -> None:
    async with protected(tmp_path, jwks_url="/keys") as (server, issuer):
        stranger = ec.generate_private_key(ec.SECP256R1())
        for number in range(20):
            assert await status(server, issuer.token(key=stranger, header={"kid": f"invented-{number}"})) == 401
        assert issuer.asked == ["/keys"]

        issuer.keys.append(public_key(stranger, "key-2"))
        rotated = issuer.token(key=stranger, header={"kid": "key-2"})
        assert await status(server, rotated) == 401  # too soon to ask again
        assert await status(server, issuer.token()) == 200


async def test_a_rotated_key_is_taken_up_once_the_issuer_may_be_asked_again(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("server.http_face.jwt.PAUSE", 0.0)
    async with protected(tmp_path, jwks_url="/keys") as (server, issuer):
        assert await status(server, issuer.token()) == 200
        fresh = ec.generate_private_key(ec.SECP256R1())
        issuer.keys[:] = [public_key(fresh, "key-2")]

        assert await status(server, issuer.token(key=fresh, header={"kid": "key-2"})) == 200
        assert await status(server, issuer.token()) == 401  # withdrawn


async def test_without_the_issuer_no_caller_comes_in_and_no_caller_is_told_their_token_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.http_face.jwt.PAUSE", 0.0)
    async with protected(tmp_path, jwks_url="/keys") as (server, issuer):

        async def faulty(keys: list[dict[str, Any]], code: int = 200, padding: int = 0) -> int:
            issuer.keys, issuer.status, issuer.padding = keys, code, padding
            return await status(server, issuer.token())

        good = issuer.keys
        assert await faulty(good, code=500) == 503
        assert await faulty(good, code=302) == 503
        assert await faulty(good, padding=300_000) == 503
        assert await faulty([]) == 503
        monkeypatch.setattr("server.http_face.jwt.FETCH_SECONDS", 0.1)
        issuer.gate = anyio.Event()
        assert await faulty(good) == 503
        issuer.gate = None
        monkeypatch.setattr("server.http_face.jwt.FETCH_SECONDS", 10.0)
        assert set(issuer.asked) == {"/keys"}
        assert server.calls == 0
        assert await faulty(good) == 200
        assert await faulty([], code=500) == 200  # what is known is believed for a while

    nowhere = "http://127.0.0.1:9"
    async with served(tmp_path, f"serve: {{http: {{oauth: {{issuer: '{nowhere}', audience: '{AUDIENCE}'}}}}}}") as server:
        token = Issuer(nowhere, AUDIENCE).token()
        reply = await server.ask(headers={"Authorization": f"Bearer {token}"})
        assert reply.status == 503
        assert reply.headers["retry-after"]


async def test_callers_who_come_together_make_us_ask_once_and_known_keys_wait_for_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: list[int] = []
    async with protected(tmp_path, jwks_url="/keys") as (server, issuer):

        async def ask() -> None:
            replies.append(await status(server, issuer.token()))

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(ask)
        assert replies == [200] * 10
        assert issuer.asked == ["/keys"]

        monkeypatch.setattr("server.http_face.jwt.FRESH", 0.0)
        monkeypatch.setattr("server.http_face.jwt.PAUSE", 0.0)
        issuer.gate = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            with anyio.fail_after(5):
                await issuer.held.wait()
                await ask()
            assert len(replies) == 11
            issuer.gate.set()
        assert replies == [200] * 12


def encoded(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def unsigned(payload: str, header: dict[str, str]) -> str:
    return f"{encoded(header)}.{payload}."


def rewritten(token: str, claims: dict[str, object]) -> str:
    """The token with other claims and its old signature."""
    head, payload, signature = token.split(".")
    content = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return f"{head}.{encoded({**content, **claims})}.{signature}"


def hmac_signed(payload: str, secret: bytes, key_id: str = KEY_ID) -> str:
    """A token signed with what everybody knows; PyJWT itself refuses to make one."""
    signing = f"{encoded({'alg': 'HS256', 'kid': key_id})}.{payload}"
    digest = hmac.new(secret, signing.encode(), hashlib.sha256).digest()
    return f"{signing}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
