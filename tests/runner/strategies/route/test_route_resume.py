"""Routes that are cut off and go on, are continued, or stand inside something else: what was decided and told is kept."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from runner.errors import Refusal
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.runner.resume.resuming import after_a_stop
from tests.runner.strategies.plan.planned import plan, step, steps
from tests.runner.strategies.route.routed import coordinator, decide
from tests.support.models import Script, Turn, fail, hang, say
from tests.support.reading import shown
from tests.support.requirement import requirement
from tests.support.service import bench

WORDS: dict[str, Script] = {
    "Respondent": [say("hello")],
    "calendar": [say("done by calendar")],
    "gmail": [say("done by gmail")],
    "Composer": [say("all is done")],
    "Planner": [plan(step("a", "calendar", "look"), step("b", "gmail", "write", dependsOn=["a"]))],
}


def first(request: Request) -> str:
    return request.messages[0].text


@requirement("S4-ID-1", "S4-PF-1", "X-36")
@pytest.mark.parametrize(
    ("decided", "stops_at", "answer", "asked"),
    [
        (decide("calendar"), "Classifier", "done by calendar", ["Classifier", "calendar"]),
        (decide("calendar"), "calendar", "done by calendar", ["calendar"]),
        (decide(), "Respondent", "hello", ["Respondent"]),
        (decide("calendar", "gmail"), "Planner", "all is done", ["Planner", "calendar", "gmail", "Composer"]),
        (decide("calendar", "gmail"), "calendar", "all is done", ["calendar", "gmail", "Composer"]),
        (decide("calendar", "gmail"), "gmail", "all is done", ["gmail", "Composer"]),
        (decide("calendar", "gmail"), "Composer", "all is done", ["Composer"]),
    ],
)
async def test_a_route_that_was_cut_off_goes_on_where_it_was(
    tmp_path: Path, decided: Turn, stops_at: str, answer: str, asked: list[str]
) -> None:
    scripts = {**WORDS, "Classifier": [decided], stops_at: [hang()]}
    async with bench(tmp_path, coordinator(), scripts) as service:
        started = await service.dispatcher.start(Order("Coord", "see to it", input={"who": "Ron"}, user="eve"))
        with anyio.fail_after(10):
            await service.model.started(stops_at)

    async with after_a_stop(tmp_path, {**WORDS, "Classifier": [decided]}, config=coordinator()) as service:
        ended = await service.ended(started.id)
        assert ended.result is not None
        assert (ended.status, ended.result.text) == ("completed", answer)
        assert [request.agent for request in service.model.requests] == asked
        agents = [row["agent"] for row in service.sql("select agent from executions where role != 'planner'")]
        assert len(agents) == len(set(agents))  # nobody was started twice
        assert len(service.sql("select * from events where type = 'route.decided'")) == 1
        for request in service.model.requests:  # whoever was begun since then is told what those before were
            whole = request.agent in ("Classifier", "Respondent", "Planner", "Composer") or "gmail" not in str(decided)
            assert ('"who": "Ron"' in first(request)) is whole, request.agent


NESTED = """
  Front: {description: looks}
  Desk: {description: asks, sub_agents: [Coord]}
  Whole: {strategy: plan, description: plans, sub_agents: [Front, Coord]}
agent_chains:
  line: {stages: [{name: one, agents: [Front]}, {name: two, agents: [Coord]}]}
