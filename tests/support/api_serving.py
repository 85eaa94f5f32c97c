"""The API and the pages of a real service on a real socket; only the model's answers are scripted.

Owns the client: requests with the headers a page sends, and event streams read message by message. Must not know: the
subject of a test.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2

from bench.big.serving import NothingBehind
from server.api.feed import Feed
from server.caller.sessions import Sessions
from server.http_face.app import ENDPOINT, Building, over_http
from server.http_face.listen import parse_address
from server.mcp_face.server import mcp_server
from server.mcp_face.updates import Updates
from server.service import Service
from server.site import DashboardSite
from tests.support.http_serving import message
from tests.support.service import Bench, bench

TIME = 20.0
MARK = {"X-Outrider": "1"}


@dataclass(frozen=True)
class StreamMessage:
    """One message of an event stream."""

    id: str
    kind: str
    data: Any

    @property
    def seq(self) -> int:
        return int(self.id)


@dataclass(frozen=True)
class ApiClient:
    """A caller of the API."""

    http: httpx2.AsyncClient

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        """Look; the answer, which has this status."""
        answer = await self.http.get(path, params=query or None)
        assert answer.status_code == status, (path, answer.status_code, answer.text)
        return answer.json()

    async def post(self, path: str, status: int = 200, **body: Any) -> Any:
        """Act; the answer, which has this status."""
        answer = await self.http.post(path, json=body, headers=MARK)
        assert answer.status_code == status, (path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def stream(self, path: str, last: str = "", **query: Any) -> AbstractAsyncContextManager[AsyncGenerator[StreamMessage]]:
        """Follow events; `last` is the id of the last one that was read."""
        return follow(self.http, path, last, query)

    async def collected(self, path: str, last: str = "", until: str = "ended", **query: Any) -> list[StreamMessage]:
        """The stored events of a stream up to a message."""
        found: list[StreamMessage] = []
        with anyio.fail_after(TIME):
            async with self.stream(path, last, **query) as messages:
                async for message in messages:
                    if message.kind == until:
                        break
                    found += [message] if message.id else []
        return found

    async def ended(self, execution: str) -> dict[str, Any]:
        """Wait for the end of an execution; its answer."""
        await self.collected(f"/api/executions/{execution}/events")
        return dict(await self.get(f"/api/executions/{execution}"))


@asynccontextmanager
async def follow(
    http: httpx2.AsyncClient, path: str, last: str, query: Mapping[str, Any]
) -> AsyncIterator[AsyncGenerator[StreamMessage]]:
    headers = {"Last-Event-ID": last} if last else {}
    async with http.stream("GET", path, params=dict(query), headers=headers, timeout=TIME) as response:
        assert response.status_code == 200, response.status_code
        assert response.headers["content-type"].startswith("text/event-stream")
        reading = _messages(response)
        try:
            yield reading
        finally:
            await reading.aclose()


async def _lines(response: httpx2.Response) -> AsyncIterator[str]:
    """The lines of an event stream: unlike in Python, only a line feed ends one here."""
    held = ""
    async for text in response.aiter_text():
        *whole, held = (held + text).split("\n")
        for line in whole:
            yield line.removesuffix("\r")


async def _messages(response: httpx2.Response) -> AsyncGenerator[StreamMessage]:
    fields: dict[str, str] = {}
    async for line in _lines(response):
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
        elif fields:
            if "data" in fields or "event" in fields:
                data = json.loads(fields["data"]) if fields.get("data") else None
                yield StreamMessage(fields.get("id", ""), fields.get("event", ""), data)
            elif "" in fields:
                yield StreamMessage("", "heartbeat", None)
            fields = {}


@dataclass(frozen=True)
class ServedApi:
    """A service behind its socket."""

    bench: Bench
    url: str
    site: DashboardSite
    stopping: NothingBehind

    @asynccontextmanager
    async def client(self, token: str | None = None, **headers: str) -> AsyncIterator[ApiClient]:
        """A caller, with a bearer token or without."""
        given = {"Authorization": f"Bearer {token}"} if token is not None else {}
        async with httpx2.AsyncClient(base_url=self.url, headers={**given, **headers}, timeout=TIME) as http:
            yield ApiClient(http)

    async def raw(self, path: str) -> tuple[int, str]:
        """Request a path exactly as it is written; the status and the body."""
        where = parse_address(self.url.removeprefix("http://"))
        request = message("GET", path, {"Host": f"{where.host}:{where.port}"})
        with anyio.fail_after(TIME):
            async with await anyio.connect_tcp(where.host, where.port) as stream:
                await stream.send(request)
                received = b""
                async for chunk in stream:
                    received += chunk
        head, _, body = received.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()


@dataclass(frozen=True)
class ApiOptions:
    """What a test serves differently."""

    environ: Mapping[str, str] | None = None
    extra_tools: Sequence[Any] = ()
    asks_everyone: bool = False
    sessions: Sessions | None = None
    files: Path | None = None
    feed: Feed | None = None


USUAL = ApiOptions()


@asynccontextmanager
async def served_api(
    folder: Path, config: str, scripts: Mapping[str, Any], options: ApiOptions = USUAL
) -> AsyncIterator[ServedApi]:
    """A service with scripted models, served on a free port."""
    opening = bench(folder, config, scripts, options.extra_tools, options.environ)
    async with opening as opened, anyio.create_task_group() as group:
        service, updates, behind = Service(), Updates(), NothingBehind()
        service.serve(mcp_server(service, updates))
        service.open(opened.dispatcher)
        group.start_soon(updates.run, opened.dispatcher, name="updates")
        site = DashboardSite(options.sessions, asks_everyone=options.asks_everyone, files=options.files, feed=options.feed)
        ready, told = anyio.Event(), list[str]()

        def tell(url: str) -> None:
            told.append(url.removesuffix(ENDPOINT))
            ready.set()

        http = opened.dispatcher.services.settings.serve.http
        building = Building(http, options.environ or {}, behind, site)
        group.start_soon(over_http(building, parse_address("127.0.0.1:0"), tell), service, name="serve over HTTP")
        with anyio.fail_after(TIME):
            await ready.wait()
        yield ServedApi(opened, told[0], site, behind)
        group.cancel_scope.cancel()
