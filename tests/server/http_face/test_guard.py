from itertools import cycle, product
from pathlib import Path

import pytest

from tests.support.http_serving import Served, message, served

ROUTES = ("/mcp", "/health", "/nothing-here", "/.well-known/oauth-protected-resource")
PORTS = ("", ":{port}", ":80", ":443")

STRANGERS = (
    "evil.example",
    "LOCALHOST.EVIL.EXAMPLE",
    "localhost.evil.example",
    "evil-localhost",
    "localhost-evil",
    "127.0.0.1.evil.example",
    "127.0.0.1.nip.io",
    "evil.example.127.0.0.1",
    "localhost.",
    "localhost..",
    ".localhost",
    "127.0.0.1.",
    "127.0.0.2",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "0.0.0.0",
    "10.0.0.1",
    "169.254.169.254",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::01]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::1%25lo]",
    "[fe80::1]",
    "[localhost]",
    "[::1",
    "::1",
    "::1]",
    "[]",
    "*",
    "null",
    "user@localhost",
    "user:word@127.0.0.1",
    "localhost@evil.example",
    "localhost:80@evil.example",
    "localhost/evil.example",
    "localhost#evil.example",
    "localhost?evil.example",
    "localhost\\evil.example",
    "localhost,evil.example",
    "localhost evil.example",
    "localhost;evil.example",
    "localhost%00.evil.example",
    "%6cocalhost",
    "localhost%2eevil.example",
    "//localhost",
    "http://localhost",
    "ｌｏｃａｌｈｏｓｔ",
    "lоcalhost",
    "localhost。evil.example",
    "１２７.0.0.1",
    "xn--lcalhost-8ig",
    "localhost:",
    "localhost:-1",
    "localhost:http",
    "localhost:123456",
    "localhost:0x50",
    "localhost:８０",
    "'localhost'",
    '"localhost"',
)
FOREIGN_HOSTS = [*(name + port for name, port in product(STRANGERS, PORTS)), "", ":{port}", ":"]
FOREIGN_ORIGINS = [
    *(f"{scheme}://{name}{port}" for name, (scheme, port) in product(STRANGERS, [("http", ":{port}"), ("https", "")])),
    *(
        "null",
        "",
        "*",
        "localhost",
        "127.0.0.1:{port}",
        "http://",
        "http:localhost",
        "//localhost",
        "file://",
        "about:blank",
    ),
    *("ftp://localhost", "chrome-extension://abcdef", "javascript://localhost", "http://localhost/", "http://localhost/x"),
    *("http://localhost http://evil.example", "http://localhost, http://evil.example", "https://console.example.org.evil"),
]
OWN = ("localhost", "LocalHost", "127.0.0.1", "[::1]", "agents.example.org", "AGENTS.example.org")

CONFIGURED = """
serve:
  http:
    allowed_hosts: [agents.example.org, "other.example.org:8443"]
    allowed_origins: [https://console.example.org]
"""


async def status_of(server: Served, headers: list[tuple[str, str]], path: str) -> int:
    """Send what the tool would answer, were the headers good; return the status."""
    usual = [(name, value.replace("{port}", str(server.address.port))) for name, value in headers]
    return (await server.ask(path, dict(usual))).status


async def test_more_than_two_hundred_foreign_hosts_reach_no_handler_on_any_route(tmp_path: Path) -> None:
    async with served(tmp_path, CONFIGURED) as server:
        statuses = {
            (host, route): await status_of(server, [("Host", host)], route)
            for host, route in zip(FOREIGN_HOSTS, cycle(ROUTES), strict=False)
        }

        assert len(statuses) > 200
        assert {what: status for what, status in statuses.items() if status not in (400, 421)} == {}
        assert sum(status == 421 for status in statuses.values()) > 200
        assert server.calls == 0


async def test_foreign_origins_reach_no_handler_on_any_route(tmp_path: Path) -> None:
    async with served(tmp_path, CONFIGURED) as server:
        statuses = {
            (origin, route): await status_of(server, [("Origin", origin)], route)
            for origin, route in zip(FOREIGN_ORIGINS, cycle(ROUTES), strict=False)
        }

        assert len(statuses) > 140
        assert {what: status for what, status in statuses.items() if status not in (400, 403)} == {}
        assert server.calls == 0


async def test_its_own_names_and_the_listed_ones_are_answered_to(tmp_path: Path) -> None:
    async with served(tmp_path, CONFIGURED) as server:
        for host in [*(name + port for name, port in product(OWN, PORTS)), "other.example.org:8443"]:
            assert (await status_of(server, [("Host", host)], "/mcp")) == 200, host
        assert (await server.ask(headers={"Host": "other.example.org"})).status == 421
        assert (await server.ask(headers={"Host": "other.example.org:80"})).status == 421

        for origin in (
            *(f"http://localhost{port}" for port in PORTS),
            *("https://127.0.0.1", "http://[::1]:3000", "https://console.example.org", "https://Console.Example.org"),
        ):
            reply = await server.ask(headers={"Origin": origin.replace("{port}", str(server.address.port))})
            assert reply.status == 200, origin
        same = {"Host": "agents.example.org", "Origin": "https://agents.example.org"}
        assert (await server.ask(headers=same)).status == 200
        assert (await server.ask(headers={"Origin": "https://agents.example.org"})).status == 403  # it came by another name


