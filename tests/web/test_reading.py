"""What a reader of an execution is told: the answer once and first, plain words in rows, and whose a figure is."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import anyio
from playwright.async_api import expect

from tests.support.models import call, fail, gate, say
from tests.web.dashboards import dashboard
from tests.web.fake_tree import mounted, served
from tests.web.windows import NARROW, Windows

ANSWER = """## Summary
**Root cause:** the pool of `checkout` is too small.

## Evidence

- it says so
"""
LEAD = [call("dispatch_agent", name="Worker", task="## Count\n\nall of *them*"), say("waits"), say(ANSWER)]
SCRIPTS = {"Lead": LEAD, "Worker": [say("`42` of **them**")]}
BROKEN = {"Lead": LEAD, "Worker": [fail(recoverable=False)]}
HUES = """all => all.map(each => {
  const probe = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const drawn = (colour, under) => {
    probe.fillStyle = under; probe.fillRect(0, 0, 1, 1);
    probe.fillStyle = colour; probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = rgb => rgb.map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const style = getComputedStyle(each);
  const page = getComputedStyle(each.closest(".x-grid")).backgroundColor;
  const back = drawn(style.backgroundColor, page), front = drawn(style.color, page);
  const [dark, bright] = [light(back), light(front)].sort((one, other) => one - other);
  return {contrast: (bright + 0.05) / (dark + 0.05), red: back[0] > back[2] || front[0] > front[2] + 24};
})"""


async def test_the_answer_stands_first_once_and_opens_in_place(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        root = await board.run("Lead")
        page = await board.open(f"/executions/{root}")
        answer = page.locator("[data-answer]")
        await expect(answer).to_have_count(1)
        await expect(answer.locator("strong")).to_have_text("Root cause:")
        await expect(answer.get_by_text("it says so")).to_be_hidden()
        more = page.get_by_role("button", name="Show the whole answer")
        await more.click()
        await expect(answer.get_by_text("it says so")).to_be_visible()
        await expect(answer.get_by_role("heading", name="Summary")).to_be_visible()
        await expect(page.get_by_text("the pool of checkout is too small").locator("visible=true")).to_have_count(2)
        await page.get_by_role("button", name="Show less").click()
        await expect(answer.get_by_text("it says so")).to_be_hidden()


async def test_the_answer_and_what_can_be_done_change_when_it_ends(windows: Windows, tmp_path: Path) -> None:
    opened = anyio.Event()
    async with dashboard(windows, tmp_path, {"Worker": [gate(opened, say(ANSWER))]}) as board:
        root = await board.start()
        page = await board.open(f"/executions/{root}")
        await expect(page.locator(f"[data-actions='{root}'] [data-action=cancel]")).to_be_visible()
        await expect(page.locator("[data-answer]")).to_have_count(0)
        # The figures are drawn once in half a second: what comes within it must not be lost.
        await page.clock.set_fixed_time(datetime.now(UTC))
        opened.set()
        await expect(page.locator(".x-page-head [data-answer=completed]")).to_be_visible()
        await expect(page.locator(f"[data-actions='{root}'] [data-action=cancel]")).to_have_count(0)
        await expect(page.locator(f"[data-actions='{root}'] [data-action=rerun]")).to_be_visible()


async def test_a_failure_below_is_named_with_its_reason_and_leads_there(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, BROKEN) as board:
        root = await board.run("Lead")
        page = await board.open(f"/executions/{root}")
        origin = page.locator(".x-page-head [data-origin]")
        await expect(origin).to_contain_text("Worker: ")
        await origin.click()
        await expect(page.locator("section[data-detail] [data-answer=failed]")).to_be_visible()
        await expect(page.locator("[role=row][aria-selected=true] .x-agent")).to_have_text("Worker")


async def test_rows_and_lists_show_words_without_marks(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        root = await board.run("Lead", task="# Look\n\nat `all` of it")
        page = await board.open(f"/executions/{root}")
        rows = page.locator("[data-grid] [data-execution]")
        await expect(rows.nth(0).locator(".x-words")).to_have_text("Root cause: the pool of checkout is too small.")
        await expect(rows.nth(1).locator(".x-text")).to_have_text("42 of them — Count")
        await expect(page.locator(".x-task-line")).to_have_text("Look")
        listed = await board.open("/")
        await expect(listed.locator(".line-task")).to_have_text("Look")


async def test_figures_say_what_is_its_own_and_what_is_below(windows: Windows, tmp_path: Path) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        root = await board.run("Lead")
        page = await board.open(f"/executions/{root}")
        facts = page.locator(".x-page-head .x-facts")
        await expect(facts).to_contain_text("with all below")
        words = await facts.inner_text()
    assert "tok" not in words.replace("tokens", "")
    assert "Σ" not in words
    assert "active" not in words


async def test_heat_is_no_alarm_and_can_be_read_in_both_themes(windows: Windows) -> None:
    with served() as address:
        for theme in ("light", "dark"):
            page = await windows.open(address, theme=theme)
            await mounted(page, 60, options={"ended": True})
            hues = await page.locator("[data-heat]").evaluate_all(HUES)
            assert hues
            assert min(each["contrast"] for each in hues) >= 4.5, theme
            assert not any(each["red"] for each in hues), theme


async def test_the_kinds_of_time_have_names_and_a_bar_says_what_it_is(windows: Windows) -> None:
    with served() as address:
        page = await windows.open(address)
        await mounted(page, 60, options={"ended": True})
        legend = page.locator("[data-legend]")
        for words in (
            "model",
            "tools",
            "approval",
            "queue",
            "children",
            "idle",
            "failed",
            "critical path",
            "refused",
            "drawn short",
        ):
            await expect(legend).to_contain_text(words)
        bars = page.locator(".x-bars")
        await expect(page.locator(".x-bars[data-spans=ready]")).to_have_count(1)
        box = await bars.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + 30, box["y"] + 14)
        await expect(bars).to_have_attribute("title", re.compile(": (model|children|queue)"))
        narrow = await windows.open(address, width=NARROW)
        await mounted(narrow, 60)
        await expect(narrow.locator("[data-legend]")).to_be_hidden()


async def test_an_execution_inside_a_tree_is_run_again_after_it_is_said_what_is_kept(
    windows: Windows, tmp_path: Path
) -> None:
    async with dashboard(windows, tmp_path, SCRIPTS) as board:
        root = await board.run("Lead")
        page = await board.open(f"/executions/{root}")
        await page.locator("[data-grid] [data-execution]").nth(1).click()
        await page.locator("section[data-detail] [data-action=rerun]").click()
        dialog = page.locator("[data-dialog=rerun]")
        await expect(dialog).to_contain_text("Run again from here: Worker")
        await expect(dialog).to_contain_text(
            "Done again, with the configuration it had: Worker, and what Lead did after it."
        )
        await dialog.locator("[data-confirm=rerun]").click()
        await page.wait_for_url(lambda url: "/executions/" in url and root not in url)
        await expect(page.locator(".x-page-head .x-badge")).to_contain_text("completed")
        forked = page.locator("[data-banner=forked]")
        await expect(forked).to_have_text(re.compile(r"Forked from \w+ at \w+; 0 executions kept\. Show"))
        await expect(forked.get_by_role("link")).to_have_attribute("href", f"/executions/{root}")
        await page.locator(".x-page-head [data-action=message]").click()
        await page.locator("[data-dialog=message] textarea").fill("and in words?")
        await page.locator("[data-confirm=message]").click()
        await page.locator("[data-banner=continues]").get_by_role("link").click()
        await expect(page.locator("[data-banner=continued]")).to_have_text(re.compile(r"Continued by \w+\. Show"))
