"""What the settings of a plan do: caps, concurrency, failure, the empty plan, wording, reuse."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest

from runner.service.order import Order
from tests.runner.strategies.plan.planned import A, B, config, plan, roles, step, steps
from tests.support.models import call, fail, gate, hang, say
from tests.support.requirement import requirement
from tests.support.service import bench

WORKERS = {"A": [say("alpha")], "B": [say("beta")], "C": [say("gamma")]}
BROKEN = fail("invalid", "no", recoverable=False)


@requirement("S0-C-3")
@pytest.mark.parametrize(("setting", "most"), [("", 10), ("max_steps: 3", 3)])
async def test_a_plan_carries_out_no_more_steps_than_it_may_and_tells_what_was_not_done(
    tmp_path: Path, setting: str, most: int
) -> None:
    """The last step is written first: what is cut is what nothing that is kept depends on."""
    chained = [step(f"s{number}", "A", f"part {number}", depends_on=[f"s{number - 1}"]) for number in range(14, 1, -1)]
    scripts = {"Planner": [plan(*chained, step("s1", "B", "part 1"))], "Composer": [say("done")]}
    scripts |= {"A": [say("found by A")], "B": [say("found by B")]}
    async with bench(tmp_path, config(setting), scripts) as service:
        ended = await service.run("Assistant")

        cut = [f"s{number}" for number in range(most + 1, 15)]
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "max_steps")
        named = ", ".join(f"`{each}` (A)" for each in cut)
        assert [error.message for error in ended.result.errors] == [f"a plan has at most {most} steps; not done: {named}"]
        assert steps(service) == {f"s{number}": "completed" if number <= most else "skipped" for number in range(1, 15)}
        rows = service.sql("select distinct reason, error_type, task from executions where status = 'skipped' order by id")
        assert rows == [{"reason": "max_steps", "error_type": "max_steps", "task": f"part {each[1:]}"} for each in cut]

        [told] = service.model.of("Composer")
        elements = re.findall(r'<step id="(\w+)" agent="A" status="skipped">\n(.*)\n</step>', told.messages[0].text)
        assert elements == [(each, f"not done (a plan has at most {most} steps): part {each[1:]}") for each in cut]
        assert told.messages[0].text.count("found by") == most
        assert all("not done" not in request.messages[0].text for request in service.model.of("A"))
        [truncated] = service.sql("select payload from events where type = 'plan.truncated'")
        assert f'"cut":{14 - most}' in truncated["payload"]


async def test_steps_that_a_revised_plan_has_beyond_the_limit_are_kept_and_told_too(tmp_path: Path) -> None:
    versions = [plan(A, B), plan(*(step(f"n{number}", "C", f"new {number}") for number in range(4)))]
    scripts = {
        "Planner": lambda _: versions.pop(0),
        "A": [say('{"needsReplan": true, "found": "more"}')],
        "C": [say("gamma")],
    }
    async with bench(tmp_path, config("max_steps: 3, compose: concat"), scripts) as service:
        ended = await service.run("Assistant")

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.reason) == ("partial", "max_steps")
        assert ended.result.text.endswith("gamma\n\ngamma\n\nNot done:\n- new 2\n- new 3")
        done, not_done = ["step_1", "n0", "n1"], ["step_2", "n2", "n3"]
        assert steps(service) == {**dict.fromkeys(done, "completed"), **dict.fromkeys(not_done, "skipped")}
        shown = service.sql("select steps from plans where version = 2")[0]["steps"]
        assert shown.count('"cut":true') == 2


async def test_a_planner_that_never_ends_is_cut_to_a_bounded_number_of_rows(tmp_path: Path) -> None:
    endless = plan(*(step(f"s{number}", "A", f"part {number}") for number in range(400)))
    scripts = {"Planner": [endless], "A": [say("part")], "Composer": [say("done")]}
    async with bench(tmp_path, config("max_steps: 1"), scripts) as service:
        ended = await service.run("Assistant")

        assert ended.result is not None
        assert ended.result.errors[0].message.endswith("`s20` (A) and 379 more")
        assert len(steps(service)) == 101


@requirement("S0-C-2", "S0-EX-3", "S0-RP-6")
async def test_a_plan_is_revised_only_so_often(tmp_path: Path) -> None:
    versions = [plan(step("s", "A", f"try {number}"), B) for number in range(9)]
    asks = say('{"needsReplan": true, "found": "something else"}')
    scripts = {"Planner": lambda _: versions.pop(0), "A": [asks], "B": [say("beta")], "Composer": [say("done")]}
    async with bench(tmp_path, config("max_replans: 2"), scripts) as service:
        ended = await service.run("Assistant")
        assert ended.result is not None
        assert (ended.result.outcome, ended.result.reason) == ("partial", "max_replans")
        assert "step `s_v3` asked for a new plan, but the limit is reached" in ended.result.errors[0].message
        assert service.sql("select max(version) as n from plans")[0]["n"] == 3
        assert roles(service).count("planner") == 3
        assert steps(service)["step_2_v3"] == "completed"


@requirement("S0-RP-1", "S0-AC-4", "S0-EG-4")
async def test_nothing_found_calls_for_another_plan(tmp_path: Path) -> None:
    versions = [plan(A, B), plan(step("step_2", "C", "an empty page"))]
    scripts = {
        **WORKERS,
        "Planner": lambda _: versions.pop(0),
        "A": [say('{"jobs": [], "isEmpty": true}')],
        "Composer": [say("none yet")],
    }
    async with bench(tmp_path, config(), scripts) as service:
        ended = await service.run("Assistant")
        assert ended.result is not None
        assert ended.result.outcome == "completed"
        assert steps(service) == {"step_1": "completed", "step_2": "skipped", "step_2_v2": "completed"}
        assert "missing_data" in service.sql("select trigger from plans where version = 2")[0]["trigger"]


@requirement("S4-EX-1", "S4-EX-4")
async def test_what_depends_on_a_failure_is_blocked_and_the_rest_goes_on(tmp_path: Path) -> None:
    planned = plan(
        step("a", "A"), step("b", "B", dependsOn=["a"]), step("c", "C", dependsOn=["b"]), step("d", "C", "independent")
    )
    scripts = {**WORKERS, "Planner": [planned], "A": [BROKEN], "Composer": [say("done")]}
    async with bench(tmp_path, config("on_step_failure: continue"), scripts) as service:
        ended = await service.run("Assistant")
        assert ended.result is not None
        assert ended.result.outcome == "partial"
        assert steps(service) == {"a": "failed", "b": "blocked", "c": "blocked", "d": "completed"}
        blocked = service.sql("select error, started_at from executions where status = 'blocked' order by position")
        assert ["`a`" in blocked[0]["error"], "`b`" in blocked[1]["error"]] == [True, True]
        assert not any(row["started_at"] for row in blocked)
        assert not service.model.of("B")


async def test_steps_that_wait_for_nothing_run_together_where_that_is_allowed(tmp_path: Path) -> None:
    opened = anyio.Event()
    planned = plan(step("a", "A"), step("b", "B"), step("c", "C", dependsOn=["a", "b"]))
    scripts = {
        "Planner": [planned],
        "A": [gate(opened, say("alpha"))],
        "B": [gate(opened, say("beta"))],
        "C": [say("gamma")],
        "Composer": [say("done")],
    }
    async with bench(tmp_path, config("max_concurrent: 2"), scripts) as service:
        started = await service.dispatcher.start(Order("Assistant", "do it"))
        await service.until(lambda: list(steps(service).values()) == ["running", "running", "pending"])
        opened.set()
        ended = await service.ended(started.id)
        assert ended.status == "completed"
        assert all(word in service.model.of("C")[0].messages[0].text for word in ("alpha", "beta"))


@requirement("S0-PL-5", "S0-EG-1", "S4-PL-3")
async def test_a_plan_without_steps_is_an_answer_in_words_or_what_is_configured(tmp_path: Path) -> None:
    for policy, said in (("answer", "Hello!"), ("nothing", "There is nothing I can do"), ("direct", "alpha")):
        scripts = {"Planner": [plan()], "A": [say("alpha")], "Composer": [say("Hello!")]}
        folder = tmp_path / policy
        folder.mkdir()
        compose = "concat" if policy == "direct" else "always"
        settings = config(f"on_empty_plan: {policy}, compose: {compose}").replace("[A, B, C]", "[A]")
        async with bench(folder, settings, scripts) as service:
            ended = await service.run("Assistant", "hi")
            assert ended.result is not None
            assert ended.result.outcome == "completed"
            assert ended.result.text.startswith(said)
            assert len(steps(service)) == (1 if policy == "direct" else 0)


@requirement("S4-SU-1", "S0-CO-3", "S0-CO-4", "S0-PL-2")
async def test_an_answer_is_worded_joined_or_left_as_it_is(tmp_path: Path) -> None:
    links = {"A": [say("page at https://pages.example/1")], "B": [say("beta")]}
    page = {"id": "step_1", "agent": "A", "status": "completed", "output": "page at https://pages.example/1"}
    for setting, said in (
        ("compose: never", [page, {"id": "step_2", "agent": "B", "status": "completed", "output": "beta"}]),
        ("compose: concat", "page at https://pages.example/1\n\nbeta"),
        ("compose: always, channel: sms", "All done.\nhttps://pages.example/1"),
    ):
        folder = tmp_path / setting[9:12]
        folder.mkdir()
        scripts = {**links, "Planner": [plan(A, B, responseHint="be brief")], "Composer": [say("All done.")]}
        async with bench(folder, config(setting), scripts) as service:
            ended = await service.run("Assistant")
            assert ended.result is not None
            assert ended.result.output == said
            for request in service.model.of("Composer"):
                assert "be brief" in request.messages[0].text
                assert "text message" in request.messages[0].text


@requirement("S0-OQ-2")
async def test_the_result_of_an_equal_step_is_used_again_only_where_that_is_wanted(tmp_path: Path) -> None:
    for setting, calls in (("", 2), ("cache_ttl: 5m", 1)):
        folder = tmp_path / str(calls)
        folder.mkdir()
        scripts = {"Planner": [plan(A)], "A": [say("alpha")], "Composer": [say("done")]}
        async with bench(folder, config(setting), scripts) as service:
            for _ in range(2):
                await service.run("Assistant")
            assert len(service.model.of("A")) == calls
            await service.run("Assistant", principal="somebody else")
            assert len(service.model.of("A")) == calls + 1
            cached = service.sql("select payload from events where type = 'plan.cached'")
            assert len(cached) == 2 - calls
            assert [row["status"] for row in service.sql("select status from executions where role = 'step'")] == [
                "completed"
            ] * 3


@requirement("S0-C-5")
async def test_a_step_has_its_time_for_each_attempt(tmp_path: Path) -> None:
    scripts = {"Planner": [plan(A)], "A": lambda _: hang(), "Composer": [say("sorry")]}
    settings = config("step_timeout: 400ms, max_retries: 1, max_replans: 0")
    async with bench(tmp_path, settings, scripts) as service:
        ended = await service.run("Assistant")
        assert ended.result is not None
        assert ended.result.errors[0].type == "timeout"
        assert steps(service) == {"step_1": "timed_out"}
        assert len(service.model.cancelled) >= 2


async def test_the_agents_that_plan_and_word_can_be_ones_of_our_own(tmp_path: Path) -> None:
    settings = config("planner: Mine, composer: Yours") + "  Mine: {utilities: true}\n  Yours: {strategy: synthesis}\n"
    scripts = {**WORKERS, "Mine": [plan(A)], "Yours": [say("in my words")]}
    async with bench(tmp_path, settings, scripts) as service:
        ended = await service.run("Assistant")
        assert ended.result is not None
        assert ended.result.text == "in my words"
        assert "resolve_date" in [tool.name for tool in service.model.of("Mine")[0].tools]


async def test_a_step_is_shown_the_newest_results_only(tmp_path: Path) -> None:
    many = [step(f"s{number}", "A", f"part {number}") for number in range(1, 5)]
    scripts = {"Planner": [plan(*many)], "A": [say("part")], "Composer": [say("done")]}
    async with bench(tmp_path, config("previous_results: 2"), scripts) as service:
        await service.run("Assistant")
        last = service.model.of("A")[-1].messages[0].text
        assert [f'<step id="s{number}"' in last for number in (1, 2, 3)] == [False, True, True]


async def test_a_plan_at_the_greatest_depth_has_no_planner(tmp_path: Path) -> None:
    settings = config() + "  Lead: {sub_agents: [Assistant], limits: {max_depth: 1}}\n"
    scripts = {"Lead": [call("dispatch_agent", name="Assistant", task="go"), say("waiting"), say("done")]}
    async with bench(tmp_path, settings, scripts) as service:
        await service.run("Lead")
        rows = service.sql("select agent, depth, status, error from executions order by created_at")
        assert [(row["agent"], row["depth"], row["status"]) for row in rows] == [
            ("Lead", 0, "completed"),
            ("Assistant", 1, "failed"),
        ]
        assert "nested 1 deep at most" in rows[1]["error"]
