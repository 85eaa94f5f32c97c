"""A server that goes away under open pages: they say so, keep what they show, and go on without a gap or a repeat."""

from __future__ import annotations

import signal
from pathlib import Path

import anyio
import pytest
from playwright.async_api import expect

from tests.support.gates import at_gate
from tests.support.requirement import requirement
from tests.support.served_shell import free_port, serving
from tests.web.journeys import STREAMED, agent_row, caller_of, journey_shell, record_of, recorded, statuses, stored
from tests.web.windows import Windows


@requirement("S2-DA-4", "S2-DA-10")
@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGTERM])
async def test_pages_of_a_server_that_comes_back_miss_nothing_and_repeat_nothing(
    windows: Windows, tmp_path: Path, signalled: signal.Signals
) -> None:
    windows.allow(STREAMED)
    shell, port = journey_shell(tmp_path), free_port()
    url, first, second = f"http://127.0.0.1:{port}", shell.gate("first"), shell.gate("second")
    with serving(shell, port, GATE=str(first)) as process:
        async with caller_of(url) as client:
            tree = await recorded(windows, f"{url}/")
            lines = await recorded(windows, f"{url}/")
            await expect(lines.locator("[data-live][data-state=live]")).to_be_visible()
            root = (await client.post("/api/executions", 201, name="Head", task="go"))["execution_id"]
            await tree.goto(f"{url}/executions/{root}")
            async with at_gate(first):
                await expect(agent_row(tree, "Waiter")).to_contain_text("gate.wait")
                await expect(agent_row(tree, "Quick")).to_have_attribute("data-status", "completed")
                await expect(lines.locator(f'li[data-execution="{root}"]')).to_be_visible()
                before = await tree.locator(".x-row").count()
                process.send_signal(signalled)
                for page in (tree, lines):
                    await expect(page.locator("[data-live][data-state=reconnecting]")).to_be_visible()
                await expect(tree.locator("[data-banner=reconnecting]")).to_be_visible()
                assert await tree.locator(".x-row").count() == before
                await anyio.to_thread.run_sync(process.wait, 20)
    with serving(shell, port, GATE=str(second)):
        async with at_gate(second):
            await expect(tree.locator("[data-live][data-state=reconnecting]")).to_have_count(0)
            await expect(tree.locator("[data-banner=attempt]")).to_be_visible()
            await expect(lines.locator("[data-live][data-state=reconnecting]")).to_have_count(0)
        await expect(tree.locator("[data-answer=completed]")).to_contain_text("Middle: completed")
        await expect(lines.locator(f'li[data-execution="{root}"]')).to_have_attribute("data-status", "completed")
        await expect(tree.locator("[data-live][data-state=ended]")).to_have_count(1)

        told, listed = await record_of(tree), await record_of(lines)
        shown = await tree.locator(".x-row[data-execution]").evaluate_all("all => all.map(each => each.dataset.execution)")

    rows = shell.rows("select id from executions where root_execution_id = ?", root)
    assert sorted(shown) == sorted(row["id"] for row in rows)
    assert told["heard"] == stored(shell, told, root)
    assert listed["heard"] == stored(shell, listed)
    assert told["states"][-1] == "ended"
    for states in (told["states"], listed["states"]):
        assert states.index("live") < states.index("reconnecting")
    assert statuses(shell, root) == {
        "Head": "completed",
        "Middle": "completed",
        "Quick": "completed",
        "Waiter": "completed",
    }
    assert (told["gone"], listed["gone"]) == ([], [])
