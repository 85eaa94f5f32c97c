"""What nests in what besides: an iteration in an iteration or a chain or behind a command, a route with commands in a plan,
a function that carries out tasks.
"""

from __future__ import annotations

import re
from pathlib import Path

from runner.llm.protocol import Request
from tests.properties.verdicts import violations
from tests.runner.strategies.iterate.iterated import config, done, finished, first, task, tasks
from tests.runner.strategies.plan.planned import plan, step
from tests.runner.strategies.route.commanded import crew, item
from tests.support.models import Script, Turn, say, shared
from tests.support.reading import dispatch
from tests.support.service import Bench, bench


def paths(service: Bench) -> list[str]:
    """Who worked where, in order of birth."""
    return [row["path"] for row in service.sql("select path from executions order by id")]


async def test_an_iteration_whose_worker_iterates_tells_it_what_it_is_for(tmp_path: Path) -> None:
    def planning(request: Request) -> Turn:
        told = first(request)
        if told.startswith("<objective>\ndescribe the house"):
            return finished() if "a door" in told else task("find the entrance")
        return finished() if "result: a door" in told else task("look at the front")

    scripts: dict[str, Script] = {
        "TaskPlanner": planning,
        "TaskWorker": lambda _: done("a door"),
        "Completer": lambda request: say("the entrance is a door" if "the entrance" in first(request) else "?"),
    }
    more = "  Team: {strategy: iterate, iterate: {}}\n"
    async with bench(tmp_path, config("worker: Team", more=more), scripts) as service:
        end = await service.run("Reporter", "describe the house")
        assert end.result is not None
        assert (end.result.text, end.result.outcome) == ("the entrance is a door", "completed")
        inner = first(service.model.of("TaskPlanner")[1])
        assert inner.startswith("<objective>\nfind the entrance\n</objective>")
        assert "<background>\n<objective>\ndescribe the house\n</objective>" in inner
        assert paths(service)[2:6] == [
            "Reporter/Team",
            "Reporter/Team/TaskPlanner",
            "Reporter/Team/TaskWorker",
            "Reporter/Team/TaskPlanner",
        ]
        assert violations(service) == []


async def test_a_stage_of_a_chain_may_iterate_and_sees_the_stages_before_it(tmp_path: Path) -> None:
    chain = """
agents:
  Look: {description: looks}
  Report: {strategy: iterate, description: reports}
  Help: {description: helps}
agent_chains:
  both: {sub_agents: [Help], stages: [{name: one, agents: [Look]}, {name: two, agents: [Report]}]}
"""
    scripts: dict[str, Script] = {
        "Look": [say("a red lamp")],
        "TaskPlanner": lambda request: finished() if "status: completed" in first(request) else task("say what it means"),
        "TaskWorker": [dispatch("Help", "what is red?"), say("I wait"), done("danger")],
        "Help": [say("red is danger")],
        "Completer": lambda request: say("danger" if "a red lamp" in first(request) else "?"),
    }
    async with bench(tmp_path, chain, scripts) as service:
        end = await service.run("both", "is it safe?", input={"place": "the mill"})
        assert end.result is not None
        assert (end.status, end.result.outcome, end.result.text) == ("completed", "completed", "danger")
        for agent in ("TaskPlanner", "TaskWorker"):
            told = first(service.model.of(agent)[0])
            assert '<stage name="one">\na red lamp\n</stage>' in told
            assert '"place": "the mill"' in told
        assert "name: Help" in first(service.model.of("TaskPlanner")[0])
        assert "both/Report/TaskWorker/Help" in paths(service)
        assert violations(service) == []


