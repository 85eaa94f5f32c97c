"""A real HTTP server on loopback that speaks the streamed Messages API and misbehaves on demand.

Owns: the wire side of a model call: answers (`reply`, `refuse`, `drop`, `mute`) and the record of requests.
Must not know: the adapter under test.
Invariant: it records requests at the socket, so a test of retries counts real attempts.

    async with messages_api(refuse(529), reply(text("hello"))) as api:
        ...
        assert len(api.requests) == 2
"""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from anyio.streams.tls import TLSListener

PIECE = 7
"""Characters of one delta: few, so that text and tool arguments always arrive in several."""


@dataclass
class Received:
    """A request as received."""

    headers: dict[str, str]
    raw: bytes
    connection: int
    head: bytes
    """The request line and the headers, byte for byte."""
    closed: anyio.Event = field(default_factory=anyio.Event)
    """Set when the client closes the connection of this request."""

    @property
    def body(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.raw)
        return parsed


@dataclass(frozen=True)
class Answer:
    """The server's reaction to a request."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()
    body: bytes = b""
    raw: bytes = b""
    """Bytes sent instead of an answer; then the connection is closed."""
    gate: anyio.Event | None = None
    gate_after: int = 0
    """Events sent before the wait for the gate; -1 waits before the headers."""
    cut_after: int | None = None
    """Events sent before the connection is closed; -1 closes it before the headers."""
    for_ever: bytes = b""
    """Bytes repeated after the events, without an end, until the client disconnects."""
    pace: float = 0.0
    """Seconds between two repetitions of `for_ever`, or without it between two events."""


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool_use(name: str, arguments: Mapping[str, Any], id_: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


def thinking(words: str, signature: str = "sig") -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": signature}


def system_of(body: Mapping[str, Any]) -> str:
    """The system prompt of a request."""
    system: str | Sequence[Mapping[str, Any]] = body.get("system", "")
    return system if isinstance(system, str) else "".join(block["text"] for block in system)


def reply(*blocks: Mapping[str, Any], gate: anyio.Event | None = None, gate_after: int = 0) -> Answer:
    """A complete answer; with a gate, it waits after `gate_after` events."""
    return Answer(events=events_of(blocks), gate=gate, gate_after=gate_after, headers={"request-id": "req_1"})


def stopped(reason: Any, *blocks: Mapping[str, Any]) -> Answer:
    """A complete answer with this stop reason."""
    *events, last, end = events_of(blocks)
    return Answer(events=[*events, {**last, "delta": {"stop_reason": reason}}, end])


def endless(*blocks: Mapping[str, Any], then: bytes, pace: float = 0.0) -> Answer:
    """An answer without an end: its first events, then the same bytes for ever."""
    return Answer(events=events_of(blocks)[:-3], for_ever=then, pace=pace)


def refuse(status: int, type_: str = "api_error", message: str = "no", **headers: str) -> Answer:
    """An error status; header names are written with underscores."""
    body = json.dumps({"type": "error", "error": {"type": type_, "message": message}}).encode()
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body=body)


def cut(answer: Answer, after: int) -> Answer:
    """The answer, with its connection closed after `after` events."""
    return Answer(events=answer.events, cut_after=after)


def drop() -> Answer:
    """Close the connection before the first byte."""
    return Answer(cut_after=-1)


def garbage(data: bytes) -> Answer:
    """Send bytes that are not HTTP, or not the HTTP that their headers announce."""
    return Answer(raw=data)


def break_off(type_: str, message: str = "no") -> Answer:
    """Begin an answer, then send an error event."""
    begun = events_of([text("I was about to")])[:4]
    return Answer(events=[*begun, {"type": "error", "error": {"type": type_, "message": message}}])


def mute() -> Answer:
    """Never answer."""
    return reply(text("never said"), gate=anyio.Event())


def events_of(blocks: Iterable[Mapping[str, Any]], usage: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The stream of events for these blocks."""
    counts = usage or {"input_tokens": 11, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 5}
    start: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "usage": {**counts, "output_tokens": 1}}},
        {"type": "ping"},
    ]
    stop_reason = "end_turn"
    for index, block in enumerate(blocks):
        if block["type"] == "tool_use":
            stop_reason = "tool_use"
        empty, deltas = _streamed(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 42}})
    events.append({"type": "message_stop"})
    return events


def _streamed(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The empty block that starts the stream, and the deltas that complete it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in _pieces(block["text"])]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": part} for part in _pieces(block["thinking"])]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
        case "tool_use":
            given = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in _pieces(given)]
    return dict(block), []


