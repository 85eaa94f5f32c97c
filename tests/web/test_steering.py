"""What a reader does to a real tree from its page, and what the rows say afterwards."""

from __future__ import annotations

import json

import anyio
from playwright.async_api import expect

from tests.support.api_serving import TIME
from tests.support.gates import at_gate
from tests.support.requirement import requirement
from tests.web.journeys import Journey, act, agent_row, selected, statuses
from tests.web.windows import Windows

OUTCOMES = "select agent, outcome from executions where root_execution_id = ?"
MESSAGES = """
select payload, consumed_at from deliveries
where kind = 'message' and execution_id in (select id from executions where root_execution_id = ?)
"""
NEUTRAL = """(each) => {
  const probe = document.querySelector(".x-execution").appendChild(document.createElement("span"));
  probe.className = "x-muted";
  return getComputedStyle(each).color === getComputedStyle(probe).color;
}"""
"""Whether its colour is that of words that call for nothing."""


async def test_a_message_is_read_by_the_model_and_a_wrap_up_ends_in_part(journey: Journey, windows: Windows) -> None:
    asked_of = set[str]()
    async with journey.started(windows, "Head") as (page, root, client):
        async with at_gate(journey.gate):
            await selected(page, "Waiter")
            said = await act(page, "message", "it was at noon")
            await selected(page, "Head")
            asked = await act(page, "wrap-up")
            with anyio.fail_after(TIME):
                async with client.stream(f"/api/executions/{root}/events") as messages:
                    async for message in messages:
                        if message.id and message.data["payload"].get("kind") == "wrap_up":
                            asked_of.add(message.data["execution_id"])
                            if len(asked_of) == 3:
                                break
            for agent in ("Head", "Middle"):
                await expect(agent_row(page, agent)).to_contain_text("waiting for children")
        await expect(agent_row(page, "Head")).to_have_attribute("data-status", "partial")
        await selected(page, "Waiter")
        answer = page.locator(".x-detail [data-answer=completed]")
        await expect(answer).to_contain_text("I waited. New message from your caller")
        await expect(answer).to_contain_text("it was at noon")
    assert said == ["Waiter reads it before its next step; running calls are not interrupted."]
    assert asked[0] == "Head is asked to answer with what it has."
    ended = {row["agent"]: row["outcome"] for row in journey.shell.rows(OUTCOMES, root)}
    assert ended == {"Head": "partial", "Middle": "partial", "Waiter": "partial", "Quick": "completed"}
    [told] = journey.shell.rows(MESSAGES, root)
    assert json.loads(told["payload"])["text"] == "it was at noon"
    assert told["consumed_at"]


@requirement("S2-DA-7", "S2-DA-8")
async def test_one_in_the_middle_is_cancelled_and_its_parent_goes_on_and_reads_it(
    journey: Journey, windows: Windows
) -> None:
    async with journey.started(windows, "Head") as (page, root, _):
        async with at_gate(journey.gate):
            await expect(agent_row(page, "Waiter")).to_contain_text("gate.wait")
            await selected(page, "Middle")
            words = await act(page, "cancel", "no longer needed")
            for agent in ("Middle", "Waiter"):
                await expect(agent_row(page, agent)).to_have_attribute("data-status", "cancelled")
            await expect(agent_row(page, "Head")).to_contain_text("Middle: cancelled")
        assert await agent_row(page, "Middle").locator(".x-shape").evaluate(NEUTRAL)
        assert await page.locator(".x-detail [data-answer]").get_by_text("no longer needed").evaluate(NEUTRAL)
        await selected(page, "Waiter")
        assert await page.locator(".x-detail .x-call-line .x-mark", has_text="⊘").evaluate(NEUTRAL)
    assert words == [
        "Middle is stopped; what it has so far is kept.",
        "1 execution below is stopped with it.",
        "Its parent goes on and reads that it was cancelled.",
    ]
    assert statuses(journey.shell, root) == {
        "Head": "completed",
        "Middle": "cancelled",
        "Quick": "completed",
        "Waiter": "cancelled",
    }
    [why] = journey.shell.rows(
        "select cancel_reason from executions where root_execution_id = ? and agent = 'Middle'", root
    )
    assert why["cancel_reason"] == "no longer needed"


@requirement("S2-DA-6")
async def test_a_refused_dispatch_has_a_row_with_its_reason_and_a_node_is_run_again(
    journey: Journey, windows: Windows
) -> None:
    async with journey.started(windows, "Head") as (page, root, _):
        async with at_gate(journey.gate):
            refused = page.locator(".x-row[data-status=refused]")
            await expect(refused).to_contain_text("Broken")
            await expect(refused).to_contain_text("dispatch refused: ")
            await expect(refused).to_have_attribute("aria-level", "2")
        await expect(agent_row(page, "Head")).to_have_attribute("data-status", "completed")
        await selected(page, "Middle")
        words = await act(page, "rerun")
        await page.wait_for_url(lambda url: root not in url)
        again = page.url.rsplit("/", 1)[-1]
        async with at_gate(journey.gate):
            await expect(agent_row(page, "Waiter")).to_contain_text("gate.wait")
        await expect(agent_row(page, "Head")).to_have_attribute("data-status", "completed")
        await expect(agent_row(page, "Quick")).to_contain_text("kept: ")
    assert words == [
        "A new tree is started; this one stays as it is.",
        "Done again, with the configuration it had: Middle, and what Head did after it.",
        "Kept with its result, at no cost: 1 execution.",
    ]
    for each in (root, again):
        assert statuses(journey.shell, each) == dict.fromkeys(("Head", "Middle", "Quick", "Waiter"), "completed")


async def test_a_gated_call_is_allowed_once_from_two_pages_and_the_next_one_is_denied(
    journey: Journey, windows: Windows
) -> None:
    async with journey.started(windows, "Asker") as (page, root, _):
        other = await windows.open(page.url)
        for each in (page, other):
            await expect(each.locator("[data-banner=approval]")).to_be_visible()
            await expect(each.locator(".x-row[data-status=approval]")).to_contain_text("waits for your decision on")
        first = await page.locator("[data-approval]").get_attribute("data-approval")
        await page.locator(f'[data-approval="{first}"] [data-action=approve]').click()
        await expect(other.locator(f'[data-approval="{first}"]')).to_have_count(0)
        await expect(other.locator("[data-approval]")).to_have_count(1)
        await other.fill("[data-approval] .x-reason", "not on a Friday")
        await other.click("[data-approval] [data-action=deny]")
        for each in (page, other):
            await expect(each.locator("[data-answer=completed]")).to_contain_text("first False, then")
            await expect(each.locator("[data-answer=completed]")).to_contain_text("not on a Friday")
            await expect(each.locator("[data-approval]")).to_have_count(0)
    decided = journey.shell.rows("select decision from approvals where execution_id = ? order by id", root)
    made = journey.shell.rows("select result, is_error from tool_calls where execution_id = ? order by id", root)
    assert [each["decision"] for each in decided] == ["approved", "denied"]
    assert [bool(each["is_error"]) for each in made] == [False, True]
