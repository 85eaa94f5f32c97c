import json
from pathlib import Path

import anyio
import httpx2
import mcp_types as t
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.http_serving import CALL, CALL_HEADERS, META, MODERN, served

TOKENS = "serve: {http: {tokens: {alice: {token: '${ALICE_TOKEN}'}}}}"
ALICE = "a" * 40


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_clients_of_both_eras_call_tools_and_hear_progress(tmp_path: Path, mode: str) -> None:
    heard = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert (progress, total, message) == (1, None, None)
        heard.set()

    async with (
        served(tmp_path, TOKENS, {"ALICE_TOKEN": ALICE}) as server,
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {ALICE}"}) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
    ):
        with anyio.fail_after(10):
            answer = await client.call_tool("whoami", {})
        assert isinstance(answer.content[0], t.TextContent)
        assert json.loads(answer.content[0].text)["principal"] == "alice"
        capabilities = client.server_capabilities
        assert capabilities is not None
        assert capabilities.resources is not None
        assert capabilities.resources.subscribe is (mode == "legacy")  # here; with `subscriptions/listen` in both
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                await client.call_tool("wait", {}, progress_callback=hear)

            group.start_soon(wait)
            with anyio.fail_after(10):
                await heard.wait()
            group.cancel_scope.cancel()
        assert server.calls == 2


async def test_an_answer_that_takes_long_is_a_stream_and_other_methods_are_not_allowed(tmp_path: Path) -> None:
    async with served(tmp_path) as server, httpx2.AsyncClient() as http:
        waiting = {**CALL, "params": {"name": "wait", "arguments": {}, "_meta": {**META, "progressToken": 1}}}
        headers = {**CALL_HEADERS, "Mcp-Name": "wait"}
        with anyio.fail_after(10):
            async with http.stream("POST", server.url, json=waiting, headers=headers) as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                lines = response.aiter_lines()
                assert "notifications/progress" in await anext(lines) + await anext(lines)
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):  # a page may send these
                assert (await server.ask(headers={"Content-Type": kind})).status == 400
            assert server.calls == 1
            for method in ("GET", "DELETE", "PUT", "PATCH"):
                assert (await server.ask(headers={"MCP-Protocol-Version": MODERN}, method=method)).status == 405
