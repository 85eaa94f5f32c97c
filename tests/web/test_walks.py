"""Walks over the pages of a real tree: by keys alone, by an address, in two windows, through a network that goes away."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.support.gates import at_gate
from tests.support.requirement import requirement
from tests.web.journeys import (
    STREAMED,
    Journey,
    agent_row,
    caller_of,
    node,
    record_of,
    recorded,
    selected,
    statuses,
    stored,
)
from tests.web.windows import Windows

FOCUSED = "selector => document.activeElement?.matches(selector) ?? false"
SEEN = """(view) => [...view.querySelectorAll(".x-row, .x-ticks, .x-call, input[type=search]")].map(
  (each) => each.value ?? each.textContent)"""


async def chosen(page: Page, agent: str) -> None:
    """The row of an agent is the marked one."""
    await expect(agent_row(page, agent)).to_have_attribute("aria-selected", "true")


async def press_until(page: Page, key: str, selector: str) -> None:
    """Press a key until an element has the focus, as a reader does who looks where it is."""
    for _ in range(60):
        if await page.evaluate(FOCUSED, selector):
            return
        await page.keyboard.press(key)
    raise AssertionError(f"{key} does not lead to {selector}")


async def test_keys_lead_from_the_list_to_a_call_of_a_leaf_cancel_it_and_lead_back(
    journey: Journey, windows: Windows
) -> None:
    windows.allow(STREAMED)
    async with caller_of(journey.url) as client:
        root = str((await client.post("/api/executions", 201, name="Head", task="by keys"))["execution_id"])
        page = await windows.open(f"{journey.url}/?q=by+keys")
        line = page.locator(f'li[data-execution="{root}"]')
        async with at_gate(journey.gate):
            await line.wait_for()
            await page.keyboard.press("j")
            await expect(line.locator("a.line")).to_be_focused()
            await page.keyboard.press("Enter")
            await page.locator("[data-page-part=execution][data-state=ready]").wait_for()
            await chosen(page, "Head")
            for agent in ("Broken", "Middle", "Waiter"):
                await page.keyboard.press("j")
                if agent != "Broken":
                    await chosen(page, agent)
            await page.keyboard.press("t")
            await expect(page.locator("[data-depth=turns]")).to_have_attribute("aria-selected", "true")
            await page.keyboard.press("Enter")
            await expect(page.locator(".x-transcript")).to_be_focused()
            await page.locator(".x-call > summary").first.wait_for()
            await press_until(page, "Tab", ".x-call > summary")
            await page.keyboard.press("Enter")
            card = page.locator("details.x-call[open]")
            await expect(card.locator(".x-call-body")).to_contain_text("Arguments")
            await expect(card).to_contain_text("none yet")

            await page.keyboard.press("Escape")
            await expect(page.locator("[data-grid]")).to_be_focused()
            await page.keyboard.press("x")
            dialog = page.locator("[data-dialog=cancel]")
            await expect(dialog.locator("li").first).to_have_text("Waiter is stopped; what it has so far is kept.")
            await page.keyboard.press("Escape")
            await expect(dialog).to_have_count(0)
            assert statuses(journey.shell, root)["Waiter"] == "running"
            await page.keyboard.press("x")
            await dialog.locator("[data-state=ready]").wait_for()
            await page.keyboard.press("Control+Enter")
            await expect(agent_row(page, "Waiter")).to_have_attribute("data-status", "cancelled")
            await expect(agent_row(page, "Head")).to_have_attribute("data-status", "completed")
            await expect(page.locator("[data-grid]")).to_be_focused()
        await expect(page.locator("details.x-call[open]")).to_contain_text("Error")
        await page.keyboard.press("ArrowLeft")
        await chosen(page, "Middle")
        await page.keyboard.press("Escape")
        await expect(line.locator("a.line")).to_be_focused()
        await expect(line).to_have_attribute("data-status", "completed")
    assert statuses(journey.shell, root)["Middle"] == "completed"


async def test_an_address_shows_in_a_fresh_window_what_its_sender_saw(journey: Journey, windows: Windows) -> None:
    async with journey.started(windows, "Head") as (page, root, client):
        async with at_gate(journey.gate):
            pass
        await client.ended(root)
        await expect(agent_row(page, "Head")).to_contain_text("Middle: completed")
        await page.locator("[data-grid]").focus()
        for key in ("j", "j", "j", "t", "+", "+"):
            await page.keyboard.press(key)
        await chosen(page, "Waiter")
        await page.keyboard.press("/")
        await page.keyboard.type("gate")
        await expect(page.locator(".x-row[data-found]")).not_to_have_count(0)
        await expect(page.locator(".x-call")).to_contain_text("✓")
        shown = await page.locator("[data-page-part=execution]").evaluate(SEEN)
        await page.wait_for_url(lambda url: all(part in url for part in ("node=", "tab=turns", "q=gate", "zoom=")))
        other = await windows.open(page.url)
        await chosen(other, "Waiter")
        await expect(other.locator("[data-depth=turns]")).to_have_attribute("aria-selected", "true")
        await other.locator(".x-call").wait_for()
        assert await other.locator("[data-page-part=execution]").evaluate(SEEN) == shown
        assert other.url == page.url


@requirement("S2-DA-10")
async def test_a_network_that_goes_away_and_a_second_window_change_nothing(journey: Journey, windows: Windows) -> None:
    windows.allow(STREAMED)
    async with caller_of(journey.url) as client:
        root = str((await client.post("/api/executions", 201, name="Head", task="go"))["execution_id"])
        asleep = await recorded(windows, f"{journey.url}/executions/{root}")
        awake = await recorded(windows, f"{journey.url}/executions/{root}")
        async with at_gate(journey.gate):
            for page in (asleep, awake):
                await expect(agent_row(page, "Waiter")).to_contain_text("gate.wait")
            await asleep.context.set_offline(True)
            await expect(asleep.locator("[data-live][data-state=reconnecting]")).to_be_visible()
            rows = await asleep.locator(".x-row").count()
        await expect(awake.locator("[data-answer=completed]")).to_be_visible()
        assert await asleep.locator(".x-row").count() == rows
        await expect(agent_row(asleep, "Waiter")).to_have_attribute("data-status", "running")
        await asleep.context.set_offline(False)
        await expect(asleep.locator("[data-answer=completed]")).to_be_visible()
        for page in (asleep, awake):
            await expect(page.locator("[data-live][data-state=ended]")).to_have_count(1)
            told = await record_of(page)
            assert (told["heard"], told["gone"]) == (stored(journey.shell, told, root), [])
            for row in journey.shell.rows("select id, status from executions where root_execution_id = ?", root):
                await expect(node(page, row["id"])).to_have_attribute("data-status", row["status"])
        await asleep.goto(f"{journey.url}/")
        await asleep.go_back()
        await expect(asleep.locator("[data-answer=completed]")).to_be_visible()


async def test_what_a_reader_opened_keeps_its_place_and_focus_while_more_comes(journey: Journey, windows: Windows) -> None:
    async with journey.started(windows, "Head") as (page, _, _):
        async with at_gate(journey.gate):
            await selected(page, "Middle")
            await page.keyboard.press("t")
            card = page.locator("details.x-call")
            await card.locator("summary").first.press("Enter")
            await expect(card.locator(".x-call-body")).to_contain_text("wait at the gate")
            await card.evaluate("each => { each.same = true; }")
            messages = await page.locator(".x-turn").count()
        await expect(page.locator(".x-turn")).not_to_have_count(messages)
        await expect(page.locator(".x-detail [data-answer=completed]")).to_be_visible()
        assert await card.evaluate("each => each.same && each.open && each.contains(document.activeElement)")
