import socket
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from bench.big.serving import NothingBehind
from registry import HttpSpec, TokenSpec
from server.cli.terminal.exits import Exit, explain
from server.http_face.app import Building, over_http
from server.http_face.errors import HttpFault
from server.http_face.listen import Address, parse_address
from tests.support.http_serving import CALL, CALL_HEADERS, META, served


@pytest.mark.parametrize(
    ("written", "host", "port", "loopback"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("127.8.9.10:1", "127.8.9.10", 1, True),
        ("localhost:0", "localhost", 0, True),
        ("LOCALHOST:80", "LOCALHOST", 80, True),
        ("[::1]:8080", "::1", 8080, True),
        (":8080", "127.0.0.1", 8080, True),
        ("8080", "127.0.0.1", 8080, True),
        ("0.0.0.0:8080", "0.0.0.0", 8080, False),
        ("[::]:8080", "::", 8080, False),
        ("10.1.2.3:65535", "10.1.2.3", 65535, False),
        ("[::ffff:10.1.2.3]:1", "::ffff:10.1.2.3", 1, False),
        ("agents.example.org:443", "agents.example.org", 443, False),
        ("localhost.example.org:443", "localhost.example.org", 443, False),
        ("2130706433:80", "2130706433", 80, False),
    ],
)
def test_an_address_is_read_as_it_is_written(written: str, host: str, port: int, loopback: bool) -> None:
    address = parse_address(written)

    assert address == Address(host, port)
    assert address.is_loopback is loopback


@pytest.mark.parametrize(
    "written",
    ["", "localhost", "::1:8080", "[::1]", "a:b", "x:65536", "x:-1", "http://x:1", "x:1/mcp", "u@x:1", "x: 1", "*:1"],
)
def test_what_is_no_address_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(HttpFault, match="not an address to listen on") as caught:
        parse_address(written)

    assert "`127.0.0.1:8080`" in caught.value.hint


@pytest.mark.parametrize("written", ["0.0.0.0:0", "[::]:0", "10.1.2.3:0", "agents.example.org:0", "2130706433:0"])
def test_what_others_can_reach_is_not_opened_without_authentication(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    opened: list[object] = []
    monkeypatch.setattr(socket, "socket", lambda *given, **named: opened.append(given))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **named: opened.append(given))

    with pytest.raises(HttpFault) as caught:
        over_http(Building(HttpSpec(), {}, NothingBehind()), parse_address(written), print)

    failure = explain(caught.value)
    assert "without authentication" in failure.message
    assert "`127.0.0.1`" in failure.hint
    assert "`serve.http.tokens`" in failure.hint
    assert failure.code == Exit.USAGE
    assert not opened


async def test_with_authentication_every_address_may_be_opened_and_answers_to_no_foreign_name(tmp_path: Path) -> None:
    tokens = "serve: {http: {tokens: {alice: {token: '${ALICE_TOKEN}'}}}}"
    async with served(tmp_path, tokens, {"ALICE_TOKEN": "a" * 40}, "0.0.0.0:0") as server:
        server.address = Address("127.0.0.1", server.address.port)
        assert (await server.ask(headers={"Authorization": f"Bearer {'a' * 40}"})).status == 200
        assert (await server.ask()).status == 401
        assert (await server.ask("/health", {"Host": "0.0.0.0"}, "GET")).status == 421


async def test_a_port_in_use_is_an_error_with_a_hint(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        with pytest.raises(HttpFault, match=f"127.0.0.1:{server.address.port}`: the port is in use") as caught:
            over_http(Building(HttpSpec(), {}, NothingBehind()), server.address, print)

    assert "port 0" in caught.value.hint


def test_a_host_that_is_not_there_is_an_error_with_a_hint() -> None:
    http = HttpSpec(tokens={"alice": TokenSpec("alice", "ALICE_TOKEN")})
    with pytest.raises(HttpFault, match="there is no such host") as caught:
        over_http(Building(http, {"ALICE_TOKEN": "a" * 40}, NothingBehind()), Address("x" * 70, 0), print)

    assert caught.value.hint


@pytest.mark.parametrize("address", ["localhost:0", "[::1]:0", "127.0.0.2:0"])
async def test_it_is_reached_under_the_address_it_tells(tmp_path: Path, address: str) -> None:
    async with served(tmp_path, address=address) as server, httpx2.AsyncClient() as http:
        assert server.url == f"http://{address.removesuffix(':0')}:{server.address.port}/mcp"
        assert (await http.post(server.url, json=CALL, headers=CALL_HEADERS)).status_code == 200


async def test_stopping_ends_streams_and_waits_and_frees_the_port(tmp_path: Path) -> None:
    ends: list[str] = []

    async def wait(url: str, meta: dict[str, Any]) -> None:
        body = {**CALL, "params": {"name": "wait", "arguments": {}, "_meta": {**META, **meta}}}
        async with httpx2.AsyncClient(timeout=20) as http:
            reply = await http.post(url, json=body, headers={**CALL_HEADERS, "Mcp-Name": "wait"})
            ends.append(f"{reply.status_code} {reply.headers['content-type']}")

    with anyio.fail_after(15):
        async with anyio.create_task_group() as clients:
            async with served(tmp_path) as server:
                for meta in ({"progressToken": 1}, {}):
                    server.waiting = anyio.Event()
                    clients.start_soon(wait, server.url, meta)
                    await server.waiting.wait()
                stopped = anyio.current_time()
            assert anyio.current_time() - stopped < 4
            async with served(tmp_path, address=f"127.0.0.1:{server.address.port}") as again:
                assert (await again.ask()).status == 200

    assert sorted(ends) == ["200 text/event-stream", "503 application/json"]


async def test_an_answer_does_not_wait_until_its_head_is_confirmed(tmp_path: Path) -> None:
    took: list[float] = []
    async with served(tmp_path) as server, httpx2.AsyncClient() as http:
        for _ in range(12):
            began = anyio.current_time()
            await http.post(server.url, json=CALL, headers=CALL_HEADERS)
            took.append(anyio.current_time() - began)

    assert min(took[2:]) < 0.03  # a delayed confirmation takes 40 ms, each time
