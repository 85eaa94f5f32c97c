"""A hostile server for tests: `python -m tests.support.raw_server MODE` on a pipe, `… http` for all modes over HTTP.

Owns: the two transports, and the misbehaviour that only one of them allows. Must not know: Outrider or the SDK.
Invariant: standard library only, so it starts at once. Unless the mode differs, it does the handshake of the older protocol
and lists `poke` and `well`. Over HTTP its first line of output is its port, and `/MODE/…` is served in that mode.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.raw_modes import Server, text

# The listing itself opens a descriptor, which is closed before `exists` is called.
DESCRIPTORS = sorted(int(entry.name) for entry in list(Path("/proc/self/fd").iterdir()) if entry.exists())


class Pipe:
    """Standard output as a channel."""

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def rest(self) -> None:
        """Neither answer nor read, and ignore SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()

    def end(self) -> None:
        """Close the output, but stay alive."""
        os.close(1)
        self.rest()

    def die(self) -> None:
        """Exit at once, with a line on standard error."""
        sys.stderr.write("panic: no more disk\n")
        sys.stderr.flush()
        os._exit(3)

    def chatter(self, size: int) -> None:
        """Fill standard error."""
        sys.stderr.write("chatter\n" * (size // 8))


class Child(Server):
    """The server on a pipe, with the modes that need a process."""

    def _poke(self, channel: Any, number: int) -> None:
        match self.mode:
            case "pid":
                text(channel, number, str(os.getpid()))
            case "environment":
                seen = {"variables": dict(os.environ), "descriptors": DESCRIPTORS, "group": os.getpgrp()}
                text(channel, number, json.dumps(seen))
            case "breeds":
                # The grandchild holds our output and ignores SIGTERM, so only a kill of the group ends it.
                deaf = "import signal; signal.signal(15, signal.SIG_IGN)\nwhile True: signal.pause()"
                text(channel, number, str(subprocess.Popen([sys.executable, "-S", "-c", deaf]).pid))
            case "long":
                # Long answers; the fact a test looks for is at the end of the second.
                text(channel, number, "x" * 1400 + ("the key is 4711" if self.changed == 2 else ""))
            case "counts":
                # Dies during its first call, after the effect.
                with Path(os.environ["COUNT"]).open("a+", encoding="utf-8") as file:
                    file.write("poked\n")
                    file.seek(0)
                    count = len(file.readlines())
                channel.die() if count == 1 else text(channel, number, f"poked {count} times")
            case _:
                super()._poke(channel, number)


def serve_pipe(mode: str) -> None:
    """Serve until the input ends, or as the mode says."""
    if mode == "dies_at_start":
        sys.stderr.write("no configuration found\n")
        sys.exit(7)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server, channel = Child(mode), Pipe()
    for line in sys.stdin.buffer:
        server.respond(channel, json.loads(line))
    if mode == "stubborn":
        channel.rest()


class Events:
    """The answer to one POST as a stream of events."""

    def __init__(self, handler: "Handler") -> None:
        self._handler = handler
        self._begun = False
        self._ended = False

    def write(self, data: bytes) -> None:
        """Send each line as an event."""
        if not self._begun:
            self._begun = True
            self._handler.begin(200, "text/event-stream")
            self._handler.chunk(b"data: ")
        self._handler.chunk(data.replace(b"\n", b"\n\ndata: "))

    def rest(self) -> None:
        """Neither answer nor end."""
        threading.Event().wait()

    def end(self) -> None:
        """End the stream."""
        if not self._ended:
            self._ended = True
            if not self._begun:
                self._handler.begin(200, "text/event-stream")
            self._handler.chunk(b"")

    def die(self) -> None:
        """Cut the connection."""
        self._handler.cut()

    def chatter(self, size: int) -> None:
        """Send comments."""
        comment = b": " + b"chatter " * 10 + b"\n"
        self._handler.begin(200, "text/event-stream")
        self._begun = True
        self._handler.chunk(comment * (size // len(comment)) + b"data: ")


PAGES: dict[str, "Page"] = {}


class Page(Server):
    """The server at one path, with the state that only HTTP needs."""

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        self.seen: list[dict[str, str]] = []
        self.session = 0


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    @property
    def page(self) -> Page:
        """The server of the request's path, `/MODE/anything`."""
        return PAGES.setdefault(self.path, Page(self.path.split("/")[1]))

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.page.seen.append({name.lower(): value for name, value in self.headers.items()})
        method, name = message["method"], message.get("params", {}).get("name")
        if method == "notifications/cancelled" and self.page.mode == "deaf":
            Events(self).rest()
        elif method.startswith("notifications/"):
            self.send(202)
        elif method == "initialize" and self.page.mode == "forgets":
            self.page.session += 1
            events = Events(self)
            self.page.respond(events, message)
            events.end()
        elif not ((method == "server/discover" or name == "poke") and self._refuse(message["id"])):
            self._respond(message)

    def do_GET(self) -> None:
        """Return the headers of the requests to the path after `/seen`; offer no event stream."""
        if self.path.startswith("/seen"):
            page = PAGES.get(self.path.removeprefix("/seen"))
            self.send(200, json.dumps(page.seen if page is not None else []).encode(), "application/json")
        else:
            self.send(405)

    def do_DELETE(self) -> None:
        self.send(204)

    def _respond(self, message: dict[str, Any]) -> None:
        events = Events(self)
        self.page.respond(events, message)
        if not self.close_connection:
            events.end()

    def _refuse(self, number: object) -> bool:
        """Misbehave in a way that only HTTP allows; False if the mode has none. Applies to `poke` and to discovery."""
        mode = self.page.mode
        if mode.startswith("status_"):
            self.send(int(mode.removeprefix("status_")))
        elif mode.startswith("redirect_") and not self.path.endswith("/"):
            self._redirect(mode)
        elif mode == "web_page":
            self.send(200, b"<html>Sign in</html>", "text/html")
        elif mode == "empty_body":
            self.send(200, b"", "application/json")
        elif mode == "squeezed":
            squeezed = zlib.compressobj(level=1, wbits=31)
            data = b"".join(squeezed.compress(b" " * 1_000_000) for _ in range(100)) + squeezed.flush()
            self.send(200, data, "application/json", content_encoding="gzip")
        elif mode == "accepts":
            self.send(202)
        elif mode == "forgets" and self.page.session == 1:
            self.send(404)
        else:
            return self._break_off(mode, number)
        return True

    def _break_off(self, mode: str, number: object) -> bool:
        """Send an answer without an end, or with a wrong one; False if the mode has none."""
        if mode == "endless_body":
            self.begin(200, "application/json")
            while True:
                self.chunk(b" " * 65536)
        elif mode == "resume_loop":
            self.begin(200, "text/event-stream")
            self.chunk(b"id: 1\nretry: 0\ndata: \n\n")
            self.chunk(b"")
        elif mode == "short_body":
            self.send(200, json.dumps({"jsonrpc": "2.0", "id": number}).encode(), "application/json", promised=1000)
            self.cut()
        else:
            return False
        return True

    def _redirect(self, mode: str) -> None:
        here = f"{self.headers['host']}{self.path}"
        places = {
            "redirect_metadata": (307, "http://169.254.169.254/latest/meta-data"),
            "redirect_host": (307, f"http://{here}/moved".replace("127.0.0.1", "localhost")),
            "redirect_get": (303, f"http://{here}/moved"),
            "redirect_loop": (307, self.path),
            "redirect_slash": (307, f"{self.path}/"),
        }
        status, place = places[mode]
        self.send(status, location=place)

    def begin(self, status: int, kind: str) -> None:
        """Begin a body of unknown length."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        if self.page.session:
            self.send_header("mcp-session-id", f"session-{self.page.session}")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        """Send a chunk of the body; an empty one ends it."""
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def send(self, status: int, data: bytes = b"", kind: str = "", promised: int = 0, **headers: str) -> None:
        """Send a whole answer; with `promised`, one shorter than its content-length."""
        self.send_response(status)
        for name, value in ({"content-type": kind} | headers if kind else headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(promised or len(data)))
        self.end_headers()
        self.wfile.write(data)

    def cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


class Quiet(ThreadingHTTPServer):
    """A server that ignores disconnects of clients."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report nothing."""


def serve_http() -> None:
    """Serve every mode until killed."""
    server = Quiet(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "http":
        serve_http()
    else:
        serve_pipe(sys.argv[1])
