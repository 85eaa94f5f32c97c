"""Servers that an agent cannot work without: refused before a model is asked, or told as what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from runner.llm.protocol import Request
from runner.service.order import Order
from tests.runner.resume.resuming import after_a_stop
from tests.support.models import Turn, call, hang, say, shared
from tests.support.reading import dispatch, shown
from tests.support.requirement import requirement
from tests.support.servers import DEAD, sdk_server
from tests.support.service import bench
from tests.support.upstream_specs import ROOT

WHY = "cannot work without the server `dead`, which ended with exit code 1; it said: no licence"
HINT = "check `mcp_servers.dead`, or set `required: false` there to let its agents work without it"


def while_it_is_there(flag: Path, **more: object) -> str:
    """A server that cannot be started any more once a file is gone."""
    start = (
        f"import os, sys; os.path.exists({str(flag)!r}) or sys.exit('gone'); "
        "os.execv(sys.executable, [sys.executable, '-m', 'tests.support.upstream_server', 'plain'])"
    )
    return json.dumps({"command": [sys.executable, "-c", start], "cwd": str(ROOT), **more})


@requirement("S2-LE-8")
async def test_an_agent_without_its_only_server_fails_before_its_model_is_asked(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{dead: {DEAD}}}
    agents: {{Looker: {{description: looks, mcp_servers: [dead]}}}}
    """
    async with bench(tmp_path, config, {"Looker": [say("all is well")]}) as service:
        ended = await service.run("Looker")
        assert service.model.requests == []
    assert ended.result is not None
    (problem,) = ended.result.errors
    assert (ended.status, ended.result.reason, problem.type, problem.code) == (
        "failed",
        "tool_unavailable",
        "tool_unavailable",
        "TOOL_UNAVAILABLE",
    )
    assert (ended.error, problem.recommendation, problem.context["server"]) == (f"`Looker` {WHY}", HINT, "dead")
    assert ended.usage["cost_usd"] == 0
    records = service.sql("select type, severity, message from errors")
    assert records == [{"type": "tool_unavailable", "severity": "high", "message": f"`Looker` {WHY}"}]


async def test_what_is_required_is_said_per_server_and_else_follows_from_the_agent(tmp_path: Path) -> None:
    required, optional = DEAD[:-1] + ', "required": true}', DEAD[:-1] + ', "required": false}'
    config = f"""
    mcp_servers: {{alive: {sdk_server()}, dead: {DEAD}, needed: {required}, spare: {optional}}}
    agents:
      One: {{mcp_servers: [spare]}}
      Two: {{mcp_servers: [alive, dead]}}
      Three: {{mcp_servers: [alive, needed]}}
    """
    scripts = {name: [say("done")] for name in ("One", "Two", "Three")}
    async with bench(tmp_path, config, scripts) as service:
        ends = {name: await service.run(name) for name in scripts}
    assert {name: end.status for name, end in ends.items()} == {"One": "completed", "Two": "completed", "Three": "failed"}
    warned = {name: end.result.metadata.get("warnings") for name, end in ends.items() if end.result is not None}
    assert all(len(warned[name] or ()) == 1 for name in ("One", "Two"))
    assert "`Three` cannot work without the server `needed`" in (ends["Three"].error or "")


async def test_a_filter_that_leaves_no_tool_is_no_better_than_a_missing_server(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{alive: {sdk_server()}}}
    agents: {{Looker: {{mcp_servers: [alive], tools: {{allow: [alive.nothing]}}}}}}
    """
    async with bench(tmp_path, config, {"Looker": [say("all is well")]}) as service:
        ended = await service.run("Looker")
        assert service.model.requests == []
    assert (ended.status, ended.error) == (
        "failed",
        "`Looker` cannot work without the server `alive`, which offers no tool that it may use",
    )


async def test_a_caller_reads_why_an_agent_it_sent_could_not_begin(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{dead: {DEAD}}}
    agents: {{Lead: {{sub_agents: [Child]}}, Child: {{description: needs it, mcp_servers: [dead]}}}}
    """
    scripts = {"Lead": [dispatch("Child"), say("waiting"), say("it cannot be looked up")], "Child": [say("fine")]}
    async with bench(tmp_path, config, scripts) as service:
        ended = await service.run("Lead")
        assert service.model.of("Child") == []
        told = shown(service.model.of("Lead")[-1])
    assert ended.status == "completed"
    assert 'state="failed"' in told
    assert f"`Child` {WHY}" in told


