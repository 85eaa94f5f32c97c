"""The tutorial of the dashboard as steps in a browser: each asks one of its questions, and finds the answer on the page.

Owns the steps and their pictures. Must not know: a test. Invariant: a picture is taken only after its step has found what
the tutorial says. `python -m tests.web.tutorial` takes the pictures of `docs/pictures` again.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from playwright.async_api import Page, expect

from tests.docs.typed_pages import type_page
from tests.support.shell import Shell
from tests.support.sources import ROOT
from tests.web.small_png import smaller
from tests.web.windows import Windows, chromium

PAGE = ROOT / "docs" / "tutorial" / "dashboard.md"
PICTURES = ROOT / "docs" / "pictures"
SECOND_HALF = "## Repair it, and compare"
SLOWEST = """rows => rows.map(row => [row.querySelector(".x-agent").textContent,
  parseFloat(row.querySelectorAll(".x-figure")[0].textContent)]).sort((one, other) => other[1] - one[1])[0][0]"""

DRAWN = """async () => {
  const known = performance.getEntriesByType("resource").filter(each => each.name.includes("/timeline")).length;
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return known >= 5;
}"""
"""The bars show what each execution did: its times have come, and a frame was drawn since."""


@dataclass(frozen=True, slots=True)
class Step:
    """A question of the tutorial, and how a reader finds its answer."""

    heading: str
    """As on the page of the tutorial."""
    does: Callable[[Page], Awaitable[None]]
    picture: str = ""


@dataclass(frozen=True, slots=True)
class Walk:
    """The folder of the reader, and the open dashboard."""

    shell: Shell
    page: Page

    async def repair(self) -> None:
        """Type the second half of the page."""
        text = PAGE.read_text(encoding="utf-8")
        await anyio.to_thread.run_sync(type_page, text[text.index(SECOND_HALF) :], self.shell)


@asynccontextmanager
async def walking(folder: Path, windows: Windows) -> AsyncIterator[Walk]:
    """Type the first half of the page, and open what `outrider dashboard` prints."""
    shell, text = Shell(folder), PAGE.read_text(encoding="utf-8")
    await anyio.to_thread.run_sync(type_page, text[: text.index(SECOND_HALF)], shell)
    with shell.start("dashboard", "--no-open") as process:
        assert process.stderr is not None
        told = await anyio.to_thread.run_sync(process.stderr.readline)
        address = re.search(r"http://\S+#token=\S+", told)
        assert address is not None, told
        page = await windows.open(address[0])
        try:
            yield Walk(shell, page)
        finally:
            await windows.close()  # before the server, which they would complain of


# -- the steps ---------------------------------------------------------------------------------------------------------


async def open_the_page(page: Page) -> None:
    await page.locator("li[data-execution] a.line", has_text="sre-investigation").first.click()
    await expect(page.locator(".x-execution[data-state=ready]")).to_be_visible()
    await expect(page.locator("section[data-detail][data-state=ready]")).to_be_visible()


async def what_was_found(page: Page) -> None:
    answer = page.locator(".x-page-head [data-answer]")
    await expect(answer.locator("[data-lead]")).to_contain_text("Root cause: the rollout of inventory")
    await expect(page.locator("[data-answer]")).to_have_count(1)
    await page.get_by_role("button", name="Show the whole answer").click()
    await expect(answer.get_by_role("heading", name="What could not be checked")).to_be_visible()
    await page.get_by_role("button", name="Show less").click()


async def what_failed_and_why(page: Page) -> None:
    failed = page.locator("[data-grid] [data-status=failed]")
    await expect(failed.locator(".x-shape")).to_have_text("✕")
    await expect(page.locator(".x-page-head [data-answer]")).to_contain_text("Failed below")
    await page.locator(".x-page-head [data-origin]").click()
    why = page.locator("section[data-detail] [data-answer=failed]")
    await expect(why).to_contain_text("`MetricChecker` cannot work without the server `metrics`")
    await expect(why).to_contain_text("no such program")
    await expect(why.locator(".x-hint")).to_contain_text("check `mcp_servers.metrics`")
    await expect(failed).to_have_attribute("aria-selected", "true")


async def what_proves_it(page: Page) -> None:
    await page.locator(".x-page-head summary", has_text="Evidence").click()
    await page.locator(".x-evidence [data-cite]").first.click()
    call = page.locator("section[data-detail] details[data-call][open]")
    await expect(call).to_contain_text("DB_POOL_SIZE")
    await expect(page.locator(".x-detail-head h2")).to_have_text("K8sInspector")


async def what_it_cost(page: Page) -> None:
    await page.locator(".x-page-head summary", has_text="Evidence").click()
    facts = page.locator(".x-page-head .x-facts")
    await expect(facts).to_contain_text(re.compile(r"tokens\s*[\d.]+k with all below"))
    await expect(facts).to_contain_text(re.compile(r"cost\s*rehearsed"))
    await expect(page.locator("[data-grid] [data-execution]").nth(1).locator("[data-heat='3']")).to_have_count(2)


async def which_was_slowest(page: Page) -> None:
    rows = page.locator("[data-grid] [data-execution][aria-level='3']")
    slowest = await rows.evaluate_all(SLOWEST)
    await page.locator("[data-depth=messages]").click()
    await rows.filter(has_text=slowest).first.click()
    detail = page.locator("section[data-detail][data-state=ready]")
    await expect(detail.locator(".x-detail-head h2")).to_have_text(slowest)
    await expect(detail.locator(".x-where")).to_contain_text(re.compile(r"model [\d.]+s"))
    for words in ("model", "tools", "critical path"):
        await expect(page.locator("[data-legend]")).to_contain_text(words)


async def compare(page: Page) -> None:
    await page.locator("[data-nav=compare]").click()
    lines = page.locator("[data-execution]", has_text="sre-investigation")
    await expect(lines).to_have_count(2)
    await lines.nth(1).locator("[data-take=a]").click()
    await lines.nth(0).locator("[data-take=b]").click()
    changed = page.locator("[data-change=changed]", has_text="MetricChecker")
    await expect(changed.locator(".pair-differs")).to_contain_text("status")
    await changed.locator("summary").click()
    await changed.evaluate("each => window.scrollTo(0, each.getBoundingClientRect().top + window.scrollY - 60)")
    await expect(changed.locator(".pair-detail")).to_contain_text("cannot work without the server metrics")
    for side in ("a", "b"):
        answer = page.locator(f".compared-tree[data-side={side}] .compared-answer")
        await expect(answer).to_contain_text("Root cause: the rollout of inventory")


FIRST_HALF = (
    Step("Open the page", open_the_page, "tutorial-answer"),
    Step("What was found?", what_was_found),
    Step("What failed, and why?", what_failed_and_why, "tutorial-failure"),
    Step("What proves the answer?", what_proves_it, "tutorial-evidence"),
    Step("What did it cost?", what_it_cost),
    Step("Which agent was slowest?", which_was_slowest, "tutorial-slowest"),
)
COMPARE = Step(SECOND_HALF.removeprefix("## "), compare, "tutorial-compare")


async def pictures(into: Path) -> None:
    """Walk the tutorial, and take its pictures."""
    async with chromium() as browser:
        with tempfile.TemporaryDirectory() as folder:
            windows = Windows(browser)
            async with walking(Path(folder), windows) as walk:
                await walk.page.set_viewport_size({"width": 1280, "height": 760})
                for step in (*FIRST_HALF, COMPARE):
                    if step is COMPARE:
                        await walk.repair()
                    await step.does(walk.page)
                    if step.picture:
                        await walk.page.wait_for_function(DRAWN)
                        taken = await walk.page.screenshot(animations="disabled", caret="hide")
                        await anyio.Path(into / f"{step.picture}.png").write_bytes(smaller(taken))


if __name__ == "__main__":
    anyio.run(pictures, Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
