"""No text of an agent, a server, a configuration, an address or a database becomes anything but text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import anyio.to_thread
import pytest
from playwright.async_api import Page, Request, expect

from tests.support.models import call, say
from tests.support.shell import Shell
from tests.web.dashboards import SETTLED, dashboard
from tests.web.hostile import LONG, MARKUP, NAME, SECRET, HostileBoard, hostile_board
from tests.web.windows import HEIGHT, NARROW, WIDE, Windows

FOUND = """() => {
  const made = "main :is(img, script, iframe, link, style), base, meta[http-equiv]:not([content^=default-src])";
  const bad = [...document.querySelectorAll(`${made}, a[href^="javascript" i], a[href^="data" i]`)];
  const listening = [...document.querySelectorAll("*")].filter((each) =>
    each.getAttributeNames().some((name) => name.startsWith("on")));
  const wide = document.documentElement.scrollWidth > innerWidth ? [`wider than ${innerWidth}`] : [];
  const ran = [window.cracked, {}.cracked].filter((each) => each !== undefined);
  return [...ran, ...wide, ...[...bad, ...listening].map((each) => each.outerHTML.slice(0, 200))];
}"""
ROWS = "[role=row][data-execution], [role=row][data-refused]"
DEPTHS = ("messages", "turns", "raw")
PARAMETERS = ("q", "node", "tab", "zoom", "a", "b", "sql", "status", "agent", "measure", "days", "show", "all", "token")
SHOWN = "#file[data-state=ready] .x-execution[data-state=ready]"
OPEN_ALL = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  for (const each of document.querySelectorAll("main details:not([open])")) each.open = true;
  await frame();
  for (const each of document.querySelectorAll("main details:not([open])")) each.open = true;
  for (const each of document.querySelectorAll("main [data-action=whole]")) each.click();
  await frame();
}"""
SQL = f"""
select '{MARKUP.replace("'", "''")}' as "{MARKUP.replace('"', '""')}", turns as "__proto__", task as "constructor",
 result, error, turns as "turns", '{LONG}' as "{LONG}" from executions"""


async def refuted(page: Page, where: str) -> None:
    """Nothing of an attack has become more than text, and nothing is wider than the window."""
    assert await page.evaluate(FOUND) == [], where


async def opened(hostile: HostileBoard, path: str, **how: Any) -> Page:
    """A window of the visitor."""
    page = await hostile.board.open(path, storage_state=hostile.browser(), **how)
    page.on("request", lambda request: stray(hostile, request))
    return page


def stray(hostile: HostileBoard, request: Request) -> None:
    """Complain of a request to another place."""
    if not request.url.startswith((hostile.board.api.url, "data:", "blob:", "file:")):
        hostile.board.windows.complaints.append(f"request to {request.url[:100]}")


async def visit(page: Page, hostile: HostileBoard, path: str) -> None:
    """Show another page in the same window."""
    await page.goto(hostile.board.api.url + path)
    await page.wait_for_selector(SETTLED)


async def look_into(page: Page, where: str) -> None:
    """Select every row, and open everything at each depth of its detail."""
    await page.focus("[data-grid]")
    await page.keyboard.press("]")
    for row in await page.locator(ROWS).all():
        await row.click()
        for depth in DEPTHS:
            await page.click(f"[data-depth={depth}]")
            await page.wait_for_selector("[data-detail][data-state=ready]")
            await page.evaluate(OPEN_ALL)
            await refuted(page, f"{where}, {depth}")


async def test_no_list_and_no_dialog_runs_what_a_field_says(windows: Windows, tmp_path: Path) -> None:
    async with hostile_board(windows, tmp_path) as hostile:
        page = await opened(hostile, "/")
        for width in (WIDE, NARROW):
            await page.set_viewport_size({"width": width, "height": HEIGHT})
            await visit(page, hostile, "/")
            for link in await page.locator("li[data-execution] a.line").all():
                await link.focus()
                if await link.get_attribute("aria-expanded") != "true":
                    await page.keyboard.press("Space")
                await expect(page.locator("li[data-peeked=true] .peek a.button").first).to_be_visible()
                await refuted(page, "peek")
                await page.keyboard.press("Escape")
            await expect(page.locator("[data-approval] pre")).to_contain_text("onerror")
        for action in ("message", "cancel", "wrap-up", "rerun"):
            await visit(page, hostile, f"/executions/{hostile.ids['asking' if action != 'rerun' else 'tree']}")
            await page.locator(f"[data-actions] [data-action={action}]").first.click()
            await expect(page.locator(f"[data-dialog={action}] [data-state=ready]")).to_be_attached()
            await refuted(page, action)
        await visit(page, hostile, "/agents")
        await page.locator(f"[data-agent={'W' * 64}] [data-action=start]").click()
        await expect(page.locator("[data-dialog=start] [data-input]")).to_be_visible()
        await refuted(page, "start form")
        await page.keyboard.press("Escape")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("x onerror")
        await expect(page.locator("[role=option]").first).to_contain_text("onerror")
        await refuted(page, "palette")


