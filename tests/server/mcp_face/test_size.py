"""What a client's model has to read: the list of tools, and the answers around agents' words. All limits stand here."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.store.engine import sqlite_library
from tests.docs.mcp_page import tools
from tests.server.mcp_face.test_tools import CONFIG, ERAS
from tests.support.face import face
from tests.support.models import call, gate, say
from tests.support.reading import dispatch

TOOLS_LIST = 13_000
"""Characters of `tools/list` with the configuration that comes with Outrider."""
WITH_CHAT = 14_200
"""The same where users are answered, too."""
ANSWERS = {
    "dispatched": 195,
    "running": 315,
    "running tree": 425,
    "ended": 255,
    "ended tree": 355,
    "tree of three": 860,
    "list of four": 1_090,
    "list_agents": 700,
}
"""Characters of structured answers about small executions, whose tasks and outputs are a few words."""


def size(value: Any) -> int:
    """Characters as `json.dumps` writes them."""
    return len(json.dumps(value))


def test_the_list_of_tools_is_short() -> None:
    shown = {tool.name: tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools()}
    without_chat = [tool for name, tool in shown.items() if name != "send_user_message"]

    assert size(without_chat) <= TOOLS_LIST
    assert size(list(shown.values())) <= WITH_CHAT


def test_no_schema_says_what_says_nothing() -> None:
    for tool in tools():
        said = json.dumps([tool.input_schema, tool.output_schema])
        assert '"null"' not in said, tool.name
        assert '"title"' not in said, tool.name
        assert '"default": null' not in said, tool.name
        assert '"description": "' not in json.dumps(tool.output_schema), tool.name


@ERAS
async def test_answers_about_executions_are_short(tmp_path: Path, era: str) -> None:
    opened_gate = anyio.Event()
    two = dispatch("Left", "look here") + dispatch("Left", "look there")
    scripts = {
        "Lead": [two, say("waiting"), say("led"), say("led")],
        "Left": [call("nothing"), gate(opened_gate, say("left"))],
        "Right": [gate(opened_gate, say("right"))],
    }
    measured: dict[str, int] = {}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client(era) as caller:
        started = await caller.call("dispatch_agent", name="Lead", task="look everywhere")
        alone = await caller.call("dispatch_agent", name="Right", task="look")
        await opened.model.started("Left", 4)
        await opened.model.started("Right")
        measured["dispatched"] = size(started)
        for name, which in (("running", alone), ("running tree", started)):
            measured[name] = size(await caller.call("get_result", execution_id=which["execution_id"], wait_seconds=0))
        opened_gate.set()
        for name, which in (("ended", alone), ("ended tree", started)):
            measured[name] = size(await caller.call("get_result", execution_id=which["execution_id"], wait_seconds=20))
        measured["tree of three"] = size(await caller.call("get_execution_tree", execution_id=started["execution_id"]))
        measured["list of four"] = size(await caller.call("list_executions", all_levels=True))
        measured["list_agents"] = size(await caller.call("list_agents"))

    assert {name: most for name, most in measured.items() if most > ANSWERS[name]} == {}
    assert set(measured) == set(ANSWERS)


async def test_numbers_are_rounded_and_a_summary_that_repeats_the_output_is_left_out(tmp_path: Path) -> None:
    async with face(tmp_path, CONFIG, {"Left": [say("left\n\nand more")]}) as opened, opened.client() as caller:
        ended = await caller.call("run_agent", name="Left", task="look", wait_seconds=20)
        with closing(sqlite_library().connect(opened.bench.database)) as connection, connection:
            connection.execute("update executions set cost_usd = 0.123456789012")
        again = await caller.call("get_result", execution_id=ended["execution_id"])
        listed = await caller.call("list_executions")
        shown = await caller.call("get_execution_tree", execution_id=ended["execution_id"])

    assert ended["result"] == {"outcome": "completed", "output": "left\n\nand more"}
    assert again["usage"]["cost_usd"] == pytest.approx(0.123457, abs=1e-12)
    assert listed["executions"][0]["cost_usd"] == shown["tree"]["cost_usd"] == 0.123457
    assert all(len(str(figure)) < 9 for figure in (shown["tree"]["own_seconds"], listed["executions"][0]["own_seconds"]))
