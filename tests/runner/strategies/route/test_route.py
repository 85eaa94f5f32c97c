"""Routes: one judgement of a message, then an agent directly, several by a plan, or an answer in words."""

from __future__ import annotations

from pathlib import Path

from runner.chat import spoken
from runner.service.order import Order
from tests.runner.strategies.plan.planned import plan, roles, step, steps
from tests.runner.strategies.route.routed import decide
from tests.support.models import fail, say
from tests.support.requirement import requirement
from tests.support.service import bench

CONFIG = """
users:
  dana: {name: Dana, locale: he-IL, timezone: Asia/Jerusalem, capabilities: [calendar, gmail], connections: [google]}
  noa: {name: Noa, capabilities: [calendar]}
agents:
  Coord: {strategy: route, sub_agents: [calendar, gmail, notes]}
  calendar: {description: events, requires: {capabilities: [calendar], connections: [google]}}
  gmail: {description: mail, requires: {capabilities: [gmail], connections: [google]}}
  notes: {description: notes}
"""


COMPOSED = "  Coordinator: {plan: {compose: always}}\n"


@requirement("S4-RO-1", "S4-ID-1", "S4-PF-1", "S4-FA-1")
async def test_one_agent_and_no_plan_is_the_direct_way(tmp_path: Path) -> None:
    scripts = {"Classifier": [decide("notes")], "notes": [say("written down")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Coord", "note that the door code is 1234", user="dana")
        assert ended.result is not None
        assert ended.result.text == "written down"
        assert roles(service) == ["root", "classifier", "direct"]
        assert service.model.of("notes")[0].messages[0].text == "note that the door code is 1234"


@requirement("S4-RO-2", "S4-PL-9", "S4-SU-2", "S4-EX-2")
async def test_several_agents_are_planned_for(tmp_path: Path) -> None:
    scripts = {
        "Classifier": [decide("calendar", "gmail", plan=True)],
        "Planner": [plan(step("a", "calendar", "find a slot"), step("b", "gmail", "write to Ron", dependsOn=["a"]))],
        "calendar": [say("Tuesday at 9")],
        "gmail": [say("sent")],
        "Composer": [say("I wrote to Ron about Tuesday at 9.")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Coord", "meet Ron", user="dana")
        assert ended.result is not None
        assert ended.result.text == "I wrote to Ron about Tuesday at 9."
        assert roles(service) == ["root", "classifier", "plan", "planner", "step", "step", "composer"]
        planner = service.model.of("Planner")[0].system
        assert 'name="calendar"' in planner
        assert 'name="notes"' not in planner


@requirement("S4-RO-3", "S4-ID-3")
async def test_a_message_that_concerns_no_agent_is_answered_in_words(tmp_path: Path) -> None:
    scripts = {"Classifier": [say("no idea")], "Respondent": [say("Hello!")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Coord", "hi", user="dana")
        assert ended.result is not None
        assert ended.result.text == "Hello!"
        assert roles(service) == ["root", "classifier", "answer"]


@requirement("S4-PE-1", "S4-PE-3", "S4-PE-4")
async def test_an_agent_the_user_may_not_use_does_not_run(tmp_path: Path) -> None:
    decisions = [decide("gmail"), decide("calendar"), decide("gmail", "notes", plan=True)]
    scripts = {
        "Classifier": lambda _: decisions.pop(0),
        "Planner": [
            plan(
                step("a", "gmail", "send it"), step("b", "notes", "note it"), step("c", "notes", "and so", dependsOn=["a"])
            )
        ],
        "notes": [say("noted")],
        "Composer": [fail()],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        told = [(await service.run("Coord", "do it", user="noa")).result for _ in range(2)]
        assert [each.outcome for each in told if each] == ["blocked", "blocked"]
        assert "not part of what you have enabled" in (told[0].text if told[0] else "")
        assert "google" in (told[1].text if told[1] else "")
        planned = (await service.run("Coord", "do both", user="noa")).result
        assert planned is not None
        assert planned.outcome == "partial"
        assert steps(service) == {"a": "blocked", "b": "completed", "c": "blocked"}
        assert planned.text.startswith("Completed 1/3.")
        assert not service.model.of("gmail")
        reasons = service.sql("select error_type from executions where status = 'blocked' order by created_at, position")
        assert [row["error_type"] for row in reasons] == ["permission_denied"] * 3 + ["dependency_failed"]


async def test_the_agents_of_a_route_can_be_ones_of_our_own(tmp_path: Path) -> None:
    block = "route: {classifier: Mine, respondent: Yours, planner: Ours}"
    own = (
        "  Mine: {strategy: synthesis}\n  Yours: {strategy: synthesis}\n  Ours: {strategy: plan, plan: {compose: concat}}\n"
    )
    settings = CONFIG.replace("[calendar, gmail, notes]", f"[calendar, gmail, notes], {block}") + own
    decisions = [decide(), decide("notes", plan=True)]
    scripts = {
        "Mine": lambda _: decisions.pop(0),
        "Yours": [say("Shalom")],
        "Planner": [plan(step("a", "notes", "one"), step("b", "notes", "two"))],
        "notes": [say("noted")],
    }
    async with bench(tmp_path, settings, scripts) as service:
        told = [(await service.run("Coord", "hi", user="noa")).result for _ in range(2)]
        assert [each.text for each in told if each is not None] == ["Shalom", "noted\n\nnoted"]


async def test_what_is_said_about_a_plan_that_failed_is_what_the_user_hears(tmp_path: Path) -> None:
    scripts = {
        "Classifier": [decide("notes", plan=True)],
        "Planner": [plan(step("a", "notes", "one"), step("b", "notes", "two", dependsOn=["a"]))],
        "notes": [fail("invalid", "no", recoverable=False)],
        "Composer": [say("The notes could not be kept.")],
    }
    async with bench(tmp_path, "chat: {agent: Coord}" + CONFIG + COMPOSED, scripts) as service:
        child, _ = await service.dispatcher.chat_queue.accept(Order("", "note both", user="noa"))
        ended = await service.ended(child.id)
        assert ended.status == "failed"
        assert spoken(ended) == "The notes could not be kept."
        told = service.sql("select content from chat_messages where role = 'assistant'")
        assert [row["content"] for row in told] == ["The notes could not be kept."]
