"""What the templates of an iteration show: declared input alone, as text, from the files it began with."""

from __future__ import annotations

from pathlib import Path

from registry import load, restore
from tests.runner.iterated import done, finished, first, task
from tests.support.models import say, shared
from tests.support.requirement import requirement
from tests.support.service import bench

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


async def test_a_template_that_makes_too_much_of_its_input_fails_its_execution(tmp_path: Path) -> None:
    bomb = "{% for a in list %}{% for b in list %}{% for c in list %}{{ a }}{% endfor %}{% endfor %}{% endfor %}"
    schema = "{properties: {list: {type: array}}}"
    config = f"agents: {{A: {{strategy: iterate, input_schema: {schema}, iterate: {{objective: '{bomb}'}}}}}}"
    async with bench(tmp_path, config, {}) as service:
        end = await service.run("A", "", input={"list": list(range(200))})

        assert end.result is not None
        [error] = end.result.errors
        assert (end.status, error.type) == ("failed", "invalid_input")
        assert "the template makes too much of its values (line 1)" in error.message
