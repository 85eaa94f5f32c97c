"""The fake model as a server: `python -m bench.fake_llm [--latency-ms X] [--hold] [--notes] [--prompt-cache MINIMUM]`.

Owns: connections, latency and the counts of `GET /stats`. Must not know: the contestants. Invariant: the first line of
output is the address as JSON; an unsent reply counts as aborted once its connection is closed.

With `--hold` it never replies to workers, so that the contestant reaches its highest number of requests in flight. With
`--notes` it keeps the moment when each text `NOTE <number>` first arrived. With `--prompt-cache` it keeps what each prompt
of a worker read from the cache and wrote to it.
"""

import argparse
import contextlib
import json
import re
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup

from bench.brain import NoDirective, think
from bench.framing import HttpRequest, RequestReader, Unreadable, response
from bench.prompt_cache import CacheUse, PromptCache
from bench.wire import encode, message_of, read_request, stream_of, uncached

NOTE = re.compile(rb"NOTE (\d+)")


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
    notes: dict[str, float] = field(default_factory=dict)
    """When each note first arrived."""
    prompts: list[dict[str, Any]] = field(default_factory=list)
    """What the cache did for the prompts of workers, in order of arrival."""

    def note(self, body: bytes) -> None:
        """Keep the moment of the notes that are new in a request."""
        now = time.time()
        for number in NOTE.findall(body):
            self.notes.setdefault(number.decode(), now)

    def prompt(self, use: CacheUse, *, first: bool) -> None:
        """Keep what the cache did for one prompt; `first`: of its conversation."""
        self.prompts.append(
            {"first": first, "shared": use.shared, "read": use.read, "written": use.written, "plain": use.plain}
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply to be sent: its author's role, its bytes, and what it puts into the cache."""

    supervisor: bool
    data: bytes
    cached: CacheUse | None


@dataclass(frozen=True, slots=True)
class FakeModel:
    """The server: its settings and its counts."""

    stats: Stats
    latency: float
    hold: bool
    cache: PromptCache | None = None
    notes: bool = False

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
        if self.notes:
            self.stats.note(request.body)
        try:
            reply = self._reply_to(request.body)
        except (NoDirective, KeyError, ValueError) as error:  # the contestant's fault: the run must not pass
            self._complain(error)
            problem = {"type": "error", "error": {"type": "invalid_request_error", "message": repr(error)}}
            await stream.send(response("400 Bad Request", encode(problem)))
            return

        held = self.hold and not reply.supervisor
        if held or self.latency:
            # In a task of its own, so that this loop keeps reading and notices the end of the connection.
            replies.start_soon(self._reply_later, stream, reply, held)
        else:
            self.stats.max_in_flight = max(self.stats.max_in_flight, 1)
            self._begin(reply)
            await stream.send(reply.data)

    def _reply_to(self, body: bytes) -> Reply:
        request = json.loads(body)
        thought = think(read_request(request))
        cached = self.cache.look(request) if self.cache is not None else None
        if cached is not None and not thought.supervisor:
            self.stats.prompt(cached, first=len(request["messages"]) == 1)
        message = message_of(request["model"], thought, uncached(len(body)) if cached is None else cached.usage)
        if not request.get("stream"):
            return Reply(thought.supervisor, response("200 OK", encode(message)), cached)

        self.stats.streamed += 1
        data = response("200 OK", stream_of(message), "text/event-stream; charset=utf-8")
        return Reply(thought.supervisor, data, cached)

    def _begin(self, reply: Reply) -> None:
        """The provider caches a prompt when its reply begins, so requests in flight at the same time do not share it."""
        if self.cache is not None and reply.cached is not None:
            self.cache.keep(reply.cached)

    async def _reply_later(self, stream: SocketStream, reply: Reply, held: bool) -> None:
        stats, sent = self.stats, False
        stats.in_flight += 1
        stats.max_in_flight = max(stats.max_in_flight, stats.in_flight)
        stats.held += held
        try:
            await (anyio.sleep_forever() if held else anyio.sleep(self.latency))
            sent = True
            self._begin(reply)
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await stream.send(reply.data)
        finally:
            stats.in_flight -= 1
            stats.held -= held
            if not sent:
                stats.aborted += 1
                stats.last_abort_at = time.time()

    def _complain(self, error: Exception) -> None:
        self.stats.errors += 1
        print(f"bad request: {error!r}", file=sys.stderr, flush=True)


async def serve(model: FakeModel) -> None:
    """Listen on a free port of loopback until the process is terminated."""
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
    parser.add_argument("--notes", action="store_true", help="keep when each `NOTE <number>` first arrived")
    parser.add_argument("--prompt-cache", type=int, metavar="MINIMUM", help="simulate a cache of prompts of so many tokens")
    arguments = parser.parse_args()
    cache = PromptCache(arguments.prompt_cache) if arguments.prompt_cache is not None else None
    anyio.run(serve, FakeModel(Stats(), arguments.latency_ms / 1000, arguments.hold, cache, arguments.notes))


if __name__ == "__main__":
    main()