"""
WHERE: dict[str, dict[str, Script]] = {
    "line": {},
    "Whole": {"Planner": [plan(step("a", "Front", "look"), step("b", "Coord", "see to it"))]},
}


@requirement("S4-RO-1")
@pytest.mark.parametrize("where", WHERE)
async def test_a_route_in_a_stage_or_a_step_passes_on_what_came_before_it_also_after_a_crash(
    tmp_path: Path, where: str
) -> None:
    config = coordinator(more=NESTED)
    scripts = {**WORDS, **WHERE[where], "Front": [say("the door is open")], "Classifier": [hang()]}
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order(where, "see to it", user="eve"))
        with anyio.fail_after(10):
            request = await service.model.started("Classifier")
        assert "the door is open" in first(request)

    async with after_a_stop(tmp_path, {**WORDS, "Classifier": [decide("calendar")]}, config=config) as service:
        ended = await service.ended(started.id)
        assert ended.result is not None
        assert ended.result.text == {"line": "done by calendar", "Whole": "all is done"}[where]
        [direct] = service.model.of("calendar")
        assert first(direct) == first(request)
        rows = service.sql("select depth, role from executions where agent in ('Coord', 'calendar') order by id")
        depth = {"line": 0, "Whole": 1}[where]
        assert [(row["depth"], row["role"]) for row in rows[1:]] == [(depth + 1, "direct")]


@requirement("X-36")
async def test_a_route_is_continued_with_what_it_was_asked_and_what_is_said_now(tmp_path: Path) -> None:
    scripts = {**WORDS, "Classifier": [decide("calendar")], "calendar": [fail("invalid", "no", recoverable=False)]}
    async with bench(tmp_path, coordinator(), scripts) as service:
        failed = await service.run("Coord", "clear my week", user="eve")
        assert (failed.status, failed.error) == ("failed", "the model could not answer: no")

        service.model.scripts["calendar"] = lambda request: say(f"knows {len(request.messages)}")
        again = await service.ended((await service.dispatcher.resume(failed.id, "but keep Monday")).id)
        assert again.status == "completed"
        assert len(service.model.of("Classifier")) == 1
        request = service.model.of("calendar")[-1]
        assert first(request) == "clear my week"
        assert "but keep Monday" in shown(request)

        handler = service.sql("select id from executions where parent_execution_id = ?", again.id)[-1]["id"]
        with pytest.raises(Refusal, match="has passed on the message") as refused:
            await service.dispatcher.resume(again.id, "and Tuesday")
        assert handler in refused.value.hint
        service.model.scripts["calendar"] = [say("kept")]
        more = await service.ended((await service.dispatcher.resume(handler, "and Tuesday")).id)
        assert more.result is not None
        assert more.result.text == "kept"


@requirement("S4-PE-4", "X-36")
async def test_a_route_that_was_denied_is_continued_when_it_is_allowed(tmp_path: Path) -> None:
    connected = coordinator().replace("{name: Olaf, ", "{name: Olaf, connections: [google], ")
    async with bench(tmp_path, coordinator(), {"Classifier": [decide("calendar")]}) as service:
        denied = await service.run("Coord", "clear my week", user="olaf")
        assert denied.result is not None
        assert denied.result.outcome == "blocked"
    async with bench(tmp_path, connected, {"calendar": [say("cleared")]}) as service:
        allowed = await service.ended((await service.dispatcher.resume(denied.id)).id)
        assert allowed.result is not None
        assert allowed.result.text == "cleared"
        assert first(service.model.of("calendar")[0]) == "clear my week"


@requirement("X-36")
async def test_a_plan_of_a_route_that_was_not_whole_is_continued_and_answered_anew(tmp_path: Path) -> None:
    scripts = {
        **WORDS,
        "Classifier": [decide("calendar", "gmail")],
        "gmail": [fail("invalid", "no", recoverable=False)],
        "Composer": lambda request: say(f"done: {first(request).count('completed')}"),
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        half = await service.run("Coord", "see to it", user="eve")
        assert half.result is not None
        assert (half.result.outcome, half.result.text) == ("partial", "done: 1")
        with pytest.raises(Refusal, match="has passed on the message") as refused:
            await service.dispatcher.resume(half.id, "try again")
        [row] = service.sql("select id from executions where role = 'plan'")
        assert row["id"] in refused.value.hint

        service.model.scripts["gmail"] = [say("sent")]
        whole = await service.ended((await service.dispatcher.resume(row["id"], "try again")).id)
        assert whole.result is not None
        assert (whole.result.outcome, whole.result.text) == ("completed", "done: 2")
        assert len(service.model.of("calendar")) == 1
        assert steps(service)["b"] == "completed"
        with pytest.raises(Refusal, match="has completed its task"):
            await service.dispatcher.resume(whole.id, "and more")
