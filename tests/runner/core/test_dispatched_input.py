"""An agent that takes input by name can be dispatched with it: by another agent, and by an MCP client."""

from __future__ import annotations

from pathlib import Path

from runner.service.order import Order
from tests.runner.resume.resuming import after_a_stop
from tests.runner.strategies.iterate.iterated import done, finished, first, task
from tests.support.models import Script, Turn, call, hang, say, shared
from tests.support.service import bench

CONFIG = """
agents:
  Lead: {sub_agents: [Researcher]}
  Alone: {sub_agents: [Plain]}
  Plain: {description: takes a task}
  Researcher:
    description: researches
    strategy: iterate
    input_schema:
      {type: object, required: [topic], properties: {topic: {type: string}, depth: {type: string, default: basic}}}
    iterate: {objective: "Research {{ topic }} ({{ depth }})"}
"""
WORKERS: dict[str, Script] = {
    "TaskPlanner": shared(task("read"), finished()),
    "TaskWorker": [done("read it")],
    "Completer": [say("all about tides")],
}


def send(**more: object) -> Turn:
    return call("dispatch_agent", name="Researcher", task="be brief", **more)


async def test_who_dispatches_gives_what_an_agent_takes_and_is_told_what_is_missing(tmp_path: Path) -> None:
    lead = [send(), send(input={"topic": 7}), send(input={"topic": "tides"}), say("waiting"), say("told")]
    async with bench(tmp_path, CONFIG, {"Lead": lead, **WORKERS}) as service:
        end = await service.run("Lead", "find out about tides")
        assert end.status == "completed"
        asked = service.model.of("Lead")
        assert "Input: `topic` (required), `depth`" in asked[0].system
        tool = next(tool for tool in asked[0].tools if tool.name == "dispatch_agent")
        assert "input" in tool.input_schema["properties"]
        assert "'topic' is a required property" in asked[1].messages[-1].encoded.decode()
        assert "7 is not of type 'string'" in asked[2].messages[-1].encoded.decode()
        assert "Research tides (basic)\n\nbe brief" in first(service.model.of("TaskPlanner")[0])
        [row] = service.sql("select input from executions where agent = 'Researcher'")
        assert row["input"] == '{"topic":"tides","depth":"basic"}'


async def test_a_parent_whose_agents_take_no_input_is_not_shown_the_argument(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Alone": [say("nothing to do")]}) as service:
        await service.run("Alone", "rest")
        tool = next(tool for tool in service.model.of("Alone")[0].tools if tool.name == "dispatch_agent")
        assert "input" not in tool.input_schema["properties"]


async def test_after_a_stop_a_dispatched_agent_has_the_input_it_was_given(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"Lead": [send(input={"topic": "tides"}), hang()], "TaskPlanner": lambda _: hang()}
    async with bench(tmp_path, CONFIG, scripts) as before:
        started = await before.dispatcher.start(Order("Lead", "find out"))
        await before.model.started("TaskPlanner")
    async with after_a_stop(tmp_path, {"Lead": lambda _: say("told"), **WORKERS}, config=CONFIG) as after:
        await after.ended(started.id)
        assert "Research tides (basic)" in first(after.model.of("TaskWorker")[0])
