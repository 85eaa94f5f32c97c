"""Pictures of every page, in light and dark, in `build/pages`; `make pictures` copies three of them into `docs`."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
import pytest
from playwright.async_api import Page, expect

from tests.support.shell import Shell
from tests.support.sources import ROOT
from tests.web.dashboards import SETTLED
from tests.web.rich import rich_board
from tests.web.windows import Windows

FOLDER = ROOT / "build" / "pages"
SHOWN_IN_README = ("live", "execution", "compare")
MOST_BYTES = 120_000
THEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
COST = "select+agent,+count(*)+as+runs,+sum(input_tokens)+as+tokens+from+executions+group+by+agent+order+by+tokens"
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
COLOURS = """async (png) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const points = new Uint32Array(canvas.getImageData(0, 0, image.width, image.height).data.buffer);
  return new Set(points.filter((_, place) => place % 7 === 0)).size;
}"""


@dataclass(frozen=True)
class Camera:
    """Takes pictures of a page, and looks at them."""

    page: Page
    viewer: Page

    async def take(self, name: str) -> None:
        """Keep a picture in each theme, none of them blank; a small one too of what the documentation shows."""
        await self.page.mouse.move(0, 0)
        await expect(self.page.locator(".page[data-state=loading], .page [data-state=loading]")).to_have_count(0)
        await expect(self.page.locator("[data-spans=loading]")).to_have_count(0)
        await self.page.evaluate(PAINTED)
        session = await self.page.context.new_cdp_session(self.page)
        for theme in THEMES:
            await self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            png = await self.page.screenshot(path=FOLDER / f"{name}-{theme}.png")
            assert await self.viewer.evaluate(COLOURS, base64.b64encode(png).decode()) > 30, f"{name}-{theme} is blank"
            if name in SHOWN_IN_README:
                taken = await session.send("Page.captureScreenshot", {"format": "webp", "quality": 85})
                small = base64.b64decode(taken["data"])
                assert len(small) <= MOST_BYTES, name
                await anyio.Path(FOLDER / f"{name}-{theme}.webp").write_bytes(small)

    async def visit(self, pages: Mapping[str, str], url: str) -> None:
        """Take pictures of pages by their names."""
        for name, path in pages.items():
            await self.page.goto(url + path)
            await self.page.wait_for_selector(SETTLED)
            if name == "sql":
                await self.page.click("[data-view=chart]")
            await self.take(name)


@asynccontextmanager
async def camera(windows: Windows, url: str) -> AsyncIterator[Camera]:
    """A camera in front of a page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        yield Camera(await windows.open(url), await windows.open("about:blank"))
    finally:
        await windows.close()  # before the server, which they would complain of


def investigated(shell: Shell, *, without: str = "") -> str:
    """Play the packaged investigation, perhaps without a server; its id."""
    text = (ROOT / "config.yaml").read_text("utf-8")
    config = shell.folder / "config.yaml"
    missing = text.replace(f"-m, outrider_sre.{without}]", "-m, outrider_sre.nothing]")
    config.write_text(missing if without else text, "utf-8")
    shell.type("demo", "--fast", "--config", config.name, "--db", "demo.db")
    rows = shell.json("sql", "select max(id) as id from executions where parent_execution_id is null", "--db", "demo.db")
    return str(rows[0]["id"])


@pytest.mark.timeout(240)
async def test_pictures_of_an_investigation_are_kept(windows: Windows, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    partly = await anyio.to_thread.run_sync(lambda: investigated(shell, without="metrics"))
    done = await anyio.to_thread.run_sync(lambda: investigated(shell))
    with shell.start("dashboard", "--no-open", "--db", "demo.db") as process:
        assert process.stderr is not None
        told = await anyio.to_thread.run_sync(process.stderr.readline)
        address = re.search(r"(http://[^/]+)/\S*#token=\S+", told)
        assert address is not None, told
        async with camera(windows, address[0]) as taking:
            pages = {
                "executions": "/",
                "execution": f"/executions/{done}",
                "compare": f"/compare?a={partly}&b={done}",
                **{name: f"/agents?tab={name}" for name in ("agents", "servers", "configuration", "prices")},
                "usage": "/usage",
                "sql": f"/sql?sql={COST}",
            }
            with shell.start("demo", "--db", "demo.db"):
                await taking.page.click("[data-action=show-new]")
                await taking.page.click("[data-group=running] a.line")
                await taking.page.wait_for_selector("[role=row][data-status=completed]")
                await taking.take("live")
            await taking.visit(pages, address[1])


async def test_pictures_of_what_needs_attention_are_kept(windows: Windows, tmp_path: Path) -> None:
    async with rich_board(windows, tmp_path) as rich, camera(windows, rich.board.api.url) as taking:
        kept = ("execution-asking", "execution-failed", "execution-cancelled", "execution-turns")
        await taking.visit({name: rich.pages[name] for name in kept}, rich.board.api.url)
