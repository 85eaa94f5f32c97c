"""The fake model as a server: `python -m bench.fake_llm [--latency-ms X] [--hold]`.

Owns: connections, latency and the counts of `GET /stats`. Must not know: the contestants. Invariant: the first line of
output is the address as JSON; an unsent reply counts as aborted once its connection is closed.

With `--hold` it never replies to workers, so that the contestant reaches its highest number of requests in flight.
"""

import argparse
import contextlib
import json
import signal
import sys
import time
from dataclasses import asdict, dataclass

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup

from bench.brain import NoDirective, think
from bench.framing import HttpRequest, RequestReader, Unreadable, response
from bench.wire import encode, message_of, read_request, stream_of


@dataclass
class Stats:
    """The counts of the server."""

    requests: int = 0
    streamed: int = 0
    errors: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    held: int = 0
    aborted: int = 0
    connections_open: int = 0
    connections_total: int = 0
    first_request_at: float | None = None
    last_abort_at: float | None = None


@dataclass(frozen=True, slots=True)
class FakeModel:
    """The server: its settings and its counts."""

    stats: Stats
    latency: float
    hold: bool

    async def serve(self, stream: SocketStream) -> None:
        """Answer the requests of one connection until the client closes it."""
        self.stats.connections_open += 1
        self.stats.connections_total += 1
        reader = RequestReader()
        try:
            async with stream, anyio.create_task_group() as replies:
                try:
                    while True:
                        for request in reader.feed(await stream.receive()):
                            await self._answer(request, stream, replies)
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    replies.cancel_scope.cancel("the client closed the connection")
                except Unreadable as error:
                    self._complain(error)
                    replies.cancel_scope.cancel("the request cannot be read")
        finally:
            self.stats.connections_open -= 1

    async def _answer(self, request: HttpRequest, stream: SocketStream, replies: TaskGroup) -> None:
        if request.path == "/stats":
            await stream.send(response("200 OK", encode(asdict(self.stats))))
            return
        if request.path != "/v1/messages":
            self._complain(LookupError(request.path))
            await stream.send(response("404 Not Found", b"{}"))
            return

        self.stats.requests += 1
        self.stats.first_request_at = self.stats.first_request_at or time.time()
        try:
            supervisor, data = self._reply_to(request.body)
        except (NoDirective, KeyError, ValueError) as error:  # the contestant's fault: the run must not pass
            self._complain(error)
            problem = {"type": "error", "error": {"type": "invalid_request_error", "message": repr(error)}}
            await stream.send(response("400 Bad Request", encode(problem)))
            return

        held = self.hold and not supervisor
        if held or self.latency:
            # In a task of its own, so that this loop keeps reading and notices the end of the connection.
            replies.start_soon(self._reply_later, stream, data, held)
        else:
            self.stats.max_in_flight = max(self.stats.max_in_flight, 1)
            await stream.send(data)

    def _reply_to(self, body: bytes) -> tuple[bool, bytes]:
        request = json.loads(body)
        thought = think(read_request(request))
        message = message_of(request["model"], thought, len(body))
        if not request.get("stream"):
            return thought.supervisor, response("200 OK", encode(message))

        self.stats.streamed += 1
        return thought.supervisor, response("200 OK", stream_of(message), "text/event-stream; charset=utf-8")

    async def _reply_later(self, stream: SocketStream, data: bytes, held: bool) -> None:
        stats, sent = self.stats, False
        stats.in_flight += 1
        stats.max_in_flight = max(stats.max_in_flight, stats.in_flight)
        stats.held += held
        try:
            await (anyio.sleep_forever() if held else anyio.sleep(self.latency))
            sent = True
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await stream.send(data)
        finally:
            stats.in_flight -= 1
            stats.held -= held
            if not sent:
                stats.aborted += 1
                stats.last_abort_at = time.time()

    def _complain(self, error: Exception) -> None:
        self.stats.errors += 1
        print(f"bad request: {error!r}", file=sys.stderr, flush=True)


async def serve(latency: float, hold: bool) -> None:
    """Listen on a free port of loopback until the process is terminated."""
    model = FakeModel(Stats(), latency, hold)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener:
        port = listener.extra(SocketAttribute.local_port)
        print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with anyio.create_task_group() as connections:
                connections.start_soon(listener.serve, model.serve)
                async for _ in signals:
                    break
                connections.cancel_scope.cancel("told to end")


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m bench.fake_llm", description="a deterministic fake model")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--hold", action="store_true", help="never send the workers' replies")
    arguments = parser.parse_args()
    anyio.run(serve, arguments.latency_ms / 1000, arguments.hold)


if __name__ == "__main__":
    main()
