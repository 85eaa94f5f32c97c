"""What is around every page: the session, the way between pages, the palette, the keys, a server that goes away."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
from playwright.async_api import Page, Route, expect

from tests.support.api_serving import ApiOptions
from tests.support.models import hang, say
from tests.web.dashboards import CONFIG, dashboard
from tests.web.windows import Windows

TOKENS = f"{CONFIG}\nserve: {{http: {{tokens: {{alice: {{token: '${{ALICE}}'}}}}}}}}\n"
ALICE = "a" * 40
GUARDED = ApiOptions(environ={"ALICE": ALICE})


async def login(page: Page, token: str) -> None:
    """Fill the form."""
    await page.fill("[data-dialog=login] input[name=token]", token)
    await page.click("[data-action=login]")


async def test_a_guarded_page_asks_for_the_token_and_keeps_it_from_scripts(windows: Windows, tmp_path: Path) -> None:
    windows.allow("status of 401")
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}, GUARDED, TOKENS) as board:
        page = await windows.open(f"{board.api.url}/usage")
        await login(page, "wrong")
        await expect(page.locator("[data-dialog=login] [role=alert]")).not_to_be_empty()
        await login(page, ALICE)
        await expect(page.locator(".page[data-page=usage] [data-state=empty]")).to_be_visible()

        await expect(page.locator(".about")).to_have_text("alice")
        assert await page.evaluate("document.cookie") == ""
        assert ALICE not in await page.evaluate("JSON.stringify({...localStorage}) + location.href")
        await page.reload()
        await expect(page.locator(".page[data-page=usage] [data-state=empty]")).to_be_visible()
        await page.click("[data-action=logout]")
        await expect(page.locator("[data-dialog=login]")).to_be_visible()


async def test_a_login_that_is_lost_comes_back_without_losing_the_page(windows: Windows, tmp_path: Path) -> None:
    windows.allow("status of 401")
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}, GUARDED, TOKENS) as board:
        page = await windows.open(f"{board.api.url}/agents")
        await login(page, ALICE)
        await page.fill("input[name=q]", "count")
        await page.context.clear_cookies()
        await page.locator("[data-tab=configuration]").dispatch_event("click")  # the form may stand over it already
        await login(page, ALICE)

        await expect(page.locator("#agents-panel[data-state=ready]")).to_contain_text("agents.Counter")
        await expect(page.locator("input[name=q]")).to_have_value("count")
        await expect(page.locator("dialog")).to_have_count(0)


async def test_a_token_in_the_fragment_is_exchanged_and_leaves_the_address(windows: Windows, tmp_path: Path) -> None:
    windows.allow("status of 401")
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}, GUARDED, TOKENS) as board:
        page = await board.open(f"/usage#token={ALICE}")

        assert page.url == f"{board.api.url}/usage"
        await expect(page.locator("dialog")).to_have_count(0)
        async with page.expect_response("**/api/session"):
            await page.evaluate("location.hash = 'token=used'")
        await page.click("[data-nav=agents]")
        await expect(page.locator("#agents-panel[data-state=ready]")).to_be_visible()
        await expect(page.locator("dialog")).to_have_count(0)
        assert page.url == f"{board.api.url}/agents"


async def test_a_login_in_one_tab_or_by_another_address_serves_those_that_wait(windows: Windows, tmp_path: Path) -> None:
    windows.allow("status of 401")
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}, GUARDED, TOKENS) as board:
        waiting = await windows.open(f"{board.api.url}/usage#token=used")
        await expect(waiting.locator("[data-dialog=login] [role=alert]")).not_to_be_empty()
        page = await waiting.context.new_page()
        await page.goto(f"{board.api.url}/agents")
        await login(page, f"{board.api.url}/#token={ALICE}")
        for each, shown in (
            (page, "#agents-panel[data-state=ready]"),
            (waiting, ".page[data-page=usage] [data-state=empty]"),
        ):
            await expect(each.locator(shown)).to_be_visible()
            await expect(each.locator("dialog")).to_have_count(0)

        await page.context.clear_cookies()
        await page.reload()
        await expect(page.locator("[data-dialog=login]")).to_be_visible()
        await page.evaluate(f"location.hash = 'token={ALICE}'")
        await expect(page.locator("#agents-panel[data-state=ready]")).to_be_visible()
        assert page.url == f"{board.api.url}/agents"


async def test_pages_are_reached_without_loading_and_back_leads_back(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}) as board:
        await board.run()
        page = await board.open()
        await page.evaluate("window.same = true")
        for name in ("agents", "usage", "compare", "sql"):
            await page.click(f"[data-nav={name}]")
            await expect(page.locator(f".page[data-page={name}] h1")).to_be_focused()
            await expect(page.locator(f"[data-nav={name}]")).to_have_attribute("aria-current", "page")
        await page.go_back()
        await page.go_back()

        await expect(page.locator(".page[data-page=usage] [data-state=ready]")).to_be_visible()
        assert await page.evaluate("window.same")
        await page.keyboard.press("g")
        await page.keyboard.press("e")
        await expect(page.locator(".page[data-page=executions][data-state=ready]")).to_be_visible()
        await page.evaluate("history.pushState(null, '', '/nowhere'); dispatchEvent(new PopStateEvent('popstate'))")
        await expect(page.locator("h1")).to_have_text("No such page")


async def test_the_palette_leads_to_pages_executions_and_agents(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}) as board:
        execution = await board.run(task="find the needle")
        page = await board.open("/usage")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("agen")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/agents")

        await page.keyboard.press("Control+k")
        await page.keyboard.type("needle")
        await expect(page.locator("[role=option]")).to_contain_text(["find the needle"])
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/executions/{execution}")

        await page.keyboard.press("Control+k")
        await page.keyboard.type("count")
        await expect(page.locator("[role=option]")).to_contain_text(["counts words"])
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await expect(page.locator("[data-dialog=start] select[name=name]")).to_have_value("Counter")


async def test_keys_are_listed_and_belong_to_fields_while_a_reader_types(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}) as board:
        await board.run()
        page = await board.open()
        await page.keyboard.press("?")
        await expect(page.locator("[data-dialog=help]")).to_contain_text("next running")
        await page.keyboard.press("Escape")
        await expect(page.locator("dialog")).to_have_count(0)
        await page.keyboard.press("/")
        await page.keyboard.type("gu?jx")

        await expect(page.locator("input[name=q]")).to_have_value("gu?jx")
        assert "/usage" not in page.url
        await expect(page.locator("dialog")).to_have_count(0)


async def test_while_the_server_is_away_the_page_stays_and_says_so(windows: Windows, tmp_path: Path) -> None:
    windows.allow("Failed to load resource|ERR_")
    async with dashboard(windows, tmp_path, {"Worker": [hang()]}) as board:
        execution = await board.start()
        page = await board.open()
        away = True

        async def refuse(route: Route) -> None:
            await (route.abort() if away else route.continue_())

        await page.route("**/api/**", refuse)
        await page.keyboard.press("j")
        await page.keyboard.press("Space")
        await expect(page.locator(".lost")).to_be_visible()
        await expect(page.locator(f'li[data-execution="{execution}"] a.line')).to_be_focused()
        away = False
        await expect(page.locator(".lost")).to_be_hidden()
        await expect(page.locator(".peek .prose")).to_have_text("look into it")
        away = True
        await page.keyboard.press("Enter")
        await expect(page.locator(".lost")).to_be_visible()
        away = False
        await expect(page.locator(".x-detail[data-state=ready]")).to_contain_text("look into it")


async def test_a_stream_goes_on_as_soon_as_the_server_answers_however_long_it_was_away(
    windows: Windows, tmp_path: Path
) -> None:
    windows.allow("Failed to load resource|ERR_")
    async with dashboard(windows, tmp_path, {"Worker": [hang()]}) as board:
        execution = await board.start()
        page = await windows.open()
        await page.clock.install()
        away, asked = False, anyio.Event()

        async def refuse(route: Route) -> None:
            if away and route.request.url.endswith("/events"):
                asked.set()
            await (route.abort() if away else route.continue_())

        await page.route("**/api/**", refuse)
        await page.goto(f"{board.api.url}/executions/{execution}")
        await page.locator("[data-page-part=execution][data-state=ready]").wait_for()
        away = True
        await page.evaluate("window.dispatchEvent(new Event('offline'))")
        await expect(page.locator("[data-live][data-state=reconnecting]")).to_be_visible()
        for _ in range(8):  # the pauses between tries are long by now
            asked = anyio.Event()
            await page.clock.run_for(13_000)
            await asked.wait()
        await page.clock.pause_at(await page.evaluate("Date.now() / 1000 + 1"))
        away = False
        await page.clock.run_for(2_100)

        await expect(page.locator("[data-live][data-state=caught_up]")).to_be_visible()
        await expect(page.locator(".lost")).to_be_hidden()
        await page.unroute_all(behavior="wait")


async def test_the_data_of_each_page_is_a_link_away(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}) as board:
        await board.run(task="find the needle")
        page = await board.open("/?q=needle")
        await page.click("[data-action=json]")
        await page.wait_for_url("**/executions.json?q=needle")
        answered = json.loads(await page.locator("body").text_content() or "")

        assert [line["task"] for line in answered["executions"]] == ["find the needle"]


async def test_colours_are_chosen_and_remembered(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}) as board:
        page = await board.open()
        ground = "getComputedStyle(document.documentElement).backgroundColor"
        light = await page.evaluate(ground)
        for theme in ("light", "dark"):
            await page.click("[data-action=theme]")
            await expect(page.locator("html")).to_have_attribute("data-theme", theme)
        dark = await page.evaluate(ground)
        await page.reload()

        assert dark != light
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
