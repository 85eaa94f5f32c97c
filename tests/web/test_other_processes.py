"""`outrider dashboard` beside the process that runs a tree: it steers the tree, sees the process die, and resumes it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import Popen

import anyio
from playwright.async_api import Page, expect

from tests.support.gates import at_gate
from tests.support.served_shell import opened
from tests.support.shell import Shell
from tests.web.journeys import STREAMED, act, agent_row, journey_shell, record_of, recorded, selected, statuses, stored
from tests.web.windows import Windows


@asynccontextmanager
async def beside(windows: Windows, shell: Shell, *words: str, **environ: str) -> AsyncIterator[tuple[Page, Popen[str]]]:
    """A page of a dashboard on the database of a living `outrider run`, once the list shows its tree; and that process."""
    windows.allow(STREAMED)
    with opened(shell, **environ) as (_, url, token), shell.start("run", *words, **environ) as running:
        page = await recorded(windows, f"{url}/#token={token}")
        await page.locator("li[data-execution] a.line").wait_for()
        try:
            yield page, running
        finally:
            await windows.close()


async def test_what_another_process_runs_is_steered_and_it_carries_it_out(windows: Windows, tmp_path: Path) -> None:
    shell = journey_shell(tmp_path)
    gate = shell.gate("gate")
    async with beside(windows, shell, "Head", "go", GATE=str(gate)) as (page, running):
        await page.click("li[data-execution] a.line")
        async with at_gate(gate):
            await selected(page, "Waiter")
            await act(page, "message", "it was at noon")
            await selected(page, "Middle")
            words = await act(page, "cancel", "enough")
            await expect(agent_row(page, "Middle")).to_have_attribute("data-status", "cancelled")
            await expect(agent_row(page, "Head")).to_have_attribute("data-status", "completed")
        assert await anyio.to_thread.run_sync(running.wait, 20) == 0
        await expect(page.locator("[data-live][data-state=ended]")).to_have_count(1)
        root = page.url.rsplit("/", 1)[-1].split("?")[0]
        told = await record_of(page)
    assert words[1:] == ["1 execution below is stopped with it.", "Its parent goes on and reads that it was cancelled."]
    assert statuses(shell, root)["Waiter"] == "cancelled"
    assert told["heard"] == stored(shell, told, root)
    assert len({row["owner"] for row in shell.rows("select owner from executions")}) == 1


async def test_a_call_of_another_process_is_allowed_from_the_page(windows: Windows, tmp_path: Path) -> None:
    shell = journey_shell(tmp_path)
    async with beside(windows, shell, "Asker", "go") as (page, running):
        await page.click("li[data-execution] a.line")
        for decision in ("approve", "deny"):
            question = await page.locator("[data-approval]").get_attribute("data-approval")
            await page.click(f'[data-approval="{question}"] [data-action={decision}]')
            await expect(page.locator(f'[data-approval="{question}"]')).to_have_count(0)
        await expect(page.locator("[data-answer=completed]")).to_contain_text("first False, then error")
        assert await anyio.to_thread.run_sync(running.wait, 20) == 0
    decided = shell.rows("select decision from approvals order by id")
    assert [row["decision"] for row in decided] == ["approved", "denied"]


async def test_pages_tell_that_the_process_of_a_tree_died_and_resume_it(windows: Windows, tmp_path: Path) -> None:
    shell = journey_shell(tmp_path)
    gate = shell.gate("gate")
    async with beside(windows, shell, "Head", "go", GATE=str(gate)) as (page, running):
        row = page.locator("li[data-execution]")
        async with at_gate(gate):
            await expect(row).to_contain_text("gate.wait")
            tree = await page.context.new_page()
            await tree.goto(page.url + str(await row.locator("a.line").get_attribute("href"))[1:])
            await expect(agent_row(tree, "Waiter")).to_contain_text("gate.wait")
            running.send_signal(signal.SIGKILL)
            await expect(tree.locator("[data-banner=interrupted]")).to_be_visible()
            await expect(agent_row(tree, "Waiter")).to_have_attribute("data-status", "interrupted")
            await expect(row).to_contain_text("interrupted")
        await act(tree, "resume")
        async with at_gate(gate):
            await expect(tree.locator("[data-banner=interrupted]")).to_have_count(0)
            await expect(agent_row(tree, "Waiter")).to_contain_text("gate.wait")
        await expect(tree.locator("[data-answer=completed]")).to_contain_text("Middle: completed")
        await expect(row).to_have_attribute("data-status", "completed")
    root = shell.rows("select root_execution_id from executions")[0]["root_execution_id"]
    assert statuses(shell, root) == dict.fromkeys(("Head", "Middle", "Quick", "Waiter"), "completed")
    assert {row["attempt"] for row in shell.rows("select attempt from executions where agent <> 'Quick'")} == {2}
