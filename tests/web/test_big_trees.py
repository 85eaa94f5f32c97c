"""The view of an execution over trees of 10,000 and 100,000 executions, over hostile texts, and under a reader's hands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import CDPSession, Page, expect

from tests.web.fake_tree import mounted, served
from tests.web.windows import NARROW, Windows

ELEMENTS = 1_500
PAINT = 1_000
FRAME = 34
ROUNDS = 4

ELEMENTS_NOW = "document.querySelectorAll('*').length"
FRAMES = """
async () => {
  const grid = document.querySelector("[data-grid]");
  const taken = [];
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < 100; frame += 1) {
    grid.scrollTop = Math.random() * (grid.scrollHeight - grid.clientHeight);
    window.tested.beat(50);
    const now = await new Promise(requestAnimationFrame);
    taken.push(now - last);
    last = now;
  }
  return taken.sort((one, other) => one - other)[Math.floor(taken.length * 0.95)];
}
"""
ROOM = """rows => rows.map(row => {
  const at = name => row.querySelector(name).getBoundingClientRect();
  const level = at(".x-level"), text = at(".x-text"), seconds = at(".x-figure"), agent = at(".x-agent");
  const below = text.top >= level.bottom;
  return [agent.width, below ? seconds.left - level.right : text.left - level.right];
})"""
ATTACK = (
    "<img src=x onerror='window.owned=1'><script>window.owned=1</script>"
    "[click](javascript:window.owned=1) [x](data:text/html,<script>1</script>) "
    "<a href='javascript:window.owned=1'>a</a> \"onmouseover=\"window.owned=1"
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the page is served."""
    with served() as url:
        yield url


async def view(windows: Windows, address: str, count: int, *, width: int = 1440, **more: Any) -> Page:
    """A window with the view of a tree of so many executions."""
    page = await windows.open(address, width=width)
    await mounted(page, count, **more)
    return page


async def worked(session: CDPSession) -> float:
    """Milliseconds of the processor that the page has used so far."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return next(1000 * float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


async def working(page: Page) -> CDPSession:
    """A session that tells how long the page works, not how long other programs let it wait."""
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


def busy() -> bool:
    """Whether other programs take the processors: then only the page's own work says something about it."""
    return os.getloadavg()[0] > (os.cpu_count() or 1)


async def test_ten_thousand_executions_are_painted_within_a_second(windows: Windows, address: str) -> None:
    painted = []
    for _ in range(ROUNDS):
        page = await windows.open(address)
        session = await working(page)
        took = await mounted(page, 10_000)
        painted.append(min(took, await worked(session)) if busy() else took)
        await page.close()
        if painted[-1] <= PAINT:
            return
    pytest.fail(f"first paint took {painted} ms")


@pytest.mark.timeout(240)
async def test_ten_thousand_executions_scroll_and_change_at_thirty_frames_and_more(windows: Windows, address: str) -> None:
    page = await view(windows, address, 10_000)
    await page.get_by_role("button", name="expand all (])").click()
    session = await working(page)
    p95 = []
    for _ in range(ROUNDS):
        before = await worked(session)
        frame = await page.evaluate(FRAMES)
        p95.append(min(frame, (await worked(session) - before) / 100) if busy() else frame)
        if p95[-1] <= FRAME:
            break

    assert min(p95) <= FRAME, f"p95 frames: {p95} ms"
    assert await page.evaluate(ELEMENTS_NOW) <= ELEMENTS


@pytest.mark.timeout(180)
async def test_a_hundred_thousand_executions_can_be_walked_and_searched(windows: Windows, address: str) -> None:
    page = await view(windows, address, 100_000)
    grid = page.locator("[data-grid]")
    await grid.focus()
    await page.keyboard.press("]")
    await page.keyboard.press("End")
    await expect(page.locator("[data-grid] [aria-selected=true]")).to_have_attribute("aria-rowindex", "100002")
    await page.get_by_label("Search the tree").fill("n50001")
    await expect(page.locator("[data-found-count]")).to_have_text("1 found")
    assert await page.evaluate(ELEMENTS_NOW) <= ELEMENTS


@pytest.mark.parametrize("depth", ["messages", "turns", "raw"])
async def test_hostile_texts_in_every_field_stay_texts(windows: Windows, address: str, depth: str) -> None:
    page = await view(windows, address, 30, options={"hostile": ATTACK, "ended": True}, tab=depth)
    await expect(page.locator("[data-detail][data-state=ready]")).to_be_visible()
    await page.locator("[data-action=answer]").click()
    for row in ("root", "n3", "n14"):
        await page.evaluate("id => tested.view.select(id)", row)
        await expect(page.locator(f"[data-detail][data-execution={row}][data-state=ready]")).to_be_visible()
        for summary in await page.locator("[data-detail] summary").all():
            await summary.click()

    assert await page.evaluate("window.owned") is None
    assert await page.locator("#view").locator("img, script, iframe, [href^='javascript'], [onerror]").count() == 0


