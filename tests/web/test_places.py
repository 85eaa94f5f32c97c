"""The page of one execution as a place: its address, its title, what it remembers, and the way back."""

from __future__ import annotations

from pathlib import Path

import anyio
from playwright.async_api import Route, expect

from server.export import read_bundle
from server.replay import replay
from tests.support.api_serving import ApiOptions
from tests.support.gated import DELETE, deleting
from tests.support.models import call, gate, hang, say
from tests.web.dashboards import Dashboard, dashboard
from tests.web.windows import NARROW, Windows

LEAD = [call("dispatch_agent", name="Worker", task="count them"), say("waits"), say("there are 42 of them")]
SCRIPTS = {"Lead": LEAD, "Worker": [say("42")]}
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def child_of(board: Dashboard, execution: str) -> str:
    """The execution that it dispatched."""
    tree = await board.client.get(f"/api/executions/{execution}/tree")
    return str(tree["nodes"][1]["id"])


async def test_an_address_leads_to_a_node_and_follows_the_reader(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        root = await board.run("Lead")
        child = await child_of(board, root)
        page = await board.open(f"/executions/{root}?node={child}&tab=turns")
        await expect(page.locator(f'[role=row][aria-selected=true][data-execution="{child}"]')).to_be_visible()
        await page.keyboard.press("k")
        await expect(page.locator(f'[role=row][aria-selected=true][data-execution="{root}"]')).to_be_visible()
        await page.wait_for_url(f"**/executions/{root}?tab=turns")
        await page.keyboard.press("j")
        await page.wait_for_url(f"**/executions/{root}?tab=turns&node={child}")
        await page.reload()
        await expect(page.locator(f'[role=row][aria-selected=true][data-execution="{child}"]')).to_be_visible()


async def test_back_leads_to_the_list_however_far_the_reader_walked(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        root = await board.run("Lead")
        page = await board.open("/?status=completed")
        await page.click(f'li[data-execution="{root}"] a.line')
        await expect(page.locator(".page[data-page=execution] [data-state=ready]").first).to_be_visible()
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await page.go_back()

        await expect(page.locator(f'li[data-execution="{root}"] a.line')).to_be_focused()
        assert page.url.endswith("/?status=completed")


async def test_the_title_tells_that_it_ended_while_the_reader_was_away(windows: Windows, tmp_path: Path) -> None:
    opened = anyio.Event()
    async with dashboard(windows, tmp_path, {"Worker": [gate(opened, say("42"))]}) as board:
        root = await board.start()
        page = await board.open(f"/executions/{root}")
        await expect(page).to_have_title("Worker · running · Outrider")
        await page.evaluate(HIDE, True)
        opened.set()
        await expect(page).to_have_title("✓ Worker · completed · Outrider")
        await page.evaluate(HIDE, False)
        await expect(page).to_have_title("Worker · completed · Outrider")


async def test_a_link_is_copied_and_the_tree_taken_away_as_a_file(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        root = await board.run("Lead")
        child = await child_of(board, root)
        allowed = ["clipboard-read", "clipboard-write"]
        page = await board.open(f"/executions/{root}?node={child}", permissions=allowed)
        await expect(page.locator(f'[role=row][aria-selected=true][data-execution="{child}"]')).to_be_visible()
        await page.keyboard.press("y")
        await expect(page.locator(".toast")).to_contain_text("link copied")
        assert await page.evaluate("navigator.clipboard.readText()") == page.url

        files = {}
        for kind, ending in (("JSON", "json"), ("page", "html")):
            async with page.expect_download() as download:
                await page.get_by_role("link", name=f"Export {kind}").click()
            assert (await download.value).suggested_filename == f"outrider-Lead-{root[-6:]}.{ending}"
            files[kind] = tmp_path / f"taken.{ending}"
            await (await download.value).save_as(files[kind])
        replayed = await replay(read_bundle(files["JSON"])[0])
        taken = await windows.open(files["page"].as_uri())

        assert (replayed.executions, replayed.differences) == (2, [])
        await expect(taken.locator(f'[role=row][data-execution="{child}"]')).to_be_visible()


async def test_keys_work_from_anywhere_on_the_page(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Lead": [*LEAD[:1], hang()], "Worker": [hang()]}) as board:
        root = await board.start("Lead")
        await board.api.bench.model.started("Worker")
        page = await board.open(f"/executions/{root}")
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("x")
        await expect(page.locator("[data-dialog=cancel]")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.locator("dialog")).to_have_count(0)
        await page.locator(".x-row").last.click()
        await page.keyboard.press("1")
        await expect(page.locator(".x-row")).to_have_count(1)
        await page.keyboard.press("g")
        await page.keyboard.press("e")
        await page.wait_for_url(f"{board.api.url}/")
        await page.go_back()
        await page.wait_for_selector(".x-execution[data-state=ready]")
        await page.keyboard.press("Escape")
        await page.wait_for_url(f"{board.api.url}/")


async def test_the_key_for_cancel_does_not_wait_for_the_detail(windows: Windows, tmp_path: Path) -> None:
    known = anyio.Event()

    async def late(route: Route) -> None:
        await known.wait()
        await route.continue_()

    async with dashboard(windows, tmp_path, {"Worker": [hang()]}) as board:
        root = await board.start()
        page = await windows.open()
        await page.route(f"**/api/executions/{root}", late)
        await page.goto(f"{board.api.url}/executions/{root}")
        await page.wait_for_selector(".x-execution[data-state=ready]")
        await page.keyboard.press("x")
        await expect(page.locator("[data-dialog=cancel]")).to_be_visible()
        known.set()


async def test_an_execution_that_is_not_there_is_said_and_leaves_a_way_out(windows: Windows, tmp_path: Path) -> None:
    windows.allow("status of 404")
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        page = await windows.open(f"{board.api.url}/executions/{'0' * 37}")
        trouble = page.locator(".page [data-state=error] .x-trouble")
        await expect(trouble).to_contain_text("there is no such execution")
        await expect(trouble).not_to_contain_text("GET")
        await expect(page.locator(".x-panes")).to_be_hidden()
        await trouble.get_by_role("link").click()
        await expect(page.locator("[data-empty=none]")).to_be_visible()


async def test_on_a_phone_the_head_of_an_execution_fits_the_window(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        root = await board.run("Lead", task="x" * 150)
        page = await board.open(f"/executions/{root}", width=NARROW)
        right = "all => Math.max(...all.map(each => each.getBoundingClientRect().right))"
        assert await page.locator(".x-page-head > *").evaluate_all(right) <= NARROW


async def test_a_question_of_the_tree_is_read_in_its_row_and_on_a_phone_opens_over_it(
    windows: Windows, tmp_path: Path
) -> None:
    options = ApiOptions(extra_tools=deleting().for_agents("Worker"))
    async with dashboard(windows, tmp_path, {"Lead": LEAD, "Worker": [DELETE, say("42")]}, options) as board:
        root = await board.start("Lead")
        page = await board.open(f"/executions/{root}")
        row = page.locator(".x-row[data-status=approval]")
        await expect(row.locator(".x-words")).to_have_text("waits for your decision on local.delete")
        ends = "each => each.firstElementChild.getBoundingClientRect().right - each.getBoundingClientRect().right"
        assert await row.locator(".x-text").evaluate(ends) < 0
        await expect(page.locator(".x-budget").last).to_contain_text("its clock stands")

        phone = await board.open("/", width=NARROW)
        await phone.goto(f"{board.api.url}/executions/{root}")
        approve = phone.locator(".x-detail [data-action=approve]")
        for _ in range(2):
            await phone.locator("[data-banner=approval] button").click()
            await expect(approve).to_be_visible()
            await phone.go_back()
            await expect(approve).to_be_hidden()
            await expect(phone.locator(".x-row[aria-selected=true]")).to_have_attribute("data-status", "approval")
        await phone.locator("[data-banner=approval] button").click()
        await phone.locator(".x-close").click()
        await expect(approve).to_be_hidden()
        await expect(phone.locator("[data-command=fit]")).to_be_hidden()
        await phone.go_back()
        await expect(phone.locator(".page[data-page=executions]")).to_be_visible()


async def test_the_last_figures_are_drawn_even_if_they_come_at_once(windows: Windows, tmp_path: Path) -> None:
    opened = anyio.Event()
    async with dashboard(windows, tmp_path, {"Worker": [gate(opened, say("42"))]}) as board:
        worker = await board.start("Worker")
        page = await board.open(f"/executions/{worker}")
        await expect(page.locator("[data-live][data-state=live]")).to_be_visible()
        await page.clock.set_fixed_time(await page.evaluate("Date.now() / 1000"))
        opened.set()
        tokens = page.locator(".x-row .x-figure").nth(1)
        await expect(tokens).not_to_be_empty()
        await page.clock.set_fixed_time(await page.evaluate("Date.now() / 1000 + 1"))

        await expect(page.locator(".x-page-facts")).to_contain_text(f"tokens{await tokens.text_content()}")
