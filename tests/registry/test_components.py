"""Agents that iterate: what a file may say about them, and who works for them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from registry import AgentSpec, Part, Settings, component_of
from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement

AGENTS = "agents: {{A: {{description: a}}, P: {{strategy: plan}}, I: {{strategy: iterate, {entry}}}}}"


def component(settings: Settings, part: Part, agent: str = "I") -> AgentSpec:
    """Who is one of the three."""
    spec = settings.agent(agent)
    return component_of(part, settings.agent(getattr(spec.iterate, part).agent), spec)


@requirement("S3-IT-1", "S3-OP-2", "S3-OP-4")
def test_an_iteration_needs_no_settings_and_has_the_documented_defaults(load_yaml: Load) -> None:
    settings = load_yaml(AGENTS.format(entry=""))
    spec = settings.agent("I").iterate
    assert (spec.max_iterations, spec.keep_recent, spec.max_tokens, spec.objective) == (20, None, None, None)
    assert [part.agent for part in spec.components] == ["TaskPlanner", "TaskWorker", "Completer"]
    assert settings.limits_for(settings.agent("I")).max_concurrent_agents == 5
    assert settings.catalogue(settings.agent("I")) == ()
    assert "TaskPlanner" not in load_yaml("agents: {A: {description: a}, R: {strategy: route}}").agents


@requirement("S3-BP-3")
def test_any_number_of_iterations_but_none_can_be_configured(load_yaml: Load, problems_of: Problems) -> None:
    for count in (1, 10, 25, 50):
        settings = load_yaml(AGENTS.format(entry=f"iterate: {{state: {{max_iterations: {count}}}}}"))
        assert settings.agent("I").iterate.max_iterations == count
    (problem,) = problems_of(AGENTS.format(entry="iterate: {state: {max_iterations: 0}}"))
    assert "max_iterations" in problem.path


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("iterate: {planner: Nobody}", "no agent named `Nobody`"),
        ("iterate: {planner: P}", "`P` plans, routes or iterates"),
        ("iterate: {completer: {agent: P}}", "`P` plans, routes or iterates"),
        ("iterate: {planner: {model: huge}}", "no model named `huge`"),
        ("iterate: {planner: {output_schema: {type: objekt}}}", "not a JSON schema"),
        ("iterate: {worker: {input_schema: {propertys: {}}}}", "is not a keyword of JSON schema"),
        ("sub_agents: [A], iterate: {worker: A}", "`sub_agents` has no effect here: `A` carries out the tasks"),
        ("memory: true", "`memory` has no effect here"),
        ("plan: {}", "`plan` has no effect on an agent with the strategy `iterate`"),
        ("iterate: {objective: {}}", "either `url` or `content`"),
    ],
)
def test_what_cannot_be_is_refused(problems_of: Problems, entry: str, said: str) -> None:
    assert said in str(problems_of(AGENTS.format(entry=entry)))


def test_the_model_of_a_built_in_component_is_set_where_it_works(problems_of: Problems) -> None:
    more = "models: {m: {model: x}, n: {model: y}}\n"
    (problem,) = problems_of(
        f"{more}defaults: {{model: m}}\nagents: {{I: {{strategy: iterate}}, TaskPlanner: {{model: n}}}}"
    )
    assert "has the model of the agent it works for" in problem.message


@requirement("S3-OP-3", "S3-OP-8")
def test_a_component_has_its_own_settings_and_inherits_the_rest_from_its_agent(load_yaml: Load) -> None:
    entry = """model: m, sub_agents: [A], utilities: true, limits: {max_cost_usd: 1, tool_timeout: 5s}, max_tokens: 99,
      iterate: {worker: {instructions: Work.}, completer: {model: n, output_schema: {type: object}}}"""
    more = "models: {m: {model: x}, n: {model: y}}\ndefaults: {model: n}\n"
    settings = load_yaml(more + AGENTS.format(entry=entry))
    planner, worker, completer = (component(settings, part) for part in ("planner", "worker", "completer"))
    assert [each.model for each in (planner, worker, completer)] == ["m", "m", "n"]
    assert planner.output_schema is not None
    assert worker.output_schema is not None
    assert "success" in worker.output_schema["properties"]
    assert (worker.custom_instructions, worker.utilities, planner.utilities) == ("", True, False)
    assert [each.name for each in settings.catalogue(worker)] == ["A"]
    assert settings.limits_for(worker).tool_timeout == 5
    assert settings.limits_for(worker).max_cost_usd is None, "money is for all of it together"
    assert (completer.output_schema, completer.max_tokens) == ({"type": "object"}, 99)


def test_an_agent_with_the_name_of_a_built_in_one_is_another_if_it_has_a_description(load_yaml: Load) -> None:
    settings = load_yaml(
        """
        agents:
          planner: {description: plans the work of people}
          Completer: {description: completes forms}
          R: {strategy: route, sub_agents: [planner]}
          I: {strategy: iterate}
        """
    )
    assert settings.agent("planner").output_schema is None
    assert settings.agent("Coordinator").plan.planner == "BuiltInPlanner"
    assert settings.agent("BuiltInPlanner").output_schema is not None
    assert settings.agent("I").iterate.completer.agent == "BuiltInCompleter"
    assert component(settings, "completer").custom_instructions.startswith("You give the answer")


def test_a_restored_configuration_has_the_same_components(tmp_path: Path) -> None:
    from registry import load, restore

    (tmp_path / "objective.md").write_text("Reach {{ goal }}", encoding="utf-8")
    file = tmp_path / "config.yaml"
    file.write_text(
        """
        models: {m: {model: x}, n: {model: y}}
        defaults: {model: m}
        agents:
          I: {strategy: iterate, model: n, iterate: {objective: {url: objective.md}, planner: {instructions: Plan.}}}
        """,
        encoding="utf-8",
    )
    before = load(file, {})
    (tmp_path / "objective.md").write_text("Something else", encoding="utf-8")
    after = restore(before.snapshot, {})
    assert after.agent("I").iterate == before.agent("I").iterate
    was, now = component(before, "worker"), component(after, "worker")
    assert replace(now, limits=was.limits) == was
    assert after.limits_for(now) == before.limits_for(was)


def test_what_a_configuration_comes_to_can_be_loaded_again(tmp_path: Path, load_yaml: Load) -> None:
    import yaml

    from registry import load

    shown = json.loads(load_yaml(AGENTS.format(entry="limits: {tool_timeout: 5s}")).snapshot)["config"]
    file = tmp_path / "again.yaml"
    file.write_text(yaml.safe_dump(shown), encoding="utf-8")
    again = load(file, {})
    assert again.limits_for(component(again, "worker")).tool_timeout == 5
