"""Errors worth a look: what is kept of them, how they are counted, and what comes up from below."""

import json
from pathlib import Path

import pytest

from db.rows import error_records
from db.rows.error_records import FIELDS, Fix, FixStatus, NewError
from runner.result import Result
from runner.strategies.route.commands.report import processed
from server.cli.errors import FIXES
from tests.db.store import open_store
from tests.support.models import crash, fail, hang, say
from tests.support.reading import dispatch
from tests.support.requirement import requirement
from tests.support.service import bench


@requirement("S1-HF-3", "S1-HF-4", "S1-HF-5")
async def test_an_error_is_kept_with_all_its_fields_and_counted_when_it_comes_again(tmp_path: Path) -> None:
    async with open_store(tmp_path / "outrider.db") as store:
        reads = store.database.reads.error_records
        assert await reads.last_updated() is None
        place, again = await store.running(), await store.running()
        slow = "too slow: {} in sess_{}_abc123".format
        down = NewError(place.id, "timeout", "medium", slow(place.id, 1), {"agent": "A", "code": "TIMEOUT"})
        await store.apply(error_records.record(down))
        [first] = await reads.listed()
        assert set(FIELDS) <= set(first)
        assert len(FIELDS) == 14
        assert (first["severity"], first["fix_status"], first["recurrence_count"]) == ("medium", "not_addressed", 1)
        assert first["timestamp"] == first["first_seen"] == first["last_seen"] == await reads.last_updated()
        empty = ("stack_trace", "fix_plan_ref", "fix_task_ref")
        assert ([first[name] for name in empty], json.loads(first["related_errors"])) == ([None] * 3, [])

        await store.apply(error_records.record(NewError(again.id, "timeout", "medium", slow(again.id, 2), {"agent": "A"})))
        [second] = await reads.listed()
        assert (second["id"], second["recurrence_count"], second["first_seen"]) == (first["id"], 2, first["first_seen"])
        assert second["last_seen"] == await reads.last_updated() > first["last_seen"]

        await store.apply(error_records.record(NewError(again.id, "failed", "high", "broke", {"agent": "A"})))
        newest, older = await reads.listed()
        assert json.loads(newest["related_errors"]) == [older["id"]]  # both arose in one tree
        assert [row["id"] for row in await reads.listed("failed")] == [newest["id"]]


def test_the_command_line_knows_how_far_an_error_can_be() -> None:
    assert tuple(FixStatus) == FIXES


async def test_an_error_that_was_fixed_and_comes_again_is_open_again(tmp_path: Path) -> None:
    async with open_store(tmp_path / "outrider.db") as store:
        reads, place = store.database.reads.error_records, await store.running()
        broke = error_records.record(NewError(place.id, "failed", "high", "broke", {"agent": "A"}))
        await store.apply(broke)
        [row] = await reads.listed()
        assert (await store.apply(error_records.fix(Fix(row["id"], FixStatus.PLANNED, plan="specs/7.md")))).held
        assert (await store.apply(error_records.fix(Fix(row["id"], FixStatus.FIXED, task="196")))).held
        [fixed] = await reads.listed()
        assert (fixed["fix_status"], fixed["fix_plan_ref"], fixed["fix_task_ref"]) == ("fixed", "specs/7.md", "196")
        assert await reads.listed(only_open=True) == []
        assert not (await store.apply(error_records.fix(Fix("nobody", FixStatus.FIXED)))).held

        await store.apply(broke)
        [again] = await reads.listed(only_open=True)
        assert (again["fix_status"], again["recurrence_count"]) == ("not_addressed", 2)


LINE = """
agents:
  Lead: {description: leads, sub_agents: [Left]}
  Left: {description: left}
agent_chains:
  line: {stages: [{name: only, agents: [Left]}]}
"""


