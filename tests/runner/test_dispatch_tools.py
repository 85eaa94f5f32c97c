"""The dispatch tools as a model sees them: names, schemas, answers and error texts."""

from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

from runner.dispatcher import Order
from runner.tools import dispatch as dispatch_module
from runner.transcript import Tool
from tests.support.models import call, gate, malformed_call, say
from tests.support.reading import answer, dispatch, dispatched, results
from tests.support.requirement import requirement
from tests.support.service import bench
from tests.support.sources import PACKAGES, python_files, text_of

CONFIG = """
agents:
  Lead: {sub_agents: [Log-Analyzer, Right]}
  Log-Analyzer: {description: reads logs}
  Right: {description: looks right}
"""


@pytest.fixture
async def tools(tmp_path: Path) -> dict[str, Tool]:
    """The tools of an orchestrator without servers."""
    async with bench(tmp_path, CONFIG, {"Lead": [say("nothing to do")]}) as service:
        await service.run("Lead")
        return {tool.name: tool for tool in service.model.requests[0].tools}


@requirement("S2-TL-1", "S2-CX-2")
async def test_the_dispatch_tools_have_these_names_and_each_is_spelt_in_one_place(tools: dict[str, Tool]) -> None:
    assert list(tools)[:5] == ["dispatch_agent", "get_result", "wait_for", "cancel_agent", "list_agents"]
    quoted = [f'"{name}"' for name in dispatch_module.NAMES]
    texts = [text_of(file) or "" for package in PACKAGES for file in python_files(package)]
    assert [sum(text.count(name) for text in texts) for name in quoted] == [1] * 5


@requirement("S2-TL-2", "S2-TL-3", "S2-TL-4", "S2-TL-5")
async def test_their_schemas_say_what_is_required_and_allowed(tools: dict[str, Tool]) -> None:
    schemas = {name: dict(tool.input_schema) for name, tool in tools.items()}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["additionalProperties"] is False

    assert schemas["dispatch_agent"]["required"] == ["name", "task"]
    assert {schemas["dispatch_agent"]["properties"][name]["type"] for name in ("name", "task")} == {"string"}
    assert "asynchronous" in tools["dispatch_agent"].description
    assert "execution_id" in tools["dispatch_agent"].description
    wait = schemas["get_result"]["properties"]["wait_seconds"]
    assert schemas["get_result"]["required"] == ["execution_id"]
    assert (wait["minimum"], wait["maximum"], wait["default"]) == (0, 50, 25)
    assert schemas["wait_for"]["properties"]["mode"]["enum"] == ["any", "all"]
    assert schemas["cancel_agent"]["required"] == ["execution_id"]
    assert schemas["cancel_agent"]["properties"]["reason"]["maxLength"] == 500
    assert schemas["list_agents"]["properties"] == {}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("get_result", {"execution_id": "x", "wait_seconds": 51}, "`wait_seconds`"),
    ("cancel_agent", {"execution_id": "x", "reason": "r" * 501}, "`reason`"),
    ("dispatch_agent", {"name": "Right", "task": "t", "model": "other"}, "`model` is not an argument of this tool"),
    ("dispatch_agent", {"task": "t"}, "`name` is required"),
    ("dispatch_agent", {"name": "Right"}, "`task` is required"),
    ("dispatch_agent", {"name": "Right", "task": "   "}, "`task`"),
    ("dispatch_agent", {"name": " ", "task": "t"}, "`name`"),
    ("dispatch_agent", {"name": 7, "task": "t"}, "`name`"),
    ("list_agents", {"all": True}, "`all` is not an argument of this tool"),
]


@requirement("S2-TL-3", "S2-TL-4", "S2-TL-8")
@pytest.mark.parametrize(("tool", "arguments", "named"), REFUSED)
async def test_wrong_arguments_are_refused_by_name(
    tmp_path: Path, tool: str, arguments: dict[str, Any], named: str
) -> None:
    async with bench(tmp_path, CONFIG, {"Lead": [call(tool, **arguments), say("I see")]}) as service:
        assert (await service.run("Lead")).status == "completed"

        told = results(service.model.requests[1])[0]
        assert told["is_error"]
        assert named in told["content"]
        assert told["content"].startswith("error: ")
        assert "\nhint: its arguments are: " in told["content"]
        assert service.sql("select error_type from tool_calls") == [{"error_type": "invalid_arguments"}]
        assert len(service.sql("select id from executions")) == 1


@requirement("S2-TL-8")
async def test_an_error_says_what_was_wrong_and_what_to_do_next(tmp_path: Path) -> None:
    wrong = (
        malformed_call("dispatch_agent", '{"name": "Ri')
        + dispatch("Log-Analyser")
        + call("get_result", execution_id="nope")
    )
    async with bench(tmp_path, CONFIG, {"Lead": [wrong, say("I see")]}) as service:
        await service.run("Lead")

        assert [block["content"] for block in results(service.model.requests[1])] == [
            "error: the arguments of `dispatch_agent` are not a JSON object\nhint: send one object",
            (
                "error: there is no agent `Log-Analyser`\n"
                "hint: did you mean `Log-Analyzer`? the agents you may dispatch: `Log-Analyzer`, `Right`"
            ),
            "error: you have not dispatched an execution `nope`\nhint: `list_agents` lists those you have",
        ]


@requirement("S2-TL-5")
async def test_list_agents_gives_the_agents_and_the_executions_of_the_caller(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {
        "Lead": [
            call("list_agents"),
            dispatch("Right", "a") + dispatch("Right", "b"),
            call("list_agents"),
            say("so"),
            say("done"),
        ],
        "Right": [gate(opened, say("right"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            fourth = await service.model.started("Lead", 4)
            opened.set()
            await service.dispatcher.wait(started.id)

        before, after = answer(service.model.of("Lead")[1]), answer(fourth)
        assert [each["name"] for each in before["agents"]] == ["Log-Analyzer", "Right"]
        assert before["executions"] == []
        assert [(each["agent"], each["task"]) for each in after["executions"]] == [("Right", "a"), ("Right", "b")]
        assert [each["execution_id"] for each in after["executions"]] == dispatched(fourth)
        assert all(each["status"] in ("pending", "running") for each in after["executions"])
        assert all(each["elapsed_seconds"] >= 0 for each in after["executions"])


async def test_a_dispatch_answers_with_an_id_and_a_warning_not_to_guess(tmp_path: Path) -> None:
    config = CONFIG.replace("Right]", "Right], max_concurrent_agents: 1")
    scripts = {"Lead": [dispatch("Right") + dispatch("Right"), say("waiting"), say("done")], "Right": [say("right")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")

        first, second = answer(service.model.of("Lead")[1], 0), answer(service.model.of("Lead")[1], 1)
        assert (first["status"], second["status"], second["queue_position"]) == ("running", "pending", 1)
        assert "queue_position" not in first
        assert "by itself" in first["note"]
        assert "Do not guess it" in first["note"]
        assert "do not finish before it is there" in first["note"]
        assert len(first["execution_id"]) == 37


@requirement("S2-TL-9")
async def test_agent_names_compare_without_case_dash_and_underscore(tmp_path: Path) -> None:
    scripts = {
        "Lead": [dispatch("log_analyzer") + dispatch("LOG-ANALYZER"), say("so"), say("done")],
        "Log-Analyzer": [say("ok")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")

        assert service.statuses() == {"Lead": ["completed"], "Log-Analyzer": ["completed", "completed"]}
