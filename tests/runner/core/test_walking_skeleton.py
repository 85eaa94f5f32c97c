"""The thinnest whole: an orchestrator, two children, results delivered, a cancel, rows in SQL."""

from __future__ import annotations

from pathlib import Path

import anyio

from runner.service.order import Order
from tests.support.models import call, gate, hang, say
from tests.support.requirement import requirement
from tests.support.service import bench

CONFIG = """
agents:
  Lead: {sub_agents: [Left, Right]}
  Left: {description: looks left}
  Right: {description: looks right}
"""


@requirement("S2-LE-1", "S2-CT-3", "S2-CT-4", "S2-CT-7", "S2-DB-1", "S2-RN-8")
async def test_an_orchestrator_gets_the_results_of_two_children_without_asking(tmp_path: Path) -> None:
    dispatch = call("dispatch_agent", name="Left", task="look left") + call(
        "dispatch_agent", name="Right", task="look right"
    )
    scripts = {
        "Lead": [dispatch, say("I wait"), say("left is red, right is blue")],
        "Left": [say("red")],
        "Right": [say("blue")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Lead", "what is there?")
        assert ended.status == "completed"
        assert ended.result is not None
        assert ended.result.text == "left is red, right is blue"
        last = service.model.of("Lead")[-1].messages[-1]
        assert {(each.agent, each.text) for each in last.delivered} == {("Left", "red"), ("Right", "blue")}
        rows = service.sql("select agent, status, parent_execution_id from executions order by created_at, position")
        assert [(row["agent"], row["status"]) for row in rows] == [
            ("Lead", "completed"),
            ("Left", "completed"),
            ("Right", "completed"),
        ]
        assert {row["parent_execution_id"] for row in rows[1:]} == {ended.id}
        assert len(service.model.of("Lead")) == 3


@requirement("S2-CA-1", "S2-CA-3", "S2-CA-4", "S2-CA-6", "S2-CN-4")
async def test_cancelling_the_orchestrator_cancels_its_children(tmp_path: Path) -> None:
    scripts = {
        "Lead": [
            call("dispatch_agent", name="Left", task="look") + call("dispatch_agent", name="Right", task="look"),
            hang(),
        ],
        "Left": [hang()],
        "Right": [gate(anyio.Event(), say("never"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead", "go"))
        with anyio.fail_after(5):
            await service.model.started("Left")
            await service.model.started("Right")
            await service.model.started("Lead", 2)
            assert await service.dispatcher.cancel(started.id, by="a person", reason="enough") == "requested"
            ended = await service.dispatcher.wait(started.id)
        assert ended.status == "cancelled"
        assert service.statuses() == {"Lead": ["cancelled"], "Left": ["cancelled"], "Right": ["cancelled"]}
        row = service.sql("select cancelled_by, cancel_reason, error from executions where id = ?", started.id)[0]
        assert row == {"cancelled_by": "a person", "cancel_reason": "enough", "error": None}