async def test_a_chain_whose_stage_lacks_its_server_ends_there_and_says_why(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{dead: {DEAD}}}
    agents: {{Looker: {{mcp_servers: [dead]}}, Writer: {{}}}}
    agent_chains: {{report: {{stages: [{{name: look, agents: [Looker]}}, {{name: write, agents: [Writer]}}]}}}}
    """
    async with bench(tmp_path, config, {"Looker": [say("fine")], "Writer": [say("fine")]}) as service:
        ended = await service.run("report")
        assert service.model.requests == []
    assert ended.status == "failed"
    assert f"stage `look` failed: Looker failed: `Looker` {WHY}" in (ended.error or "")


async def test_an_answer_after_a_server_went_away_is_partial_until_it_is_back(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    config = f"""
    mcp_servers: {{frail: {while_it_is_there(flag)}}}
    agents: {{Looker: {{mcp_servers: [frail]}}}}
    """
    die, look = call("frail__die"), call("frail__echo", value="x")

    def die_for_good(_: Request) -> Turn:
        flag.unlink()
        return die

    flag.touch()
    async with bench(tmp_path, config, {"Looker": [die, look, say("seen")]}) as service:
        back = await service.run("Looker")
        service.model.scripts["Looker"] = [look, die_for_good, look, say("half of it")]
        away = await service.run("Looker")
    assert back.result is not None
    assert (back.status, back.result.outcome) == ("completed", "completed")
    assert away.result is not None
    assert (away.status, away.result.outcome, away.result.reason) == ("completed", "partial", "tool_unavailable")
    assert away.result.text == "half of it"
    assert "could not be reached for the last call of its tools" in away.result.errors[0].message


async def test_work_that_has_begun_goes_on_elsewhere_without_its_server_and_is_partial(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    config = f"""
    mcp_servers: {{frail: {while_it_is_there(flag)}}}
    agents: {{Looker: {{mcp_servers: [frail]}}}}
    """
    flag.touch()
    look = call("frail__echo", value="x")
    async with bench(tmp_path, config, {"Looker": [look, hang()]}) as service:
        started = await service.dispatcher.start(Order("Looker", "look"))
        await service.model.started("Looker", 2)
    flag.unlink()
    async with after_a_stop(tmp_path, {"Looker": [say("half of it")]}, config=config) as service:
        ended = await service.ended(started.id)
    assert ended.result is not None
    assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "tool_unavailable")
    assert "`frail`, which ended with exit code 1; it said: gone" in ended.result.errors[0].message


COMPOSED = """
mcp_servers: {frail: %s}
agents:
  Looker: {description: looks, mcp_servers: [frail]}
  Writer: {}
  Planned: {strategy: plan, sub_agents: [Looker]}
  Iterated: {strategy: iterate, iterate: {worker: Looker}}
agent_chains: {Chained: {stages: [{name: look, agents: [Looker]}, {name: write, agents: [Writer]}]}}
"""


@pytest.mark.parametrize("name", ["Chained", "Planned", "Iterated"])
async def test_what_rests_on_an_answer_that_lacks_a_server_lacks_it_too(name: str, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()

    def die_for_good(_: Request) -> Turn:
        flag.unlink()
        return call("frail__die")

    decisions = [say(json.dumps({"nextTask": "look"})), say(json.dumps({"finished": True}))]
    steps = say(json.dumps({"analysis": "", "steps": [{"id": "step_1", "agent": "Looker", "task": "look"}]}))
    half = say(json.dumps({"success": True, "result": "half of it"})) if name == "Iterated" else say("half of it")
    scripts = {"Looker": [die_for_good, half], "Writer": [say("all of it")], "*": [say("all of it")]}
    scripts["Planner" if name == "Planned" else "TaskPlanner"] = shared(*([steps] if name == "Planned" else decisions))
    async with bench(tmp_path, COMPOSED % while_it_is_there(flag), scripts) as service:
        ended = await service.run(name)
    assert ended.result is not None
    assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "tool_unavailable")
    assert "`Looker` cannot work without the server `frail`" in ended.result.errors[0].message
