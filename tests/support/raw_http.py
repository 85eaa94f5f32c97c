"""A hostile HTTP server for tests, in a thread: whatever a broken endpoint may answer to a POST.

Owns: the misbehaviour, and a record of the requests that came. Must not know: Outrider or the SDK.
Invariant: it is gone when its context is left.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


class RawHttp(ThreadingHTTPServer):
    """The server of one mode."""

    daemon_threads = True

    def __init__(self, mode: str, location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mode = mode
        self.location = location
        self.seen: list[dict[str, str]] = []
        self.over = Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def raw(self) -> RawHttp:
        """The server this request came to."""
        assert isinstance(self.server, RawHttp)
        return self.server

    def do_POST(self) -> None:
        """Answer a message in the way of the mode."""
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.raw.seen.append({name.lower(): value for name, value in self.headers.items()})
        number = message.get("id")
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "raw", "version": "1"}
                self._answer(number, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
            case "tools/list":
                self._answer(number, {"tools": [{"name": "poke", "inputSchema": {"type": "object"}}]})
            case "tools/call":
                self._misbehave(number)
            case "server/discover" if self.raw.mode in ("unauthorised", "redirect", "broken"):
                self._misbehave(number)
            case "server/discover":
                self._send(400, {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "unknown"}})
            case _:
                self._send(202, None)

    def do_GET(self) -> None:
        """Offer no stream."""
        self._send(405, None)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

    def _misbehave(self, number: object) -> None:
        match self.raw.mode:
            case "unauthorised":
                self._send(401, None)
            case "broken":
                self._send(503, None)
            case "redirect":
                self._send(307, None, location=self.raw.location)
            case "hangs":
                self.raw.over.wait()
            case "breaks_off":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "1000")
                self.end_headers()
                self.wfile.write(b'{"jsonrpc"')
                self.close_connection = True
            case "huge":
                self._answer(number, {"content": [{"type": "text", "text": "x" * 12_000_000}]})
            case _:
                self._answer(number, {"content": [{"type": "text", "text": "ok"}]})

    def _answer(self, number: object, result: object) -> None:
        self._send(200, {"jsonrpc": "2.0", "id": number, "result": result})

    def _send(self, status: int, body: object, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("content-type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def raw_http(mode: str, location: str = "") -> Iterator[RawHttp]:
    """Run a hostile server."""
    server = RawHttp(mode, location)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
