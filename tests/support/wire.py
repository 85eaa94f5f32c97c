"""A client of `outrider serve` without a client library: JSON-RPC over the streams of a real process, or over HTTP.

Owns the envelope of a request in each era and transport. It corrects and refuses nothing, as a library would.
Must not know: the subject of a test. Invariant: an answer is the whole message from the wire.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio
import httpx2
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from server.mcp_face.calls import ERROR
from tests.support.shell import SCRIPT, Shell

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERAS = (LEGACY, MODERN)
SECONDS = 40.0
"""Timeout for one answer, on a busy machine."""
LONGEST = 32 * 1024 * 1024

Answer = dict[str, Any]
Parameters = Mapping[str, Any]


class Wire(Protocol):
    """A client, on either transport."""

    async def ask(self, method: str, parameters: Parameters | None = None) -> Answer:
        """Send a request; returns the whole answer, with `result` or `error`."""
        ...

    async def call(self, tool: str, arguments: Any) -> Answer:
        """Call a tool; returns the whole answer."""
        ...


def about(era: str, capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The `_meta` of a request in the newer era: version and capabilities of the client."""
    if era == LEGACY:
        return {}
    return {
        "io.modelcontextprotocol/protocolVersion": era,
        "io.modelcontextprotocol/clientCapabilities": dict(capabilities or {}),
    }


def problem_of(answer: Answer) -> dict[str, str]:
    """Type, message and hint of a tool error, which has no structured content."""
    result = answer["result"]
    assert result["isError"], result
    assert "structuredContent" not in result, result
    found: dict[str, str] = result["_meta"][ERROR]
    return found


def introduction(capabilities: Mapping[str, Any] | None = None, version: str = LEGACY) -> dict[str, Any]:
    """The parameters of `initialize`."""
    about_us = {"name": "wire", "version": "1"}
    return {"protocolVersion": version, "capabilities": dict(capabilities or {}), "clientInfo": about_us}


def request(identifier: Any, method: str, parameters: Parameters | None, era: str) -> dict[str, Any]:
    """A request with the metadata of its era."""
    given = dict(parameters or {})
    if era != LEGACY:
        given["_meta"] = {**about(era), **given.get("_meta", {})}
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": given}


@dataclass
class StdioWire:
    """A client on the standard streams of a server process."""

    process: Process
    era: str
    person: Callable[[Answer], Answer] | None = None
    """Answers an elicitation; None if the client does not declare the capability."""
    _count: int = 0
    _lines: BufferedByteReceiveStream = field(init=False)

    def __post_init__(self) -> None:
        assert self.process.stdout is not None
        self._lines = BufferedByteReceiveStream(self.process.stdout)

    async def greet(self) -> Answer:
        """Begin as the era wants it."""
        if self.era != LEGACY:
            return await self.ask("server/discover")
        answer = await self.ask("initialize", introduction({"elicitation": {}} if self.person is not None else None))
        await self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode() + b"\n")
        return answer

    async def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        await self.process.stdin.send(data)

    async def receive(self) -> Answer:
        """The next message; fails if it is not JSON-RPC."""
        with anyio.fail_after(SECONDS):
            line = await self._lines.receive_until(b"\n", LONGEST)
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0", message
        return dict(message)

    async def answer_to(self, identifier: Any) -> Answer:
        """The answer with this id. Other messages before it are skipped, except elicitations, which `person` answers."""
        while True:
            message = await self.receive()
            if "method" not in message and message.get("id") == identifier:
                return message
            if self.person is not None and message.get("method") == "elicitation/create":
                said = {"jsonrpc": "2.0", "id": message["id"], "result": self.person(message["params"])}
                await self.send(json.dumps(said).encode() + b"\n")

    async def ask(self, method: str, parameters: Parameters | None = None) -> Answer:
        """Ask, and wait for the answer."""
        self._count += 1
        await self.send(json.dumps(request(self._count, method, parameters, self.era)).encode() + b"\n")
        return await self.answer_to(self._count)

    async def call(self, tool: str, arguments: Any) -> Answer:
        """Call a tool."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def rest(self) -> bytes:
        """The output that was not read yet, to its end."""
        rest = self._lines.buffer
        try:
            while True:
                rest += await self._lines.receive()
        except anyio.EndOfStream:
            return rest

    async def close(self) -> int:
        """Close standard input, and wait for the process; returns its exit code."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        return await self.process.wait()


