"""Every page in every state is for every reader: rules of accessibility, motion, forced colours, zoom, a tree in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from playwright.async_api import Page, expect

from tests.support.api_serving import ApiOptions
from tests.support.models import call, gate, say
from tests.support.shell import Shell
from tests.web.dashboards import CONFIG, SETTLED, dashboard
from tests.web.rich import SCRIPTS, rich_board
from tests.web.windows import HEIGHT, NARROW, WIDE, Windows, broken_rules

SHOWN = f"{SETTLED}, [data-state=error]"
OPEN_ALL = "for (const each of document.querySelectorAll('main details')) each.open = true"
GUARDED = f"{CONFIG}\nserve: {{http: {{tokens: {{alice: {{token: '${{ALICE}}'}}}}}}}}\n"


@dataclass
class Rules:
    """The rules that pages break."""

    broken: list[str] = field(default_factory=list)

    async def check(self, page: Page, where: str) -> None:
        """Check a page in light and in dark; what is dark differs in its colours alone, which no width changes."""
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        self.broken += [f"{where}: {each}" for each in await broken_rules(page)]
        if page.viewport_size is not None and page.viewport_size["width"] == NARROW:
            return
        await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        self.broken += [f"{where}, dark: {each}" for each in await broken_rules(page, "color-contrast")]


@pytest.fixture
def rules() -> Iterator[Rules]:
    """Rules, none of which may be broken in the end."""
    kept = Rules()
    yield kept
    assert not kept.broken, "\n".join(kept.broken)


async def visit(page: Page, url: str) -> None:
    """Show a page in the same window."""
    await page.goto(url)
    await page.wait_for_selector(SHOWN)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_no_page_breaks_a_rule(windows: Windows, tmp_path: Path, rules: Rules, width: int) -> None:
    windows.allow("status of 4")
    async with rich_board(windows, tmp_path) as rich:
        url = rich.board.api.url
        page = await rich.board.open(width=width)
        wrong = {"no-execution": f"/executions/{'0' * 37}", "no-page": "/executions/%", "wrong-sql": "/sql?sql=select+x"}
        for name, path in {**rich.pages, **wrong, "nothing-found": "/?q=nothing"}.items():
            await visit(page, url + path)
            await page.evaluate(OPEN_ALL)
            if width == NARROW and name.startswith("execution-") and "all" not in name:
                await rules.check(page, name)
                await page.locator("[role=row][data-execution]").first.click()
                await expect(page.locator("section[data-detail]")).to_be_visible()
            await rules.check(page, name)


@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_no_dialog_breaks_a_rule(windows: Windows, tmp_path: Path, rules: Rules, width: int) -> None:
    async with rich_board(windows, tmp_path) as rich:
        url = rich.board.api.url
        page = await rich.board.open(width=width)
        for key, dialog in {"Control+k": "palette", "?": "help", "x": "cancel"}.items():
            await page.locator("li[data-execution] a.line").first.focus()
            await page.keyboard.press(key)
            await expect(page.locator(f"[data-dialog={dialog}]")).to_be_visible()
            await rules.check(page, dialog)
            await page.keyboard.press("Escape")
        await page.click("[data-action=start-form]")
        await page.select_option("[data-dialog=start] select[name=name]", "Counter")
        await rules.check(page, "start form")
        await visit(page, f"{url}/executions/{rich.asking}")
        for action in ("cancel", "message"):
            await page.locator(f"[data-actions] [data-action={action}]").first.click()
            await expect(page.locator(f"[data-dialog={action}] [data-state=ready]")).to_be_attached()
            await rules.check(page, action)
            await page.keyboard.press("Escape")
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("?")
        await expect(page.locator("dialog[open]")).to_be_visible()
        await rules.check(page, "keys")


async def test_no_empty_page_login_or_exported_page_breaks_a_rule(windows: Windows, tmp_path: Path, rules: Rules) -> None:
    windows.allow("status of 401")
    exported = tmp_path / "tree.html"
    async with rich_board(windows, tmp_path) as rich:
        words = ["export", rich.done, "--html", exported.name, "--db", "outrider.db"]
        done = await anyio.to_thread.run_sync(Shell(tmp_path).type, *words)
        assert done.returncode == 0, done.stderr
    for folder in ("empty", "guarded"):
        (tmp_path / folder).mkdir()
    async with dashboard(windows, tmp_path / "empty", SCRIPTS) as board:
        page = await board.open()
        for path in ("/", "/usage", "/compare", "/agents?tab=servers"):
            await visit(page, board.api.url + path)
            await rules.check(page, f"empty {path}")
    async with dashboard(windows, tmp_path / "guarded", SCRIPTS, ApiOptions(environ={"ALICE": "a" * 40}), GUARDED) as board:
        page = await windows.open(board.api.url)
        await page.fill("[data-dialog=login] input[name=token]", "wrong")
        await page.click("[data-action=login]")
        await expect(page.locator("[data-dialog=login] [role=alert]")).not_to_be_empty()
        await rules.check(page, "login")
    for width in (WIDE, NARROW):
        page = await windows.open(exported.as_uri(), width=width)
        await page.wait_for_selector(".x-execution[data-state=ready]")
        await page.evaluate(OPEN_ALL)
        await rules.check(page, "exported")


async def test_a_reader_without_motion_sees_none(windows: Windows, tmp_path: Path) -> None:
    async with rich_board(windows, tmp_path) as rich:
        page = await rich.board.open(f"/executions/{rich.asking}")
        moving = "document.getAnimations().map((each) => each.animationName ?? each.transitionProperty)"
        assert await page.evaluate(moving) != []
        page = await rich.board.open(reduced_motion="reduce")
        for path in ("/", f"/executions/{rich.asking}", "/usage", "/agents"):
            await visit(page, rich.board.api.url + path)
            await page.locator("[data-action=palette]").hover()
            assert await page.evaluate(moving) == [], path


MARKED = """(all) => all.map((each) => {
  const style = getComputedStyle(each);
  return style.outlineStyle === "solid" && style.outlineColor !== "transparent";
})"""
PAINTED = """(all) => all.map((each) => getComputedStyle(each).backgroundColor).filter((colour) =>
  colour === getComputedStyle(document.body).backgroundColor || colour === "rgba(0, 0, 0, 0)")"""


async def test_with_forced_colours_what_is_chosen_and_what_is_measured_stays_visible(
    windows: Windows, tmp_path: Path
) -> None:
    async with rich_board(windows, tmp_path) as rich:
        page = await rich.board.open(f"/executions/{rich.done}?tab=turns")
        await page.emulate_media(forced_colors="active")
        for chosen in ("[role=row][aria-selected=true]", "[role=tab][aria-selected=true]", "[data-nav][aria-current]"):
            assert await page.locator(chosen).evaluate_all(MARKED) == [True], chosen
        assert await page.locator(".x-times > span, .x-swatch").count() > 0
        assert await page.locator(".x-times > span, .x-swatch").evaluate_all(PAINTED) == []
        await visit(page, f"{rich.board.api.url}/agents?tab=prices")
        assert await page.locator("[role=tab][aria-selected=true]").evaluate_all(MARKED) == [True]


LOST = """() => {
  const lost = (each) => {
    const box = each.getBoundingClientRect();
    if (box.width === 0 || (box.right <= innerWidth + 1 && box.left >= -1)) return false;
    for (let around = each.parentElement; around !== null; around = around.parentElement) {
      if (/auto|scroll/.test(getComputedStyle(around).overflowX)) return false;
    }
    return true;
  };
  const wide = document.documentElement.scrollWidth > innerWidth ? ["the page scrolls sideways"] : [];
  const low = [...document.querySelectorAll("[data-grid]")].filter((each) => each.clientHeight < 100);
  return [...wide, ...[...document.querySelectorAll("button, a, input, select, textarea")].filter(lost), ...low]
    .map((each) => each.outerHTML?.slice(0, 120) ?? each);
}"""


async def test_at_twice_the_size_nothing_is_lost(windows: Windows, tmp_path: Path) -> None:
    async with rich_board(windows, tmp_path) as rich:
        page = await rich.board.open()
        await page.set_viewport_size({"width": WIDE // 2, "height": HEIGHT // 2})
        for name, path in rich.pages.items():
            await visit(page, rich.board.api.url + path)
            assert await page.evaluate(LOST) == [], name


async def test_a_status_is_told_by_its_shape_and_its_word(windows: Windows, tmp_path: Path) -> None:
    async with rich_board(windows, tmp_path) as rich:
        page = await rich.board.open()
        rows = page.locator("li[data-execution]")
        shapes = await rows.locator(".line-mark").all_text_contents()
        words = await rows.locator("a.line > .hidden-visually").all_text_contents()
        assert len(set(shapes)) == len(shapes) == 4
        assert set(words) == {"running", "failed", "cancelled", "completed"}
        await visit(page, f"{rich.board.api.url}/executions/{rich.done}")
        row = page.locator("[role=row][data-execution]").first
        await expect(row.locator(".x-shape")).to_have_text(shapes[words.index("completed")])
        await expect(row).to_have_attribute("aria-label", re.compile("completed"))


ROWS = """(all) => all.map((row) => [row.dataset.execution, ...["level", "posinset", "setsize", "expanded", "rowindex"]
  .map((name) => row.getAttribute(`aria-${name}`))])"""
ACTIVE = """(grid) => {
  const active = document.getElementById(grid.getAttribute("aria-activedescendant"));
  return [grid.getAttribute("aria-rowcount"), active?.dataset.execution, active?.getAttribute("aria-selected")];
}"""


async def test_the_roles_of_the_tree_are_true(windows: Windows, tmp_path: Path) -> None:
    async with rich_board(windows, tmp_path) as rich:
        lead, worker = (each["id"] for each in (await rich.board.client.get(f"/api/executions/{rich.done}/tree"))["nodes"])
        page = await rich.board.open(f"/executions/{rich.done}")
        grid, rows = page.locator("[role=treegrid]"), page.locator("[role=row][data-execution]")
        await grid.focus()
        await page.keyboard.press("]")
        await page.keyboard.press("End")
        assert await rows.evaluate_all(ROWS) == [[lead, "1", "1", "1", "true", "2"], [worker, "2", "1", "1", None, "3"]]
        assert await grid.evaluate(ACTIVE) == ["3", worker, "true"]
        await page.keyboard.press("ArrowLeft")
        await page.keyboard.press("ArrowLeft")
        await expect(rows).to_have_count(1)
        assert await rows.evaluate_all(ROWS) == [[lead, "1", "1", "1", "false", "2"]]
        assert await grid.evaluate(ACTIVE) == ["2", lead, "true"]


async def test_what_happens_is_said_in_words_and_not_faster_than_it_is_heard(windows: Windows, tmp_path: Path) -> None:
    opened = anyio.Event()
    lead = [*(call("dispatch_agent", name="Worker", task=str(number)) for number in range(8)), say("I wait"), say("all")]
    async with dashboard(windows, tmp_path, {"Lead": [*lead, *lead[-1:]], "Worker": [gate(opened, say("42"))]}) as board:
        root = await board.start("Lead")
        await board.api.bench.model.started("Worker", 5)
        page = await board.open(f"/executions/{root}")
        region = page.locator("[data-said]")
        await region.evaluate("""(region) => {
            window.said = [];
            new MutationObserver(() => said.push([performance.now(), region.textContent])).observe(region, {childList: true,
              characterData: true, subtree: true});
        }""")
        opened.set()
        await expect(region).to_contain_text("Lead completed, 9 of 9 ended")
        said = await page.evaluate("said")
        assert all(later - before > 2900 for (before, _), (later, _) in pairwise(said)), said
