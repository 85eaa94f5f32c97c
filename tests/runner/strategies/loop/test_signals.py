"""Signals: a result can ask for another plan, or say that there was nothing to find, whoever gives it and however."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from registry import AgentSpec, load
from runner.result import Outcome, Result, signalled
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.support.models import Script, ScriptedModel, call, say
from tests.support.service import OneModel

CONFIG = """
agents:
  Plain: {description: answers}
  Shaped: {description: answers in form, output_schema: {type: object}}
"""
REPLAN = {"needs_replan": True, "replan_reason": "missing_data"}
EMPTY = {"is_empty": True}
REPORT = call(
    "finish", status="completed", summary="no address", needs_replan=True, replan_reason="missing_data", is_empty=True
)


async def test_an_answer_asks_for_another_plan_or_tells_that_it_is_empty(tmp_path: Path) -> None:
    async def lookup(task: str, _input: Any) -> Any:
        return {"needsReplan": True, "replanReason": "missing_data"} if task == "replan" else {"jobs": [], "isEmpty": True}

    file = tmp_path / "config.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    scripts: dict[str, Script] = {
        "Plain": lambda request: {
            "report": REPORT,
            "object": say('{"jobs": [], "isEmpty": true}'),
            "words": say("nothing: isEmpty is true, needsReplan is true"),
        }[request.messages[0].text],
        "Shaped": [say('```json\n{"needs_replan": true, "replan_reason": "missing_data"}\n```')],
    }
    blueprint = Blueprint(
        load(file, {}, [AgentSpec(name="Lookup", strategy="function")]),
        tmp_path / "outrider.db",
        models=OneModel(ScriptedModel(scripts)),
        functions={"Lookup": lookup},
    )
    told: dict[str, Mapping[str, bool | str]] = {}
    async with open_service(blueprint) as dispatcher:
        for agent, task in (
            ("Plain", "report"),
            ("Plain", "object"),
            ("Plain", "words"),
            ("Shaped", "object"),
            ("Lookup", "replan"),
            ("Lookup", "look"),
        ):
            ended = await dispatcher.wait((await dispatcher.start(Order(agent, task))).id)
            assert ended.result is not None
            assert (ended.status, ended.result.outcome) == ("completed", "completed")
            told[f"{agent} {task}"] = ended.result.signals

    assert told == {
        "Plain report": {**REPLAN, **EMPTY},
        "Plain object": EMPTY,
        "Plain words": {},
        "Shaped object": REPLAN,
        "Lookup replan": REPLAN,
        "Lookup look": EMPTY,
    }


@pytest.mark.parametrize(
    ("output", "signals"),
    [
        ({"needsReplan": "yes", "isEmpty": 1}, {}),
        ({"needs_replan": True, "replan_reason": "a whim"}, {"needs_replan": True}),
        ({"replanReason": "new_information"}, {"needs_replan": True, "replan_reason": "new_information"}),
        ([{"isEmpty": True}], {}),
        ('{"isEmpty": true', {}),
        ('It said:\n```json\n{"isEmpty": true}\n```', {}),
        ('```json\n{"isEmpty": true}\n```', {"is_empty": True}),
        (None, {}),
    ],
)
def test_only_what_is_plainly_said_is_a_signal(output: Any, signals: Mapping[str, bool | str]) -> None:
    assert signalled(Result(Outcome.COMPLETED, "so", output)).signals == signals
