"""The list of executions: what needs attention first, searched by address, live without moving, answered in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from playwright.async_api import Page, expect

from tests.support.api_serving import ApiOptions
from tests.support.gated import DELETE, deleting
from tests.support.models import call, fail, gate, hang, say
from tests.support.requirement import requirement
from tests.web.dashboards import dashboard
from tests.web.windows import NARROW, Windows

BAD = fail(recoverable=False)
COLOUR = "each => getComputedStyle(each).color"
NEUTRAL = """() => {
  const probe = document.body.appendChild(document.createElement("span"));
  probe.className = "faint";
  return getComputedStyle(probe).color;
}"""
"""The colour of words that call for nothing."""


def row(page: Page, execution: str) -> Any:
    """The row of an execution."""
    return page.locator(f'li[data-execution="{execution}"]')


async def test_what_needs_attention_is_above_what_runs_and_what_has_finished(windows: Windows, tmp_path: Path) -> None:
    scripts = {"Lead": [BAD], "Worker": [say("42")], "Counter": [hang()]}
    async with dashboard(windows, tmp_path, scripts) as board:
        failed, done = await board.run("Lead"), await board.run("Worker")
        running = await board.client.post("/api/executions", 201, name="Counter", task="", input={"text": "a b"})
        page = await board.open()

        groups = await page.locator("[data-group]").evaluate_all("all => all.map(each => each.dataset.group)")
        shown = await page.locator("li[data-execution]").evaluate_all("all => all.map(each => each.dataset.execution)")

        assert groups == ["attention", "running", "finished"]
        assert shown == [failed, running["execution_id"], done]
        await expect(row(page, failed)).to_contain_text("the model is overloaded")
        await expect(page.locator(".nav-count")).to_have_text("1")
        await expect(page).to_have_title("(1) Executions · Outrider")


async def test_an_approval_is_answered_in_place_with_its_exact_arguments(windows: Windows, tmp_path: Path) -> None:
    tools = deleting()
    options = ApiOptions(extra_tools=tools.for_agents("Worker"))
    again = call("delete", what="the rest")
    async with dashboard(windows, tmp_path, {"Worker": [DELETE, again, say("it is gone")]}, options) as board:
        execution = await board.start()
        await board.client.collected(f"/api/executions/{execution}/events", until="caught_up")
        page = await board.open()
        await expect(page.locator("[data-approval] pre")).to_contain_text("everything")
        await expect(page.locator(".approval-head code")).to_have_text("local.delete")

        await page.click("[data-action=approve]")
        await expect(page.locator("[data-approval] pre")).to_contain_text("the rest")
        await page.click("[data-action=approve]")
        ended = await board.client.ended(execution)

        assert ended["result"]["summary"] == "it is gone"
        assert [each.arguments for each in tools.calls] == [{"what": "everything"}, {"what": "the rest"}]
        await expect(row(page, execution)).to_have_attribute("data-status", "completed")
        await expect(page.locator("[data-approval]")).to_have_count(0)
        await expect(page.locator("[data-group=attention] .group-count")).to_have_text("0")
        await expect(page.locator("[data-action=show-new]")).to_have_text("1 no longer needs attention · show")


async def test_newcomers_announce_themselves_and_move_nothing(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}) as board:
        first = await board.run()
        page = await board.open()
        await board.run()
        await board.run()

        await expect(page.locator("[data-action=show-new]")).to_contain_text("2 new executions")
        await expect(page.locator("li[data-execution]")).to_have_count(1)
        await page.keyboard.press(".")
        await expect(page.locator("li[data-execution]")).to_have_count(3)
        await expect(row(page, first)).to_be_visible()
        await expect(page.locator("[data-action=show-new]")).to_be_hidden()


@requirement("S2-DA-1")
async def test_a_running_row_ticks_says_what_it_does_and_ends_where_it_is(windows: Windows, tmp_path: Path) -> None:
    opened = anyio.Event()
    lead = [call("dispatch_agent", name="Worker", task="count"), gate(opened, say("both")), say("both")]
    async with dashboard(windows, tmp_path, {"Lead": lead, "Worker": [gate(opened, say("42"))]}) as board:
        execution = await board.start("Lead")
        await board.api.bench.model.started("Worker")
        page = await board.open()
        here = row(page, execution)
        await expect(here.locator(".line-children")).to_have_text("0 / 1")
        before = await here.locator(".line-elapsed").text_content()
        await expect(here.locator(".line-elapsed")).not_to_have_text(str(before))

        opened.set()
        await board.client.ended(execution)
        await expect(here).to_have_attribute("data-status", "completed")
        await expect(page.locator("[data-group=running] li")).to_have_count(1)
        await expect(page.locator("[data-group=running] .group-count")).to_have_text("0")
        await expect(page.locator("[data-action=show-new]")).to_have_text("1 has ended · show")
        await page.keyboard.press(".")
        await expect(page.locator("[data-group=finished] li")).to_have_attribute("data-execution", execution)
        await expect(page.locator("[data-group=finished] .group-count")).to_have_text("1")


async def test_a_search_is_in_the_address_and_comes_back_with_it(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}) as board:
        disk, lake = await board.run(task="why is the disk full?"), await board.run(task="how deep is the lake?")
        page = await board.open()
        await page.keyboard.press("/")
        await page.keyboard.type("disk")

        await expect(row(page, lake)).to_have_count(0)
        await expect(row(page, disk)).to_be_visible()
        assert page.url.endswith("/?q=disk")

        again = await board.open("/?q=lake&status=completed")
        await expect(row(again, lake)).to_be_visible()
        await expect(row(again, disk)).to_have_count(0)
        await again.click("[data-action=clear-filters]")
        await expect(row(again, disk)).to_be_visible()
        assert again.url == board.api.url + "/"

        nothing = await board.open("/?q=mountain")
        await expect(nothing.locator("[data-empty=filters]")).to_be_visible()


async def test_keys_walk_look_open_and_go_back(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42 of them")]}) as board:
        older, newer = await board.run(task="the first"), await board.run(task="the second")
        page = await board.open()
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await expect(row(page, older).locator("a.line")).to_be_focused()

        await page.keyboard.press("Space")
        await expect(row(page, older).locator(".peek")).to_contain_text("42 of them")
        await page.keyboard.press("Escape")
        await expect(row(page, older).locator(".peek")).to_be_hidden()

        await page.keyboard.press("k")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/executions/{newer}")
        await page.go_back()
        await expect(row(page, newer)).to_be_visible()


@requirement("S2-DA-7", "S2-DA-8")
async def test_a_cancel_says_first_what_will_happen_and_can_be_left(windows: Windows, tmp_path: Path) -> None:
    lead = [call("dispatch_agent", name="Worker", task="count"), hang()]
    async with dashboard(windows, tmp_path, {"Lead": lead, "Worker": [hang()]}) as board:
        execution = await board.start("Lead")
        await board.api.bench.model.started("Worker")
        page = await board.open()
        await page.keyboard.press("j")
        await page.keyboard.press("x")
        dialog = page.locator("[data-dialog=cancel]")
        await expect(dialog.locator("li").first).to_be_visible()
        await expect(dialog.locator("button", has_text="Back")).to_be_focused()
        await expect(dialog.locator("[type=submit]")).to_have_text("Cancel execution")
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        assert board.api.bench.statuses() == {"Lead": ["running"], "Worker": ["running"]}

        await page.keyboard.press("x")
        await dialog.locator("textarea").fill("no longer needed")
        await page.keyboard.press("Escape")
        await expect(dialog.locator("[role=status]:visible")).to_contain_text("discard")
        await page.keyboard.press("Control+Enter")
        await board.client.ended(execution)
        await expect(row(page, execution)).to_have_attribute("data-status", "cancelled")
        assert await row(page, execution).locator(".line-mark").evaluate(COLOUR) == await page.evaluate(NEUTRAL)
        assert board.api.bench.statuses() == {"Lead": ["cancelled"], "Worker": ["cancelled"]}
        assert board.api.bench.sql("select cancel_reason from executions where agent = 'Lead'") == [
            {"cancel_reason": "no longer needed"}
        ]


async def test_every_level_is_listed_on_request(windows: Windows, tmp_path: Path) -> None:
    lead = [call("dispatch_agent", name="Worker", task="count"), say("waits"), say("done")]
    async with dashboard(windows, tmp_path, {"Lead": lead, "Worker": [say("42")]}) as board:
        await board.run("Lead")
        page = await board.open()
        await expect(page.locator("li[data-execution]")).to_have_count(1)
        await page.check("input[name=all]")
        await expect(page.locator("[data-group=all] li[data-execution]")).to_have_count(2)


async def test_older_executions_are_a_page_away(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42")]}) as board:
        for _ in range(33):
            await board.run()
        page = await board.open()
        await expect(page.locator("li[data-execution]")).to_have_count(30)
        await page.click("[data-action=older]")
        await expect(page.locator("li[data-execution]")).to_have_count(33)
        await expect(page.locator("[data-action=older]")).to_be_hidden()


async def test_an_empty_list_says_the_command_and_what_a_person_can_start(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, {"Worker": [say("42")], "Counter": [say("2")]}) as board:
        page = await board.open()
        await expect(page.locator("[data-empty=none] .command")).to_contain_text("outrider run ")
        await page.click("[data-empty=none] [data-action=start-form]")
        form = page.locator("[data-dialog=start]")
        await form.locator("select[name=name]").select_option("Counter")
        await form.locator("[data-input=text]").fill("two words")
        await form.locator("[data-input=most]").fill("2.5")
        await page.keyboard.press("Escape")
        await form.locator("[data-action=start]").click()
        await expect(form.locator("[role=alert]")).to_have_text("most is no whole number")
        await form.locator("[data-input=most]").fill("2")
        await form.locator("[data-action=start]").click()
        await page.wait_for_url("**/executions/*")

        assert board.api.bench.sql("select agent, input from executions") == [
            {"agent": "Counter", "input": '{"text":"two words","most":2}'}
        ]


async def test_on_a_phone_nothing_is_wider_than_the_window(windows: Windows, tmp_path: Path) -> None:
    tools = deleting()
    options = ApiOptions(extra_tools=tools.for_agents("Worker"))
    async with dashboard(windows, tmp_path, {"Worker": [DELETE, say("gone")], "Lead": [BAD]}, options) as board:
        await board.run("Lead", task="x" * 300)
        execution = await board.start()
        await board.client.collected(f"/api/executions/{execution}/events", until="caught_up")
        for path in ("/", "/agents", "/agents?tab=configuration", "/usage", "/sql", "/compare"):
            page = await board.open(path, width=NARROW)
            assert await page.evaluate("document.documentElement.scrollWidth") == NARROW, path
