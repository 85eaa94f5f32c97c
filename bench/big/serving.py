"""The API of a real service over a filled database, on a free port of loopback.

Owns the service, its agents and its socket. Must not know: what is asked. Invariant: a request passes everything that it
passes in `outrider serve --http`; the service is in this process, so that its statements are seen.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio
import httpx2

from bench.big.population import AGENTS, MODELS, TOP_AGENTS
from bench.service import loaded
from db.latch import Latch
from runner.llm.models import Models
from server.app import Blueprint, open_service
from server.http_face.app import ENDPOINT, Building, over_http
from server.http_face.listen import parse_address
from server.mcp_face.server import mcp_server
from server.mcp_face.updates import Updates
from server.service import Service
from server.site import DashboardSite

if TYPE_CHECKING:
    from db.store.outage import Trouble

SECONDS = 60.0
CONFIG = {
    "models": {name: {"model": name, "base_url": "http://127.0.0.1:9"} for name in MODELS},
    "agents": {
        name: {
            "description": f"is {name}",
            "model": MODELS[0],
            **({"sub_agents": AGENTS[-5:]} if number < TOP_AGENTS else {}),
        }
        for number, name in enumerate(AGENTS)
    },
}


class NothingBehind:
    """A host process with a working database, which ignores ended sessions and is never stopped."""

    def __init__(self) -> None:
        self.stopping = Latch()

    async def left(self, session: str) -> None:
        """Ignore it."""

    async def trouble(self) -> Trouble | None:
        return None

    async def metrics(self) -> bytes:
        return b""


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service over the database."""
    with TemporaryDirectory(prefix="bench-") as folder:
        settings = loaded({**CONFIG, "defaults": {"model": MODELS[0]}}, Path(folder))
        models = Models(settings.models, {"ANTHROPIC_API_KEY": "fake"})
        async with open_service(Blueprint(settings, path, models=models)) as dispatcher, anyio.create_task_group() as group:
            service, urls, ready = Service(), list[str](), anyio.Event()
            service.serve(mcp_server(service, Updates()))
            service.open(dispatcher)

            def tell(url: str) -> None:
                urls.append(url.removesuffix(ENDPOINT))
                ready.set()

            building = Building(settings.serve.http, {}, NothingBehind(), DashboardSite())
            group.start_soon(over_http(building, parse_address("127.0.0.1:0"), tell), service, name="serve over HTTP")
            with anyio.fail_after(SECONDS):
                await ready.wait()
            async with httpx2.AsyncClient(base_url=urls[0], timeout=SECONDS, headers={"X-Outrider": "1"}) as http:
                yield http
            group.cancel_scope.cancel("asked")
        await models.close()
