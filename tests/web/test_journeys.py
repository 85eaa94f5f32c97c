"""The journeys of a reader over a real server: an investigation from its button to its proofs, steered, without a mouse."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.async_api import expect

from tests.support.requirement import requirement
from tests.support.served_shell import opened
from tests.support.shell import make_shell
from tests.web.journeys import STREAMED, node, record_of, recorded, stored
from tests.web.windows import Windows


def words_of(tokens: int) -> str:
    """Tokens as a page writes them."""
    return f"{tokens:,} tok" if tokens < 10_000 else f"{tokens / 1000:.1f}k tok"


TOTALS = "select * from execution_tree where root_execution_id = ? order by id"


@requirement("S2-DA-2", "S2-DA-3", "S2-DA-4", "S2-DA-5", "S2-DA-9")
async def test_an_investigation_is_watched_from_its_button_to_the_proofs_of_its_answer(
    windows: Windows, tmp_path: Path
) -> None:
    windows.allow(STREAMED)
    shell = make_shell(tmp_path)
    with opened(shell, "--db", str(shell.database), ANTHROPIC_API_KEY="none") as (_, url, token):
        page = await recorded(windows, f"{url}/#token={token}")
        await expect(page.locator("[data-empty=none] .command")).to_contain_text("outrider run look ")
        await page.click("[data-empty=none] [data-action=demo]")
        await page.wait_for_url("**/executions/*")
        loaded = await page.evaluate("performance.timeOrigin")
        root = page.url.rsplit("/", 1)[-1]
        await expect(page.locator("[data-answer=completed]")).to_be_visible(timeout=40_000)
        await expect(page.locator("[data-live][data-state=ended]")).to_have_count(1)

        rows = shell.rows(TOTALS, root)
        told = await record_of(page)
        assert await page.evaluate("performance.timeOrigin") == loaded
        assert told["heard"] == stored(shell, told, root)
        assert told["gone"] == []
        assert told["rows"][0] < told["rows"][-1] == len(rows)
        for each in rows:
            line = node(page, each["id"])
            await expect(line).to_have_attribute("aria-level", str(each["depth"] + 1))
            await expect(line).to_have_attribute("data-status", each["status"])
            said = told["said"][each["id"]]
            assert any(words.startswith("running: ") for words in said), said
            assert said[-1].startswith("completed: "), said
            assert len(told["times"][each["id"]]) > 1
            if each["subtree_executions"] > 1:
                tokens = await line.locator(".x-figure").nth(1).get_attribute("title")
                assert tokens == f"{words_of(each['own_tokens'])} itself, {words_of(each['subtree_tokens'])} with all below"
        facts = page.locator(".x-page-facts")
        await expect(facts).to_contain_text(f"below{len(rows) - 1}tokens")
        whole = words_of(rows[0]["subtree_tokens"]).removesuffix(" tok")
        await expect(facts).to_contain_text(f"tokens{whole} with all below")

        await page.click(".x-page-head [data-action=answer]")
        cited = page.locator(".x-page-head .x-answer [data-cite]").first
        handle, call = await cited.get_attribute("title"), await cited.get_attribute("data-cite")
        [made] = shell.rows("select * from tool_calls where id = ?", call)
        await cited.click()
        card = page.locator(f'details.x-call[data-row="{call}"]')
        await expect(card).to_have_attribute("open", "")
        await expect(node(page, made["execution_id"])).to_have_attribute("aria-selected", "true")
        assert made["call_id"].startswith(str(handle))
        shown = await card.locator(".x-call-body .x-label + *").all_inner_texts()
        assert json.loads(shown[0]) == json.loads(made["arguments"])
        assert "".join(shown[1].split())[:200] in "".join(made["result"].split())
