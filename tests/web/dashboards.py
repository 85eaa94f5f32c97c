"""A dashboard for tests: a real service with scripted models behind its socket, and windows on its pages.

Owns: how a page is opened, and when it is ready. Must not know: the subject of a test. Invariant: no test waits for a time;
each waits for a state that the page declares.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.support.api_serving import ApiClient, ApiOptions, ServedApi, served_api
from tests.web.windows import Windows

CONFIG = """
defaults: {limits: {timeout: 60s}}
models: {m: {model: none, price: {input: 2, output: 10}}}
agents:
  Lead: {description: sends others, sub_agents: [Worker]}
  Worker: {description: works}
  Counter:
    description: counts words
    input_schema:
      type: object
      required: [text]
      properties:
        text: {type: string, description: what to count}
        most: {type: integer, default: 5}
"""
SETTLED = ".page[data-state=ready], .page [data-state=ready], .page[data-state=empty], .page [data-state=empty]"


@dataclass(frozen=True)
class Dashboard:
    """A service, a caller of its API, and windows on its pages."""

    api: ServedApi
    client: ApiClient
    windows: Windows

    async def open(self, path: str = "/", **how: Any) -> Page:
        """A window on a page, once the page shows what it has."""
        page = await self.windows.open(self.api.url + path, **how)
        await page.wait_for_selector(SETTLED)
        return page

    async def start(self, name: str = "Worker", task: str = "look into it") -> str:
        """Start an agent; its id."""
        started = await self.client.post("/api/executions", 201, name=name, task=task)
        return str(started["execution_id"])

    async def run(self, name: str = "Worker", task: str = "look into it") -> str:
        """Start an agent, and wait for its end; its id."""
        execution = await self.start(name, task)
        await self.client.ended(execution)
        return execution


@asynccontextmanager
async def dashboard(
    windows: Windows, folder: Path, scripts: Mapping[str, Any], options: ApiOptions | None = None, config: str = CONFIG
) -> AsyncIterator[Dashboard]:
    """A dashboard on a fresh database."""
    async with served_api(folder, config, scripts, options or ApiOptions()) as api, api.client() as client:
        try:
            yield Dashboard(api, client, windows)
        finally:
            await windows.close()  # before the server, which they would complain of