def _pieces(whole: str) -> list[str]:
    size = max(PIECE, len(whole) // 1000)
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def encode_event(event: Mapping[str, Any]) -> bytes:
    """An event as server-sent bytes."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


Choose = Callable[[Received], Answer]


class MessagesApi:
    """The running server: its URL, and the requests it received."""

    def __init__(self, answers: Sequence[Answer] | Choose) -> None:
        self.url = ""
        self.requests: list[Received] = []
        self.connections = 0
        self._answers = answers
        self._news = anyio.Event()

    async def arrived(self, count: int) -> Received:
        """Wait for the request with this number, from 1."""
        while len(self.requests) < count:
            await self._news.wait()
        return self.requests[count - 1]

    async def serve(self, stream: ByteStream) -> None:
        """Answer the requests of one connection until the client closes it."""
        self.connections += 1
        number = self.connections
        closed = anyio.Event()
        send, receive = anyio.create_memory_object_stream[bytes](100)
        async with stream, anyio.create_task_group() as group:
            group.start_soon(self._watch, stream, send, closed, group.cancel_scope)
            with receive, contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    received = await _read_request(receive, number, closed)
                    self.requests.append(received)
                    self._news.set()
                    self._news = anyio.Event()
                    if not await _write_answer(stream, self._choose(received)):
                        break
            group.cancel_scope.cancel()

    def _choose(self, received: Received) -> Answer:
        if callable(self._answers):
            return self._answers(received)
        return self._answers[min(len(self.requests), len(self._answers)) - 1]

    @staticmethod
    async def _watch(
        stream: ByteStream, send: MemoryObjectSendStream[bytes], closed: anyio.Event, scope: anyio.CancelScope
    ) -> None:
        """Read continuously, so that a disconnect is noticed at once, even during an answer."""
        with send:
            try:
                while True:
                    await send.send(await stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                closed.set()
                scope.cancel()


async def _read_request(receive: MemoryObjectReceiveStream[bytes], connection: int, closed: anyio.Event) -> Received:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await receive.receive()
        if data.startswith(b"\x16"):
            data = b"TLS / HTTP/1.1\r\n\r\n"  # a TLS handshake is answered in plain text, as proxies do
    head, _, raw = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")[1:]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(raw) < int(headers.get("content-length", "0")):
        raw += await receive.receive()
    return Received(headers, raw, connection, head, closed)


async def _write_answer(stream: ByteStream, answer: Answer) -> bool:
    """Send an answer; False if the connection must be closed."""
    if answer.cut_after == -1:
        return False
    if answer.raw:
        await stream.send(answer.raw)
        return False
    if answer.gate is not None and answer.gate_after == -1:
        await answer.gate.wait()
    shown = {"connection": "keep-alive", **answer.headers}
    if answer.status != 200:
        shown |= {"content-type": "application/json", "content-length": str(len(answer.body))}
    else:
        shown |= {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    head = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
    await stream.send(f"HTTP/1.1 {answer.status} X\r\n{head}\r\n".encode() + answer.body)
    if answer.status != 200:
        return True
    for number, event in enumerate(answer.events):
        if number == answer.cut_after:
            return False
        if answer.gate is not None and number == answer.gate_after:
            await answer.gate.wait()
        data = encode_event(event)
        await _send_chunk(stream, data, 0.0 if answer.for_ever else answer.pace)
    while answer.for_ever:
        await _send_chunk(stream, answer.for_ever, answer.pace)
    await stream.send(b"0\r\n\r\n")
    return True


async def _send_chunk(stream: ByteStream, data: bytes, pace: float) -> None:
    await stream.send(b"%x\r\n%b\r\n" % (len(data), data))
    if pace:
        with anyio.move_on_after(pace):
            await anyio.sleep_forever()


@contextlib.asynccontextmanager
async def messages_api(*answers: Answer | Choose, tls: ssl.SSLContext | None = None) -> AsyncIterator[MessagesApi]:
    """Serve these answers in order, then the last one for ever; or the answers that a function chooses."""
    chooser = answers[0] if answers and callable(answers[0]) else None
    api = MessagesApi(chooser or [answer for answer in answers if isinstance(answer, Answer)])
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(SocketAttribute.local_port)
    api.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    serving = listener if tls is None else TLSListener(listener, tls, standard_compatible=False)
    async with serving, anyio.create_task_group() as group:
        group.start_soon(serving.serve, api.serve)
        yield api
        group.cancel_scope.cancel()
