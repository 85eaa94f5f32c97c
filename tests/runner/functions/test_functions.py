"""Agents that are Python functions: dispatched, recorded and delivered like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from registry import AgentSpec, load
from registry.specs.strategies import Strategy
from runner.errors import Refusal
from runner.result import Result
from runner.service.assembly import STRATEGIES
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.support.models import ScriptedModel, say
from tests.support.reading import delivered, dispatch
from tests.support.requirement import requirement
from tests.support.service import OneModel


@requirement("S2-AF-3")
async def test_a_function_is_dispatched_and_its_failure_is_a_result(tmp_path: Path) -> None:
    async def count(task: str, _input: Any) -> dict[str, int]:
        return {"letters": len(task)}

    async def stumble(_task: str, _input: Any) -> str:
        raise ValueError("no such task")

    file = tmp_path / "config.yaml"
    file.write_text("agents: {Lead: {sub_agents: [Count, Stumble]}}", encoding="utf-8")
    registered = [AgentSpec(name=name, description=name, strategy="function") for name in ("Count", "Stumble")]
    model = ScriptedModel({"Lead": [dispatch("Count", "four") + dispatch("Stumble"), *(say(text) for text in "abcd")]})
    blueprint = Blueprint(
        load(file, {}, registered),
        tmp_path / "outrider.db",
        models=OneModel(model),
        functions={"Count": count, "Stumble": stumble},
    )
    async with open_service(blueprint) as dispatcher:
        started = await dispatcher.start(Order("Lead", "count"))
        ended = await dispatcher.wait(started.id)
        assert ended.status == "completed"
        told = {each.agent: each for each in delivered(model.of("Lead")[-1])}
        assert told["Count"].text == '{\n  "letters": 4\n}'
        assert (told["Stumble"].status, told["Stumble"].text) == (
            "failed",
            "the function of `Stumble` raised ValueError: no such task",
        )
        rows = await dispatcher.services.database.reads.children(started.id)
        assert {(row["agent"], row["strategy"], row["model"]) for row in rows} == {
            ("Count", "function", None),
            ("Stumble", "function", None),
        }
        stumbled = next(row for row in rows if row["agent"] == "Stumble")
        [problem] = Result.of_json(stumbled["result"]).errors
        assert (stumbled["error_type"], problem.type, problem.recoverable) == ("function_failed", "function_failed", True)
        with pytest.raises(Refusal, match="reads no messages"):
            await dispatcher.resume(rows[0]["id"], "once more")


@requirement("S2-AF-2")
def test_every_strategy_a_configuration_can_name_exists() -> None:
    assert {*get_args(Strategy), "chain"} == set(STRATEGIES)
