"""What a definition demands of an answer: a shape, and that something was done. Pointed out once, then it has failed."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.service.order import Order
from tests.runner.resume.resuming import after_a_stop
from tests.support.local_tools import LocalTools
from tests.support.models import Script, Turn, call, hang, say
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CONFIG = """
models: {m: {model: unpriced}}
agents:
  Shaped:
    output_schema:
      type: object
      properties: {jobs: {type: array, items: {type: string}}, note: {enum: [good, null]}}
      required: [jobs]
  Merger: {strategy: synthesis, output_schema: {type: object, required: [jobs], properties: {jobs: {type: array}}}}
  Worded: {output_schema: {type: string}}
  Actor: {require_tool_call: true, max_tokens: 300}
  Leaf: {require_tool_call: true, output_schema: {type: object, required: [jobs]}}
  Honest: {output_schema: {type: object, required: [success], properties: {success: {type: boolean}, error: {}}}}
  Hasty: {max_iterations: 1, require_tool_call: true, output_schema: {type: object, required: [jobs]}}
"""

JOBS = {"jobs": ["write"]}
PLAIN = '{"jobs": ["write"]}'


async def _act(_: object) -> str:
    return "acted"


def tools(*agents: str) -> Any:
    return LocalTools({"act": _act}).for_agents(*agents)


def kinds(service: Bench, execution: str) -> list[str]:
    rows = service.sql("select kind from messages where execution_id = ? order by position", execution)
    return [row["kind"] for row in rows]


def finish(status: str = "completed", **more: Any) -> Turn:
    return call("finish", **{"status": status, "summary": "in short", **more})


@requirement("S0-RG-3")
async def test_an_answer_that_fits_is_kept_as_the_value_it_spells(tmp_path: Path) -> None:
    fenced = f"Here it is, as you asked:\n\n```json\n{PLAIN}\n```\nThat is all."
    async with bench(tmp_path, CONFIG, {}) as service:
        for said in (say(PLAIN), say(fenced), finish(output=JOBS), finish(output=PLAIN), finish("partial", output=JOBS)):
            service.model.scripts["Shaped"] = [said]
            ended = await service.run("Shaped")
            assert ended.result is not None
            assert (ended.status, ended.result.output) == ("completed", JOBS)
            assert ended.result.summary in ('{"jobs":["write"]}', "in short")
            assert "warnings" not in ended.result.metadata
        service.model.scripts["Worded"] = [say("just words")]
        worded = await service.run("Worded")
        assert worded.result is not None
        assert worded.result.output == "just words"

        system = service.model.of("Shaped")[0].system
        block = system[system.index("<output_schema>") : system.index("</output_schema>")]
        assert '"jobs":{"type":"array","items":{"type":"string"}}' in block
        assert system.count("output_schema>") == 2


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        ({"success": True}, "completed", None),
        ({"success": False, "error": {"message": "no file"}}, "failed", "no file"),
        ({"success": False, "error": "no file"}, "failed", "no file"),
        ({"success": False}, "failed", "it reported a failure"),
    ],
)
async def test_who_has_to_say_whether_it_succeeded_is_believed(
    tmp_path: Path, answer: dict[str, Any], status: str, message: str | None
) -> None:
    async with bench(tmp_path, CONFIG, {"Honest": [say(json.dumps(answer))]}) as service:
        ended = await service.run("Honest")
        assert ended.result is not None
        assert (ended.status, ended.result.output) == (status, answer)
        assert [problem.message for problem in ended.result.errors] == ([message] if message else [])


@requirement("S0-RG-3")
@pytest.mark.parametrize("agent", ["Shaped", "Merger"])
async def test_what_does_not_fit_is_pointed_out_once_by_its_path_then_the_agent_has_failed(
    tmp_path: Path, agent: str
) -> None:
    async with bench(tmp_path, CONFIG, {agent: [say('{"jobs": 5}'), say(PLAIN)]}) as service:
        mended = await service.run(agent)
        assert mended.result is not None
        assert (mended.status, mended.result.outcome, mended.result.output) == ("completed", "completed", JOBS)
        assert kinds(service, mended.id) == ["task", "reply", "correction", "reply"]
        assert "`$.jobs`: 5 is not of type 'array'" in service.model.requests[-1].messages[-1].text
        [event] = service.sql("select payload from events where type = 'answer.unmet'")
        assert "asked again" in event["payload"]

        service.model.scripts[agent] = [say('{"jobs": 5}'), say("there are no jobs")]
        failed = await service.run(agent)
        assert failed.result is not None
        assert (failed.status, failed.result.outcome, failed.result.text) == ("failed", "failed", "there are no jobs")
        [problem] = failed.result.errors
        assert (problem.type, problem.recoverable) == ("validation", False)
        assert "`$`: it is not JSON" in problem.message
        assert kinds(service, failed.id) == ["task", "reply", "correction", "reply"]
        [row] = service.sql("select error_type, outcome from executions where id = ?", failed.id)
        assert row == {"error_type": "validation", "outcome": "failed"}


async def test_a_report_whose_output_does_not_fit_is_given_again_and_one_of_a_failure_needs_none(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"Shaped": [finish(), finish(output={"jobs": []})]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Shaped")
        assert ended.result is not None
        assert (ended.result.output, ended.result.summary) == ({"jobs": []}, "in short")
        assert kinds(service, ended.id) == ["task", "reply", "correction", "reply"]

        service.model.scripts["Shaped"] = [finish("failed", output="the calendar is down")]
        failed = await service.run("Shaped")
        assert failed.result is not None
        assert (failed.status, failed.result.output, failed.result.errors[0].type) == (
            "failed", "the calendar is down", "failed",
        )  # fmt: skip


@requirement("S0-RG-3")
@pytest.mark.parametrize(
    ("agent", "before", "after", "status"),
    [
        ("Leaf", [call("act"), say("no JSON")], say("still none"), "failed"),
        ("Leaf", [call("act") + finish()], say(PLAIN), "completed"),
        ("Merger", [say("no JSON")], say("still none"), "failed"),
        ("Merger", [say("no JSON")], say(PLAIN), "completed"),
    ],
)
async def test_what_was_pointed_out_before_a_stop_is_not_pointed_out_again(
    tmp_path: Path, agent: str, before: list[Turn], after: Turn, status: str
) -> None:
    async with bench(tmp_path, CONFIG, {agent: [*before, hang()]}, tools("Leaf")) as service:
        started = await service.dispatcher.start(Order(agent))
        with anyio.fail_after(10):
            await service.model.started(agent, len(before) + 1)

    async with after_a_stop(tmp_path, {agent: [after]}, LocalTools({"act": _act}), CONFIG) as service:
        ended = await service.ended(started.id)

        assert ended.status == status
        assert kinds(service, started.id).count("correction") == 1
        assert len(service.model.requests) == 1


async def test_a_conclusion_that_does_not_fit_is_kept_as_it_is_with_a_warning(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"Hasty": [call("act"), say("two jobs, I think")]}
    async with bench(tmp_path, CONFIG, scripts, tools("Hasty")) as service:
        ended = await service.run("Hasty")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "max_iterations")
        assert ended.result.output == "two jobs, I think"
        [warning] = ended.result.metadata["warnings"]
        assert "does not fit its `output_schema`" in warning
        assert service.model.requests[-1].messages[-1].text.endswith("as JSON that fits the schema.")

        service.model.scripts["Hasty"] = [call("act"), say(PLAIN)]
        fitting = await service.run("Hasty")
        assert fitting.result is not None
        assert (fitting.result.outcome, fitting.result.output) == ("partial", JOBS)
        assert "warnings" not in fitting.result.metadata

        service.model.scripts["Hasty"] = [say("at the last turn")]
        late = await service.run("Hasty", budget_usd=1.0)
        assert late.result is not None
        assert (late.result.outcome, late.result.reason, late.result.output) == (
            "partial", "max_iterations", "at the last turn",
        )  # fmt: skip
        assert len(late.result.metadata["warnings"]) == 3  # beside both demands: nobody can count the budget


@requirement("S4-EX-8")
async def test_an_agent_that_has_to_act_is_reminded_once_then_it_has_failed(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Actor": [say("booked"), say("booked, believe me")]}, tools("Actor")) as service:
        ended = await service.run("Actor")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.text) == ("failed", "failed", "booked, believe me")
        assert (ended.result.errors[0].type, ended.result.errors[0].recoverable) == ("no_tool_call", True)
        assert kinds(service, ended.id) == ["task", "reply", "reminder", "reply"]
        assert "called any of your tools" in service.model.requests[-1].messages[-1].text
        assert "an answer counts only once you have called one" in service.model.requests[0].system

        service.model.scripts["Actor"] = [say("booked"), call("act"), say("booked now")]
        acted = await service.run("Actor")
        assert acted.result is not None
        assert (acted.status, acted.result.text) == ("completed", "booked now")

        for status, said in (("blocked", "completed"), ("partial", "completed"), ("failed", "failed")):
            service.model.scripts["Actor"] = [finish(status)]
            reported = await service.run("Actor")
            assert reported.result is not None
            assert (reported.status, reported.result.outcome) == (said, status)
            assert [each.recoverable for each in reported.result.errors] == [status == "failed"] * (status != "partial")
        assert {request.max_tokens for request in service.model.requests} == {300}  # whichever model answers

        service.model.scripts["Actor"] = [finish(), finish()]
        assert (await service.run("Actor")).status == "failed"
        service.model.scripts["Actor"] = [call("no_such_tool"), say("booked"), call("no_such_tool"), say("booked, really")]
        made_up = await service.run("Actor")
        assert (made_up.status, made_up.usage["tool_calls"]) == ("failed", 0)  # a tool that is not there does nothing

        service.model.scripts["Actor"] = [say("that too"), say("as before")]
        with anyio.fail_after(10):
            further = await service.dispatcher.wait((await service.dispatcher.resume(acted.id, "and cancel it")).id)
        assert further.status == "failed"  # what was done for another task is not done for this one


async def test_each_demand_is_pointed_out_by_itself(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"Leaf": [say("done"), call("act"), say("done"), say(PLAIN)]}
    async with bench(tmp_path, CONFIG, scripts, tools("Leaf")) as service:
        ended = await service.run("Leaf")

        assert ended.result is not None
        assert (ended.status, ended.result.output) == ("completed", JOBS)
        assert kinds(service, ended.id) == ["task", "reply", "reminder", "reply", "reply", "correction", "reply"]