@pytest.mark.parametrize("width", [1440, NARROW])
async def test_in_a_deep_tree_each_row_has_its_name_and_nothing_lies_over_it(
    windows: Windows, address: str, width: int
) -> None:
    page = await windows.open(address, width=width)
    await mounted(page, 41, options={"ended": True, "fan": 1})
    await page.locator("[data-grid]").focus()
    await page.keyboard.press("]")
    await page.keyboard.press("End")
    await expect(page.locator("[data-grid] [aria-selected=true]")).to_have_attribute("aria-level", "41")
    room = await page.locator("[data-grid] [data-execution]").evaluate_all(ROOM)

    assert len(room) > 5
    assert min(name for name, _ in room) >= 30
    assert min(apart for _, apart in room) >= 0


async def test_the_keys_walk_the_tree(windows: Windows, address: str) -> None:
    page = await view(windows, address, 60)
    selected = page.locator("[data-grid] [aria-selected=true]")
    await page.locator("[data-grid]").focus()
    for key, row in [("j", "refused1"), ("j", "n1"), ("ArrowRight", "n13"), ("ArrowLeft", "n1"), ("k", "refused1")]:
        await page.keyboard.press(key)
        await expect(selected).to_have_attribute("data-refused" if row == "refused1" else "data-execution", row)
    await page.keyboard.press("e")
    await expect(selected).to_have_attribute("data-status", "failed")
    await page.keyboard.press("t")
    await expect(page.locator("[data-depth=turns]")).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("?")
    await expect(page.locator("[data-dialog=keys]")).to_contain_text("next error")


async def test_a_key_acts_on_what_the_key_before_it_made(windows: Windows, address: str) -> None:
    page = await view(windows, address, 400)
    press = """keys => keys.forEach(key => document.querySelector("[data-grid]")
      .dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true})))"""
    await page.evaluate(press, ["]", "End"])  # within one frame
    await expect(page.locator("[data-grid] [aria-selected=true]")).to_have_attribute("aria-rowindex", "402")


async def test_a_cancel_says_first_what_will_happen_below(windows: Windows, address: str) -> None:
    page = await view(windows, address, 60)
    await page.locator("[data-actions=root] [data-action=cancel]").click()
    dialog = page.locator("[data-dialog=cancel]")
    await expect(dialog).to_contain_text("2 running executions below will be cancelled")
    await dialog.get_by_label("Reason (optional)").fill("wrong service")
    await dialog.locator("[data-confirm=cancel]").click()
    await expect(dialog).to_have_count(0)

    assert await page.evaluate("tested.acted") == [{"id": "root", "action": "cancel", "body": {"reason": "wrong service"}}]


async def test_an_approval_shows_its_exact_arguments_and_sends_their_digest(windows: Windows, address: str) -> None:
    page = await view(windows, address, 60)
    await page.locator("[data-banner=approval]").get_by_role("button", name="Show").click()
    question = page.locator("[data-approval=approval1]")
    await expect(question).to_contain_text('"deployment": "checkout"')
    await question.locator("[data-action=approve]").click()
    await expect(page.locator("[data-toast]")).to_contain_text("approved")

    assert await page.evaluate("tested.acted") == [{"id": "approval1", "action": "approve", "body": {"shown": "d1gest"}}]


async def test_a_claim_leads_to_its_call_and_a_dispatch_to_its_child(windows: Windows, address: str) -> None:
    page = await view(windows, address, 60, options={"ended": True})
    await page.locator("[data-answer] [data-cite=toolu_metrics1]").first.click()
    call = page.locator("details[data-call=toolu_metrics1]")
    await expect(call).to_have_attribute("open", "")
    await expect(call).to_contain_text("histogram_quantile")
    await page.locator("[data-child=n13]").click()
    await expect(page.locator("[data-grid] [aria-selected=true]")).to_have_attribute("data-execution", "n13")


async def test_on_a_phone_the_detail_lies_over_the_tree(windows: Windows, address: str) -> None:
    page = await view(windows, address, 60, width=NARROW)
    detail = page.locator("[data-detail][data-execution]")
    await expect(page.locator("section[data-detail]")).to_be_hidden()
    await page.locator("[data-execution=n1]").first.click()
    await expect(page.locator("section[data-detail]")).to_be_visible()
    await page.locator("[data-action=close]").click()
    await expect(page.locator("section[data-detail]")).to_be_hidden()
    assert await detail.count() >= 1
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_the_page_changes_with_its_tree_and_says_when_the_connection_is_lost(windows: Windows, address: str) -> None:
    page = await view(windows, address, 60)
    doing = page.locator("[data-execution=root] .x-words")
    tell = """(action) => tested.tell({seq: null, type: "execution.progress", execution_id: "root",
        parent_execution_id: null, root_execution_id: "root", at: "", payload: {action}})"""
    await page.evaluate(tell, "asking the model")
    await expect(doing).to_have_text("asking the model")
    await page.evaluate("for (const each of tested.listeners) each.state('reconnecting', 2)")
    await expect(page.locator("[data-live]")).to_have_text("reconnecting (2)")
    await expect(page.locator("[data-banner=reconnecting]")).to_contain_text("Reconnecting (2)")
    await expect(doing).to_have_text("asking the model")
    await page.evaluate("for (const each of tested.listeners) each.state('caught_up', 0)")
    await expect(page.locator("[data-banner=reconnecting]")).to_have_count(0)
    await page.evaluate("tested.view.destroy()")

    assert await page.evaluate("tested.listeners.size") == 0
