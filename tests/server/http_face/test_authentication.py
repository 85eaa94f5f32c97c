import json
import logging
from pathlib import Path

import anyio
import pytest

from server.http_face.errors import HttpFault
from tests.support.http_serving import CALL_HEADERS, Reply, Served, message, served

ALICE, BOB = "a" * 40, "b" * 40
TOKENS = """
serve:
  http:
    tokens:
      alice: {token: "${ALICE_TOKEN}", scopes: [executions:read_all]}
      bob: {token: "${BOB_TOKEN}"}
"""
ENVIRON = {"ALICE_TOKEN": ALICE, "BOB_TOKEN": BOB}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_without_authentication_a_caller_on_this_machine_is_local(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        assert (await server.ask()).said == {"principal": None, "scopes": []}
        assert (await server.ask(headers=bearer(ALICE))).said == {"principal": None, "scopes": []}


async def test_a_token_says_who_calls(tmp_path: Path) -> None:
    async with served(tmp_path, TOKENS, ENVIRON) as server:
        assert (await server.ask(headers=bearer(ALICE))).said == {"principal": "alice", "scopes": ["executions:read_all"]}
        assert (await server.ask(headers=bearer(BOB))).said == {"principal": "bob", "scopes": []}
        assert (await server.ask(headers={"authorization": f"BEARER {BOB}"})).said["principal"] == "bob"
        assert server.headers["mcp-name"] == "whoami"
        assert BOB not in str(server.headers)


async def test_no_route_but_the_health_is_reached_without_a_good_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bad = [
        *(
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {ALICE}x",
            f"Bearer {ALICE[:-1]}",
            f"Bearer  {ALICE}",
            f"Bearer {ALICE.upper()}",
        ),
        *(
            f"Basic {ALICE}",
            f"Token {ALICE}",
            ALICE,
            f"Bearer {ALICE} {BOB}",
            f"Bearer {ALICE},Bearer {BOB}",
            "Bearer ünlaut",
        ),
        *("Bearer alice", "Bearer ${ALICE_TOKEN}", "Bearer null", "Bearer e30.e30.", f"bearer\t{ALICE}"),
    ]
    async with served(tmp_path, TOKENS, ENVIRON) as server:
        for path in ("/mcp", "/nothing-here", "/mcp/", "/health/x", "/", "/.well-known/oauth-protected-resource"):
            replies = [await server.ask(path), *[await server.ask(path, {"Authorization": each}) for each in bad]]
            assert {reply.status for reply in replies} == {401}
            assert all(reply.headers["www-authenticate"].startswith("Bearer") for reply in replies)
        twice = [
            *CALL_HEADERS.items(),
            ("Host", "localhost"),
            *(("Authorization", f"Bearer {each}") for each in (ALICE, BOB)),
        ]
        assert (await server.raw(message("POST", "/mcp", twice))).status == 401
        assert (await server.ask(f"/mcp?access_token={ALICE}")).status == 401
        health = await server.ask("/health", method="GET")

        assert (health.status, health.json) == (200, {"status": "ok"})
        assert server.calls == 0
        assert ALICE not in caplog.text


async def test_a_challenge_names_an_error_only_where_a_token_was_given(tmp_path: Path) -> None:
    async with served(tmp_path, TOKENS, ENVIRON) as server:
        assert (await server.ask()).headers["www-authenticate"] == "Bearer"
        assert 'error="invalid_token"' in (await server.ask(headers=bearer("x" * 30))).headers["www-authenticate"]


async def test_who_is_not_known_is_refused_before_the_body_is_read(tmp_path: Path) -> None:
    async with served(tmp_path, TOKENS, ENVIRON) as server:
        headers = {"Host": "localhost", "Content-Type": "application/json"}
        unsent = message("POST", "/mcp", headers).replace(b"Content-Length: 0", b"Content-Length: 1000")
        assert (await server.raw(unsent)).status == 401


async def test_a_session_belongs_to_the_caller_that_opened_it(tmp_path: Path) -> None:
    async with served(tmp_path, TOKENS, ENVIRON) as server:
        session = await opened(server, ALICE)

        assert await listed(server, session, ALICE) == 200
        assert await listed(server, session, BOB) == await listed(server, "0" * 32, BOB) == 404
        assert await listed(server, session, "x" * 30) == 401


async def opened(server: Served, token: str) -> str:
    """Open a session of the older era; return its id."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    reply = await legacy(server, token, {}, {"id": 1, "method": "initialize", "params": params})
    session = reply.headers["mcp-session-id"]
    await legacy(server, token, {"Mcp-Session-Id": session}, {"method": "notifications/initialized"})
    return session


async def listed(server: Served, session: str, token: str) -> int:
    return (await legacy(server, token, {"Mcp-Session-Id": session}, {"id": 2, "method": "tools/list"})).status


async def legacy(server: Served, token: str, headers: dict[str, str], content: dict[str, object]) -> Reply:
    usual = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **bearer(token),
    }
    body = json.dumps({"jsonrpc": "2.0", **content}).encode()
    return await server.raw(message("POST", "/mcp", {**usual, **headers}, body))


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"ALICE_TOKEN": ALICE}, "`BOB_TOKEN`, the token of `bob`, is not set"),
        ({"ALICE_TOKEN": ALICE, "BOB_TOKEN": ""}, "`BOB_TOKEN`, the token of `bob`, is not set"),
        ({"ALICE_TOKEN": ALICE, "BOB_TOKEN": "short"}, "`BOB_TOKEN` cannot be a token: 16 characters"),
        ({"ALICE_TOKEN": ALICE, "BOB_TOKEN": f"{BOB}\n"}, "`BOB_TOKEN` cannot be a token"),
        ({"ALICE_TOKEN": ALICE, "BOB_TOKEN": ALICE}, "`bob` and `alice` have the same token"),
    ],
)
async def test_a_token_that_protects_nothing_is_refused_at_the_start(
    tmp_path: Path, environ: dict[str, str], said: str
) -> None:
    with anyio.fail_after(5), pytest.raises(HttpFault) as caught:
        async with served(tmp_path, TOKENS, environ):
            pass

    assert said in str(caught.value)
    assert caught.value.hint
    assert ALICE not in str(caught.value)
