"""What the settings of a plan do: caps, concurrency, failure, the empty plan, wording, reuse."""

from __future__ import annotations

from pathlib import Path

import anyio

from runner.dispatcher import Order
from tests.runner.planned import A, B, config, plan, roles, step, steps
from tests.support.models import call, fail, gate, hang, say
from tests.support.requirement import requirement
from tests.support.service import bench

WORKERS = {"A": [say("alpha")], "B": [say("beta")], "C": [say("gamma")]}
BROKEN = fail("invalid", "no", recoverable=False)


@requirement("S0-C-3")
async def test_a_plan_has_no_more_steps_than_it_may(tmp_path: Path) -> None:
    many = [step(f"step_{number}", "A", f"part {number}") for number in range(1, 15)]
    scripts = {"Planner": [plan(*many)], "A": [say("part")], "Composer": [say("done")]}
    for setting, most in (("", 10), ("max_steps: 3", 3)):
        folder = tmp_path / str(most)
        folder.mkdir()
        async with bench(folder, config(setting), scripts) as service:
            await service.run("Assistant")
            assert len(steps(service)) == most
            [cut] = service.sql("select payload from events where type = 'plan.truncated'")
            assert f'"cut":{14 - most}' in cut["payload"]


@requirement("S0-C-2", "S0-EX-3", "S0-RP-6")
async def test_a_plan_is_revised_only_so_often(tmp_path: Path) -> None:
    versions = [plan(step("s", "A", f"try {number}"), B) for number in range(9)]
    asks = say('{"needsReplan": true, "found": "something else"}')
    scripts = {"Planner": lambda _: versions.pop(0), "A": [asks], "B": [say("beta")], "Composer": [say("done")]}
    async with bench(tmp_path, config("max_replans: 2"), scripts) as service:
        ended = await service.run("Assistant")
        assert ended.result is not None
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


async def test_a_plan_as_deep_as_may_be_has_nobody_to_plan_for_it(tmp_path: Path) -> None:
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
