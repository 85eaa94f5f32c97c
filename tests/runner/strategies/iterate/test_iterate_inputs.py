"""What the templates of an iteration show: declared input alone, as text, from the files it began with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from registry import load, restore
from tests.runner.strategies.iterate.iterated import config, done, finished, first, task
from tests.support.models import say, shared
from tests.support.requirement import requirement
from tests.support.service import bench


def scripts() -> dict[str, Any]:
    """Every iteration has one task."""
    return {
        "TaskPlanner": lambda request: task("one") if "tasks: []" in first(request) else finished(),
        "TaskWorker": [done("1")],
        "Completer": [say("all")],
    }


CONFIG = """
agents:
  Reporter:
    strategy: iterate
    input_schema: {properties: {topic: {type: string}, depth: {type: string, default: basic}}}
    iterate:
      objective: {url: texts/objective.md}
      planner:
        input_schema: {properties: {audience: {type: string, default: everybody}}}
        instructions: |
          Plan {{ objective }} for {{ audience }}. {{ secret }}
          {{ executionState | yaml.stringify }}
"""


@requirement("S3-IN-1", "S3-TP-5", "S3-CU-1")
async def test_only_declared_input_is_shown_and_no_output_is_a_template(tmp_path: Path) -> None:
    tmp_path.joinpath("texts").mkdir()
    tmp_path.joinpath("texts", "objective.md").write_text(
        "Research {{ topic }}|{{ secret }}|{{ audience }}.\n{% include 'depth.md' %}", encoding="utf-8"
    )
    tmp_path.joinpath("texts", "depth.md").write_text("{% if depth %}Depth: {{ depth }}{% endif %}", encoding="utf-8")
    scripts = {
        "TaskPlanner": shared(task("look up {{ topic }}"), finished()),
        "TaskWorker": [done("it says {{ topic }} and {% include 'depth.md' %}")],
        "Completer": [say("{{ topic }}")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        given = {"topic": "{{ depth }}", "secret": "BURIED", "audience": "experts"}
        end = await service.run("Reporter", "", input=given)

        assert end.result is not None
        assert end.result.text == "{{ topic }}"
        planners, [worker] = service.model.of("TaskPlanner"), service.model.of("TaskWorker")
        assert first(planners[0]).startswith("Plan Research {{ depth }}||.\nDepth: basic for experts. \n")
        assert "look up {{ topic }}" in first(worker)
        assert "result: it says {{ topic }} and {% include 'depth.md' %}" in first(planners[1])
        assert not any("BURIED" in first(request) for request in service.model.requests)


@requirement("S3-CU-1", "S3-OP-3")
async def test_a_component_may_declare_what_it_is_given_and_need_not_know_the_rest(tmp_path: Path) -> None:
    declared = "{objective: {type: string}, skills: {type: array}, executionState: {type: object}, topic: {type: string}}"
    needed = "required: [objective, executionState, topic], additionalProperties: false"
    schema = f"{{type: object, properties: {declared}, {needed}}}"
    text = config(
        f"objective: 'Find {{{{ topic }}}}', planner: {{instructions: 'Plan {{{{ objective }}}}', input_schema: {schema}}}",
        "input_schema: {properties: {topic: {type: string}, depth: {type: integer}}},",
    )
    async with bench(tmp_path, text, scripts()) as service:
        end = await service.run("Reporter", "", input={"topic": "disks", "depth": 3})
        assert end.status == "completed"
        assert first(service.model.of("TaskPlanner")[0]).startswith("Plan Find disks")

        lacking = await service.run("Reporter", "", input={"depth": 3})
        assert lacking.error is not None
        assert "'topic' is a required property" in lacking.error


@requirement("S3-IN-1")
async def test_a_declared_field_is_shown_whatever_it_is_called(tmp_path: Path) -> None:
    text = config("objective: 'Do {{ task }}.'", "input_schema: {properties: {task: {type: string}}},")
    async with bench(tmp_path, text, scripts()) as service:
        await service.run("Reporter", "", input={"task": "the work"})
        await service.run("Reporter", "Be brief.", input={"task": "the work"})
        await service.run("Reporter", "other work")
        told = [first(request) for request in service.model.of("TaskPlanner") if "tasks: []" in first(request)]

    assert "<objective>\nDo the work.\n</objective>" in told[0]
    assert "<objective>\nDo the work.\n\nBe brief.\n</objective>" in told[1]
    assert "<objective>\nDo other work.\n</objective>" in told[2]


@requirement("S3-TP-1")
@pytest.mark.parametrize("place", ["objective", "planner", "worker", "completer"])
async def test_a_template_that_makes_too_much_of_its_input_says_so(tmp_path: Path, place: str) -> None:
    loops = "{% for a in list %}{% for b in list %}{% for c in list %}x{% endfor %}{% endfor %}{% endfor %}"
    part = f"objective: '{loops}'" if place == "objective" else f"objective: x, {place}: {{instructions: '{loops}'}}"
    async with bench(tmp_path, config(part, "input_schema: {properties: {list: {type: array}}},"), scripts()) as service:
        await service.run("Reporter", "", input={"list": [0] * 70})
        failed = "TaskWorker" if place == "worker" else "Reporter"  # of a worker it is recorded, as everything that fails
        [row] = service.sql("select status, result from executions where agent = ?", failed)
        [problem] = json.loads(row["result"])["errors"]
        assert (row["status"], problem["type"]) == ("blocked" if place == "worker" else "failed", "invalid_input")
        assert problem["message"] == "the output of the template is too long (line 1)"
        assert problem["recommendation"] == "nest fewer loops: it may have 4,000,000 characters"
        if place == "worker":
            assert "message: the output of the template is too long" in first(service.model.of("Completer")[0])


@requirement("S3-CF-2")
def test_texts_are_those_of_the_time_it_was_loaded(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("agents: {A: {strategy: iterate, iterate: {objective: {url: o.md}}}}", encoding="utf-8")
    tmp_path.joinpath("o.md").write_text("${HOME} {% include 'p.md' %}", encoding="utf-8")
    tmp_path.joinpath("p.md").write_text("part", encoding="utf-8")

    settings = load(file, {})
    tmp_path.joinpath("p.md").unlink()
    tmp_path.joinpath("o.md").write_text("other", encoding="utf-8")

    again = restore(settings.snapshot, {})
    for each in (settings, again):
        objective = each.agent("A").iterate.objective
        assert objective is not None
        assert objective.render({}, str) == "${HOME} part"
    assert again.hash == settings.hash
    assert load(file, {}).hash != settings.hash