async def test_an_agent_of_a_command_may_iterate_and_knows_the_work_item(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {
        "TaskPlanner": lambda request: finished() if "status: completed" in first(request) else task("read"),
        "TaskWorker": [done("it is a filter")],
        "Completer": [say("researched")],
    }
    text = crew(tmp_path).replace("  researcher: {}", "  researcher: {strategy: iterate}")
    async with bench(tmp_path, text, scripts) as service:
        end = await service.run("orchestrator", "/research 193 for beginners")
        assert end.result is not None
        assert (end.status, "researched" in end.result.text) == ("completed", True)
        told = first(service.model.of("TaskPlanner")[0])
        assert "Task Input: 193 for beginners" in told
        assert '"title": "Tidy up"' in told
        assert item(service, 193)["status"] == "researched"
        assert violations(service) == []


async def test_a_step_of_a_plan_may_be_a_route_that_is_given_a_command(tmp_path: Path) -> None:
    desk = """
agents:
  Assistant: {strategy: plan, sub_agents: [Desk], plan: {compose: never, on_step_failure: continue}}
  Desk:
    strategy: route
    description: takes commands
    sub_agents: []
    route: {commands: {task: {arguments: [{name: title}], agents: [Numberer]}}}
  Numberer: {function: "outrider:add_item"}
"""
    wanted = plan(step("step_1", "Desk", "/task Paint the door"), step("step_2", "Desk", "/paint 7", maxRetries=0))
    async with bench(tmp_path, desk, {"Planner": [wanted]}) as service:
        end = await service.run("Assistant", "add it")
        assert end.result is not None
        assert end.result.outcome == "partial"
        assert item(service, 1)["title"] == "Paint the door"
        assert sorted(paths(service)[2:]) == ["Assistant/Desk", "Assistant/Desk", "Assistant/Desk/Numberer"]
        [wrong] = service.sql("select error_type, error from executions where step_id = 'step_2'")
        assert (wrong["error_type"], "there is no command `/paint`" in wrong["error"]) == ("unknown_command", True)
        assert violations(service) == []


async def test_a_function_may_carry_out_the_tasks(tmp_path: Path) -> None:
    more = "  Caller: {function: 'tests.runner.functions.sample_functions:shout'}\n"
    scripts: dict[str, Script] = {
        "TaskPlanner": shared(task("a"), tasks("b", "c", parallel=True), finished()),
        "Completer": lambda request: say(", ".join(re.findall(r"result: (\w)", first(request)))),
    }
    async with bench(tmp_path, config("worker: Caller", more=more), scripts) as service:
        end = await service.run("Reporter", "shout")
        assert end.result is not None
        assert end.result.text == "A, B, C"
        assert violations(service) == []


async def test_a_worker_named_as_an_orchestrator_has_its_own_agents(tmp_path: Path) -> None:
    more = "  Boss: {type: orchestrator}\n  Hand: {description: does it}\n"
    scripts: dict[str, Script] = {
        "TaskPlanner": lambda request: finished() if "status: completed" in first(request) else task("do it"),
        "Boss": [dispatch("Hand", "do it"), say("I wait"), say("done")],
        "Hand": [say("did it")],
        "Completer": [say("all of it")],
    }
    async with bench(tmp_path, config("worker: Boss", more=more), scripts) as service:
        end = await service.run("Reporter", "have it done")
        assert end.result is not None
        assert (end.result.outcome, end.result.text) == ("completed", "all of it")
        assert "name: Hand" in first(service.model.of("TaskPlanner")[0])
        assert "Reporter/Boss/Hand" in paths(service)


async def test_an_iteration_too_deep_for_a_child_fails_and_its_caller_goes_on(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"Lead": [dispatch("Reporter", "report"), say("nobody reported")]}
    more = "  Lead: {sub_agents: [Reporter]}\ndefaults: {limits: {max_depth: 1}}\n"
    async with bench(tmp_path, config(more=more), scripts) as service:
        end = await service.run("Lead", "have it reported")
        assert end.result is not None
        assert end.result.text == "nobody reported"
        [row] = service.sql("select status, error_type from executions where agent = 'Reporter'")
        assert (row["status"], row["error_type"]) == ("failed", "max_depth_exceeded")