async def test_no_execution_runs_what_its_agents_and_tools_say(windows: Windows, tmp_path: Path) -> None:
    async with hostile_board(windows, tmp_path) as hostile:
        page = await opened(hostile, "/")
        for kind, execution in hostile.ids.items():
            await visit(page, hostile, f"/executions/{execution}")
            await look_into(page, kind)
        page = await opened(hostile, f"/executions/{hostile.tree}", width=NARROW)
        await refuted(page, "phone")
        await page.locator("[role=row][data-execution]").first.click()
        await expect(page.locator("section[data-detail][data-state=ready]")).to_be_visible()
        await page.evaluate(OPEN_ALL)
        await refuted(page, "phone, detail")


async def test_no_other_page_runs_what_a_field_says(windows: Windows, tmp_path: Path) -> None:
    async with hostile_board(windows, tmp_path) as hostile:
        pair = f"/compare?a={hostile.tree}&b={hostile.ids['cancelled']}"
        tabs = [f"/agents?tab={each}" for each in ("agents", "servers", "configuration", "prices")]
        page = await opened(hostile, "/agents")
        for width in (NARROW, WIDE):
            await page.set_viewport_size({"width": width, "height": HEIGHT})
            for path in (*tabs, "/usage", "/compare", pair):
                await visit(page, hostile, path)
                await page.evaluate(OPEN_ALL)
                await refuted(page, path)
        await visit(page, hostile, f"/sql?{urlencode({'sql': SQL})}")
        await refuted(page, "rows")
        await page.click("[data-view=chart]")
        for name in await page.locator(".sql-chart select >> nth=0 >> option").all_text_contents():
            await page.locator(".sql-chart select >> nth=0").select_option(name)
            await refuted(page, f"chart of {name[:40]}")
        windows.allow("status of 422")  # saved queries that are no SQL
        for place in (0, 1):
            await page.select_option("select[name=saved]", value=f"saved:{place}")
            await expect(page.locator(".page:not([data-state=loading])")).to_be_visible()
            await refuted(page, "saved query")


@pytest.mark.parametrize("value", [NAME, LONG, "%"], ids=["markup", "long", "percent"])
async def test_no_address_runs_what_it_says(windows: Windows, tmp_path: Path, value: str) -> None:
    windows.allow("status of 4")
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}) as board:
        execution = await board.run()
        page = await board.open()
        query = urlencode(dict.fromkeys(PARAMETERS, value))
        inside = value if value == "%" else quote(re.sub(r"[/.\s]", "", value), safe="")
        for path in ("/", f"/executions/{execution}", f"/executions/{inside}", "/agents", "/usage", "/sql", "/compare"):
            await page.goto(f"{board.api.url}{path}?{query}")
            await page.wait_for_selector(f"{SETTLED}, [data-state=error]")
            await refuted(page, path)


async def test_an_exported_page_needs_no_network_and_tells_no_secret(windows: Windows, tmp_path: Path) -> None:
    async with hostile_board(windows, tmp_path) as hostile:
        url = hostile.board.api.url
        told = [(await hostile.board.client.http.get(f"/api/executions/{hostile.tree}/bundle")).text]
        shell = Shell(tmp_path, {"HOSTILE_SECRET": SECRET})
        page = await windows.open(offline=True)
        page.on("request", lambda request: stray(hostile, request))
        for kind in ("tree", "plan", "cancelled"):
            html, data = tmp_path / f"{kind}.html", tmp_path / f"{kind}.json"
            words = ["export", hostile.ids[kind], "--html", html.name, "--json", data.name, "--db", "outrider.db"]
            done = await anyio.to_thread.run_sync(shell.type, *words)
            assert done.returncode == 0, done.stderr
            await page.goto(html.as_uri())
            await page.wait_for_selector(SHOWN)
            await look_into(page, kind)
            told += [html.read_text("utf-8"), data.read_text("utf-8")]
            assert str(tmp_path) not in told[-2]
            assert "'unsafe" not in str(await page.locator("meta[http-equiv]").get_attribute("content"))
        await page.goto(f"{page.url.partition('#')[0]}#%E0%A4%A")
        await page.reload()
        await page.wait_for_selector(SHOWN)

    for text in told:
        assert "onerror" in text
        assert SECRET not in text
        assert url not in text


async def test_characters_that_turn_the_direction_reach_no_further_than_their_own_text(
    windows: Windows, tmp_path: Path
) -> None:
    scripts = {"Worker": [call("lo\u202eok", at="\u202egnp"), say("done")]}
    async with dashboard(windows, tmp_path, scripts) as board:
        page = await board.open(f"/executions/{await board.run()}?tab=turns")
        summary = page.locator("summary").filter(has=page.locator(".x-took")).first
        await expect(summary).to_contain_text("\u202e")
        edge = "(all) => Math.{}(...all.flatMap((each) => [...each.getClientRects()].map((rect) => rect.{})))"
        words, took = summary.locator(".x-muted"), summary.locator(".x-took")
        assert await words.evaluate_all(edge.format("max", "right")) <= await took.evaluate_all(edge.format("min", "left"))