@requirement("S1-RF-2", "S1-DG-1")
@pytest.mark.parametrize(("recoverable", "said"), [(True, "try again"), (False, "manual intervention")])
async def test_an_error_comes_up_with_its_session_and_tells_how_to_recover(
    tmp_path: Path, recoverable: bool, said: str
) -> None:
    async with bench(tmp_path, LINE, {"Left": [fail(recoverable=recoverable)]}) as service:
        ended = await service.run("line")
        [below] = service.sql("select result, session_id from executions where agent = 'Left'")

    assert ended.result is not None
    assert ended.status == "failed"
    session = ended.result.metadata["session_id"]
    left = Result.of_json(below["result"]).errors[0]
    assert (left.type, left.recoverable, bool(left.message)) == ("model", recoverable, True)
    for problem in (left, ended.result.errors[0]):
        assert problem.context["session_id"] == session == below["session_id"]
        assert problem.code
    assert said in processed(ended.result)["recovery"][0].lower()


@requirement("S1-RF-3")
async def test_an_unforeseen_error_has_a_code_and_a_trace_without_its_message(tmp_path: Path) -> None:
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [crash(RuntimeError("CANARY"))]}
    async with bench(tmp_path, LINE, scripts) as service:
        await service.run("Lead")
        [row] = service.sql("select result from executions where agent = 'Left'")
        [record] = service.sql("select type, severity, stack_trace, message, context from errors")

    assert json.loads(row["result"])["errors"][0]["code"] == "UNKNOWN_ERROR"
    assert (record["type"], record["severity"]) == ("internal", "critical")
    assert "runner/" in record["stack_trace"]
    assert "CANARY" not in str(record)


@requirement("S1-T8")
async def test_an_agent_whose_server_is_down_goes_on_and_the_error_is_kept(tmp_path: Path) -> None:
    config = """
    mcp_servers: {lean: {command: [no-such-program], required: false}}
    agents: {Prover: {description: proves, mcp_servers: [lean]}}
    """
    async with bench(tmp_path, config, {"Prover": [say("proved by hand")]}) as service:
        ended = await service.run("Prover")
        records = service.sql("select type, message, context from errors")

    assert ended.result is not None
    assert (ended.status, ended.result.text) == ("completed", "proved by hand")
    assert any("`lean`" in warning for warning in ended.result.metadata["warnings"])
    assert [record["type"] for record in records] == ["tool_unavailable"]
    assert json.loads(records[0]["context"])["code"] == "TOOL_UNAVAILABLE"
    assert "`lean`" in records[0]["message"]


async def test_a_function_lists_the_open_errors(tmp_path: Path) -> None:
    config = """
    agents:
      Log: {function: "outrider:open_errors"}
      Crasher: {}
      Slow: {timeout: 100ms}
    """
    scripts = {"Crasher": [crash(RuntimeError("down"))], "Slow": [hang(), hang()]}
    async with bench(tmp_path, config, scripts) as service:
        nothing = await service.run("Log")
        for agent in ("Crasher", "Slow"):
            await service.run(agent)
        every = await service.run("Log")
        late = await service.run("Log", input={"type": "timeout"})

    told = [each.result.output for each in (nothing, every, late) if each.result is not None]
    assert [each["summary"] for each in told] == ["0 open errors", "2 open errors", "1 open error"]
    assert [each["type"] for each in told[1]["errors"]] == ["timeout", "internal"]  # the newest first
    assert told[2]["errors"][0]["context"]["agent"] == "Slow"


async def test_a_parent_that_times_out_after_its_child_is_an_error_of_its_own(tmp_path: Path) -> None:
    config = """
    agents:
      Lead: {sub_agents: [Left], timeout: 600ms}
      Left: {description: looks, timeout: 200ms}
    """
    scripts = {"Lead": [dispatch("Left"), say("waiting"), hang(), hang()], "Left": [hang(), hang()]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")

    kept = service.sql("select type, json_extract(context, '$.agent') as agent from errors order by first_seen")
    assert [tuple(each.values()) for each in kept] == [("timeout", "Left"), ("timeout", "Lead")]