@dataclass
class HttpWire:
    """A client of `/mcp`."""

    http: httpx2.AsyncClient
    url: str
    era: str
    headers: dict[str, str] = field(default_factory=dict)
    _count: int = 0

    async def greet(self) -> Answer:
        """Begin as the era wants it."""
        if self.era != LEGACY:
            return await self.ask("server/discover")
        self._count += 1
        response = await self.post(request(self._count, "initialize", introduction(), LEGACY))
        self.headers |= {"mcp-session-id": response.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer_in(response, self._count)

    async def post(self, message: Any, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """Send one message."""
        usual = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if self.era != LEGACY and isinstance(message, dict):
            usual |= {"mcp-protocol-version": self.era, "mcp-method": message["method"]} | _name(message)
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.http.post(self.url, content=body, headers=usual | self.headers | dict(headers or {}))

    async def ask(self, method: str, parameters: Parameters | None = None) -> Answer:
        """Ask, and wait for the answer."""
        self._count += 1
        number = self._count
        return answer_in(await self.post(request(number, method, parameters, self.era)), number)

    async def call(self, tool: str, arguments: Any) -> Answer:
        """Call a tool."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})


def _name(message: Mapping[str, Any]) -> dict[str, str]:
    """The header `mcp-name`, which repeats the target of a request."""
    given = message.get("params") or {}
    field_name = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(message["method"], "taskId")
    name = given.get(field_name)
    return {"mcp-name": name} if isinstance(name, str) and name.isascii() else {}


def answer_in(response: httpx2.Response, identifier: Any) -> Answer:
    """The answer in a response, which is one message or an event stream."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        messages = [json.loads(line[5:]) for line in response.text.splitlines() if line[5:].strip() and line[:5] == "data:"]
        [answer] = [each for each in messages if "method" not in each and each.get("id") == identifier]
        return dict(answer)
    return dict(json.loads(response.text))


@asynccontextmanager
async def wired(command: Sequence[str], folder: Path, environ: Mapping[str, str], era: str) -> AsyncIterator[StdioWire]:
    """Start a server, and do the handshake. It is killed on exit if it still runs. Its stderr goes to the file `stderr`."""
    with (folder / "stderr").open("ab") as notes:
        process = await anyio.open_process(command, cwd=folder, env=environ, stderr=notes)
    try:
        wire = StdioWire(process, era)
        await wire.greet()
        yield wire
    finally:
        await _end(process)


@asynccontextmanager
async def over_stdio(shell: Shell, era: str, **environ: str) -> AsyncIterator[StdioWire]:
    """Start `outrider serve` on standard streams."""
    async with wired([str(SCRIPT), "serve"], shell.folder, shell.surroundings(**environ), era) as wire:
        yield wire


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    with anyio.CancelScope(shield=True):
        await process.aclose()


@asynccontextmanager
async def served_over_http(shell: Shell, **environ: str) -> AsyncIterator[tuple[Process, str]]:
    """Start `outrider serve --http`; yields the process and its URL. It is killed on exit if it still runs."""
    command = [str(SCRIPT), "serve", "--http", "127.0.0.1:0"]
    process = await anyio.open_process(
        command, cwd=shell.folder, env=shell.surroundings(**environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        assert process.stderr is not None
        with anyio.fail_after(SECONDS):
            told = ""
            while (found := re.search(r"http://\S+/mcp", told)) is None:
                told += (await process.stderr.receive()).decode()
        yield process, found[0]
    finally:
        await _end(process)


@asynccontextmanager
async def over_http(url: str, era: str, token: str | None = None) -> AsyncIterator[HttpWire]:
    """Connect a new client, and do the handshake."""
    headers = {"authorization": f"Bearer {token}"} if token is not None else {}
    async with httpx2.AsyncClient(timeout=SECONDS, verify=False) as http:
        wire = HttpWire(http, url, era, headers)
        await wire.greet()
        yield wire


def peak(process: int) -> int:
    """The peak memory of a process in kilobytes; 0 if the system does not report it."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
