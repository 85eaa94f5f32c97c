"""The pages beside the list: what can be started, what was used, SQL, two trees side by side."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Page, Route, expect

from tests.support.models import call, fail, hang, say
from tests.web.dashboards import Dashboard, dashboard
from tests.web.windows import NARROW, Windows

LEAD = [call("dispatch_agent", name="Worker", task="count"), say("waits"), say("there are 42 of them")]
SCRIPTS = {"Lead": LEAD, "Worker": [say("42")], "Counter": [fail(recoverable=False)]}


async def asked(page: Page, sql: str) -> None:
    """Type a query, and run it by its key."""
    await page.fill("textarea[name=sql]", sql)
    await page.keyboard.press("Control+Enter")


async def test_agents_tell_where_they_are_declared_and_are_started_from_there(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        page = await board.open("/agents")
        lead = page.locator("[data-agent=Lead]")
        await expect(lead).to_contain_text("dispatches")
        await expect(lead.locator(".origin")).to_have_text("config.yaml:5")
        await page.fill("input[name=q]", "counts words")
        await expect(lead).to_be_hidden()
        await expect(page.locator("[data-agent=Counter]")).to_be_visible()
        await page.fill("input[name=q]", "")
        await lead.locator("[data-action=start]").click()
        await page.fill("[data-dialog=start] textarea[name=task]", "go")
        await page.keyboard.press("Control+Enter")
        await page.wait_for_url("**/executions/*")

        assert board.api.bench.sql("select task from executions where agent = 'Lead'") == [{"task": "go"}]


async def test_tabs_are_addresses_and_move_by_arrows(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        page = await board.open("/agents?tab=configuration&q=Lead.description")
        await expect(page.locator("tr[data-row]:visible")).to_have_count(1)
        await page.focus("[data-tab=configuration]")
        await page.keyboard.press("ArrowRight")
        await expect(page.locator("[data-tab=prices]")).to_be_focused()
        assert "tab=prices" in page.url
        await page.fill("input[name=q]", "")
        await expect(page.locator("tr[data-row]:visible").first).to_contain_text("$10")
        await page.go_back()
        await expect(page.locator("[data-tab=configuration]")).to_have_attribute("aria-selected", "true")

        phone = await board.open("/agents?tab=prices", width=NARROW)
        await expect(phone.locator("[data-tab=prices]")).to_be_in_viewport(ratio=1)
        await phone.goto(f"{board.api.url}/agents?tab=configuration&q=Lead.description")
        await expect(phone.locator("td .origin:visible")).to_be_in_viewport(ratio=1)


async def test_usage_is_drawn_and_written_by_day_agent_and_model(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        await board.run("Lead")
        await board.run("Worker")
        page = await board.open("/usage")
        agents = page.locator("[data-chart=agent] tbody tr")
        await expect(agents).to_have_count(2)
        await expect(agents.filter(has_text="Worker").locator("td").nth(1)).to_have_text("2")
        await expect(page.locator("[data-chart=day] svg[role=img]")).to_be_visible()
        await expect(page.locator("[data-chart=day] tbody tr")).to_have_count(1)
        await page.select_option("select[name=measure]", "cost")
        await page.select_option("select[name=days]", "7")
        await expect(page.locator("[data-chart=agent] thead")).to_contain_text("cost")
        assert page.url.endswith("/usage?measure=cost&days=7")


async def test_a_query_is_asked_by_keys_drawn_and_taken_away(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        execution = await board.run("Lead")
        page = await board.open("/sql", permissions=["clipboard-read", "clipboard-write"])
        await asked(page, "select root_execution_id, agent, turns from executions order by id")
        rows = page.locator(".sql-table tbody tr")
        await expect(rows).to_have_count(2)
        await expect(rows.first.locator("a")).to_have_attribute("href", f"/executions/{execution}")
        await page.click("[data-action=copy-json]")
        taken = json.loads(await page.evaluate("navigator.clipboard.readText()"))
        await page.click("[data-view=chart]")

        assert [row["agent"] for row in taken] == ["Lead", "Worker"]
        await expect(page.locator(".sql-chart svg[role=img] .chart-bar")).to_have_count(2)
        again = await windows.open(page.url)
        await expect(again.locator(".sql-table tbody tr")).to_have_count(2)


async def test_a_long_answer_is_drawn_in_parts_and_taken_whole(windows: Windows, tmp_path: Path) -> None:
    numbers = "with recursive n(a) as (select 1 union all select a + 1 from n limit 1200)"
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        page = await board.open("/sql", permissions=["clipboard-read", "clipboard-write"])
        await asked(page, f"{numbers} select -a as below, 1763589396123456 as micro, 9007199254740993 as wide from n")
        rows, more = page.locator(".sql-table tbody tr"), page.locator("[data-action=more]")
        await expect(rows).to_have_count(500)
        await expect(rows.first.locator("td")).to_have_text(["-1", "1763589396123456", "9007199254740993"])
        await expect(page.locator(".sql-result")).to_contain_text("700 rows not shown")
        await page.click("[data-action=copy-csv]")
        taken = await page.evaluate("navigator.clipboard.readText()")
        await more.click()
        await more.click()
        await expect(rows).to_have_count(1200)
        await expect(more).to_be_hidden()
        assert taken.splitlines()[-1] == "-1200,1763589396123456,9007199254740993"

        await page.click("[data-view=chart]")
        await asked(page, "select 'low' as name, -2 as n union all select 'high', 4")
        low = page.locator(".sql-chart .chart-mark", has_text="low").locator(".chart-bar")
        zero = page.locator(".sql-chart .chart-zero")
        assert await low.get_attribute("y") == await zero.get_attribute("y1")
        await asked(page, " ")
        await expect(page.locator(".sql-result")).to_contain_text("The query is empty")


async def test_a_query_that_cannot_be_says_why_and_what_to_do(windows: Windows, tmp_path: Path) -> None:
    windows.allow("status of 4")
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        page = await board.open("/sql")
        await asked(page, "select nothing from executions")
        await expect(page.locator(".page[data-state=error] [role=alert]")).to_contain_text("nothing")
        await asked(page, "delete from executions")
        await expect(page.locator(".page[data-state=error] .hint")).not_to_be_empty()


async def test_the_schema_is_inserted_and_queries_are_kept(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        page = await board.open("/sql")
        await page.fill("textarea[name=sql]", "select agent, status from")
        await page.click("[data-relation=executions] summary")
        await page.locator("[data-relation=executions] button").first.click()
        await expect(page.locator("textarea[name=sql]")).to_have_value("select agent, status from executions")
        await page.click("[data-action=save]")
        await page.reload()
        await page.select_option("select[name=saved]", label="select agent, status from executions")
        await expect(page.locator(".page[data-state=empty]")).to_be_visible()
        await page.click("[data-action=forget]")
        await expect(page.locator("optgroup[label=Yours]")).to_have_count(0)


async def test_a_query_chosen_before_the_schema_is_here_stays_chosen(windows: Windows, tmp_path: Path) -> None:
    known = anyio.Event()

    async def late(route: Route) -> None:
        await known.wait()
        await route.continue_()

    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        page = await board.open("/sql")
        await page.fill("textarea[name=sql]", "select 1")
        await page.click("[data-action=save]")
        await page.route("**/api/sql/schema", late)
        await page.reload()
        await page.select_option("select[name=saved]", label="select 1")
        known.set()
        await expect(page.locator("optgroup[label=Examples]")).to_have_count(1)
        await expect(page.locator("select[name=saved]")).to_have_value("saved:0")
        await expect(page.locator("[data-action=forget]")).to_be_visible()


async def compared(board: Dashboard) -> tuple[Page, str, str]:
    """Two runs of one agent that differ in their answers, side by side."""
    first = await board.run("Lead", task="how many?")
    board.api.bench.model.scripts["Lead"] = [*LEAD[:2], say("there are 43 of them")]
    second = await board.run("Lead", task="how many?")
    return await board.open(f"/compare?a={first}&b={second}"), first, second


async def test_two_trees_stand_side_by_side_with_the_words_that_differ(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        page, first, second = await compared(board)
        await expect(page.locator("[data-side=a] del").first).to_have_text("42")
        await expect(page.locator("[data-side=b] ins").first).to_have_text("43")
        await expect(page.locator(".pair")).to_have_count(2)
        changed = page.locator("[data-change=changed]").first
        await expect(changed.locator(".pair-differs")).to_contain_text("answer")
        await changed.locator("summary").click()
        await expect(changed.locator(".pair-detail")).to_contain_text("there are 43 of them")
        await page.click("[data-show=changed]")
        assert page.url.endswith("&show=changed")
        await page.click("[data-action=swap]")
        await page.wait_for_url(f"**/compare?a={second}&b={first}")
        await expect(page.locator("[data-side=a] del").first).to_have_text("43")


async def test_trees_of_two_agents_that_still_run_are_compared_as_they_are(windows: Windows, tmp_path: Path) -> None:
    windows.allow("status of 404")
    scripts = {**SCRIPTS, "Counter": [hang()]}
    async with dashboard(windows, tmp_path, scripts) as board:
        done = await board.run("Worker")
        body = {"name": "Counter", "task": "", "input": {"text": "a b"}}
        running = (await board.client.post("/api/executions", 201, **body))["execution_id"]
        await board.api.bench.model.started("Counter")
        page = await board.open(f"/compare?a={done}&b={running}")
        await expect(page.locator(".pair-agent").last).to_contain_text("Worker / Counter")
        await expect(page.locator(".pair-differs").last).to_contain_text("agent")
        await expect(page.locator("[data-open]")).to_contain_text("Not both have ended")
        await board.client.post(f"/api/executions/{running}/cancel")
        await board.client.ended(running)
        await page.click("[data-action=again]")
        await expect(page.locator("[data-open]")).to_have_count(0)

        await page.fill("input[name=b]", "nothing")
        await page.click("[data-action=compare]")
        await expect(page.locator("[role=alert]")).to_contain_text("Copy an id")
        await expect(page.locator("[role=alert]")).not_to_contain_text("GET /api")


async def test_two_executions_are_chosen_from_the_recent_ones(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        first, second = await board.run("Worker"), await board.run("Worker")
        page = await board.open("/compare")
        await page.click(f'[data-execution="{first}"] [data-take=a]')
        await page.click(f'[data-execution="{second}"] [data-take=b]')
        await page.wait_for_url(f"**/compare?a={first}&b={second}")
        await expect(page.locator("[data-equal]")).to_be_visible()


@pytest.mark.parametrize("path", ["/usage", "/compare"])
async def test_without_executions_a_page_says_what_is_missing(windows: Windows, tmp_path: Path, path: str) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        page = await board.open(path)
        await expect(page.locator(".vacant h2")).to_be_visible()