async def test_what_a_proxy_might_say_counts_for_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        forwarded = {"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example", "X-Forwarded-For": "10.0.0.1"}
        assert (await server.ask(headers=forwarded)).status == 200
        forwarded = {"Host": "evil.example", "X-Forwarded-Host": "localhost", "Forwarded": "host=localhost"}
        assert (await server.ask(headers=forwarded)).status == 421


async def test_a_request_that_names_its_host_in_another_way_is_refused(tmp_path: Path) -> None:
    ways: list[tuple[str, list[tuple[str, str]]]] = [
        ("GET http://evil.example/health", [("Host", "localhost")]),
        ("GET http://localhost/health", [("Host", "localhost")]),
        ("GET //evil.example/health", [("Host", "evil.example")]),
        ("OPTIONS *", [("Host", "localhost")]),
        ("CONNECT localhost:80", [("Host", "localhost")]),
        ("GET /health", []),
        ("GET /health", [("Host", "localhost"), ("Host", "evil.example")]),
        ("GET /health", [("Host", "localhost"), ("Host", "localhost")]),
    ]
    async with served(tmp_path) as server:
        for (line, headers), version in product(ways, (b"HTTP/1.1", b"HTTP/1.0")):
            method, path = line.split()
            reply = await server.raw(message(method, path, headers).replace(b"HTTP/1.1", version, 1))
            assert reply.status in (400, 421), line


async def test_two_origins_are_one_too_many(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        headers = [("Host", "localhost"), ("Origin", "http://localhost"), ("Origin", "http://localhost")]
        assert (await server.raw(message("GET", "/health", headers))).status == 403


async def test_only_listed_pages_may_read_answers_from_another_origin(tmp_path: Path) -> None:
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "mcp-method, authorization"}
    async with served(tmp_path, CONFIGURED) as server:
        allowed = await server.ask(headers={"Origin": "https://console.example.org", **ask}, method="OPTIONS")
        assert allowed.status == 200
        assert allowed.headers["access-control-allow-origin"] == "https://console.example.org"
        assert "mcp-method" in allowed.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in allowed.headers
        answer = await server.ask(headers={"Origin": "https://console.example.org"})
        assert answer.headers["access-control-allow-origin"] == "https://console.example.org"

        local = await server.ask(headers={"Origin": "http://localhost:3000", **ask}, method="OPTIONS")
        assert local.status == 400
        assert "access-control-allow-origin" not in local.headers


async def test_every_answer_is_hardened_also_a_refusal(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        replies = [
            await server.ask(),
            await server.ask("/health", method="GET"),
            await server.ask("/nothing-here"),
            await server.ask(headers={"Host": "evil.example"}),
        ]

        assert [reply.status for reply in replies] == [200, 200, 404, 421]
        for reply in replies:
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["cache-control"] == "no-store"
            assert {"frame-ancestors 'none'", "sandbox"} <= {*reply.headers["content-security-policy"].split("; ")}
            assert reply.headers["referrer-policy"] == "no-referrer"
            assert reply.headers["cross-origin-resource-policy"] == "same-origin"
            assert reply.headers["cross-origin-opener-policy"] == "same-origin"
            assert "camera=()" in reply.headers["permissions-policy"]
            assert "server" not in reply.headers
        assert "hint" in replies[-1].json


async def test_a_request_is_bounded_in_headers_and_body(tmp_path: Path) -> None:
    async with served(tmp_path, "serve: {http: {max_body: 2000}}") as server:
        many = {f"X-{number}": "x" for number in range(120)}
        assert (await server.ask(headers=many)).status == 431
        assert (await server.ask(headers={"X-Long": "x" * 20_000})).status in (400, 431)
        assert (await server.ask(f"/mcp?{'x' * 17_000}")).status in (400, 431)
        assert (await server.ask(headers={"X-Fine": "x" * 8_000})).status == 200

        host = [("Host", "localhost"), *{"Content-Type": "application/json"}.items()]
        for path in ("/mcp", "/nothing-here", "/health"):
            assert (await server.raw(message("POST", path, host, b"x" * 2001))).status == 413
        announced = message("POST", "/mcp", host).replace(b"Content-Length: 0", b"Content-Length: 99999999999")
        assert (await server.raw(announced)).status == 413
        for path in ("/mcp", "/nothing-here"):
            chunked = message("POST", path, host).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            assert (await server.raw(chunked + (b"3e8\r\n" + b"x" * 1000 + b"\r\n") * 3 + b"0\r\n\r\n")).status == 413
        assert server.calls == 1


async def test_a_body_that_does_not_come_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.http_face.security.ARRIVAL_SECONDS", 0.1)
    async with served(tmp_path) as server:
        headers = {"Host": "localhost", "Content-Type": "application/json"}
        unsent = message("POST", "/mcp", headers).replace(b"Content-Length: 0", b"Content-Length: 1000")
        assert (await server.raw(unsent + b"x" * 10)).status == 408


async def test_a_path_is_found_as_it_is_or_not_at_all(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for path in ("/mcp/", "//mcp", "/MCP", "/mcp/..", "/%2e/mcp", "/mcp;x", "/mcp%00", "/health/../mcp"):
            assert (await server.ask(path)).status == 404, path
        assert (await server.ask("/%6dcp")).status == 200  # the same path, spelt otherwise
        assert (await server.ask("/mcp?x=1")).status == 200
