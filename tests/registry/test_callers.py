"""Agents that plan or route: what a file may say about them."""

import pytest

from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement

AGENTS = "agents: {{A: {{description: a}}, P: {{{entry}}}}}"


@requirement("S0-C-1", "S0-FR-6", "S0-C-2", "S0-C-3", "S0-C-4", "S0-C-5")
def test_the_defaults_of_a_plan_are_the_documented_ones(load_yaml: Load) -> None:
    settings = load_yaml(AGENTS.format(entry="strategy: plan"))
    agent = settings.agent("P")
    assert settings.limits_for(agent).timeout == 300
    plan = agent.plan
    assert (plan.max_steps, plan.max_replans, plan.max_retries, plan.step_timeout, plan.max_concurrent) == (
        10,
        3,
        2,
        120,
        1,
    )
    assert (plan.on_step_failure, plan.on_empty_plan, plan.compose, plan.cache_ttl) == ("replan", None, "always", 0)
    assert agent.route.history == 4
    given = load_yaml(AGENTS.format(entry="strategy: plan, timeout: 60s"))
    assert given.limits_for(given.agent("P")).timeout == 60


def test_who_plans_or_routes_may_use_every_agent_and_has_a_staff(load_yaml: Load) -> None:
    settings = load_yaml(AGENTS.format(entry="strategy: route"))
    assert [entry.name for entry in settings.catalogue(settings.agent("P"))] == ["A"]
    assert {"Planner", "Composer", "Classifier", "Respondent", "Coordinator"} <= set(settings.agents)
    assert "Planner" not in load_yaml("agents: {A: {description: a}}").agents


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("plan: {max_steps: 3}", "`plan` has no effect on an agent with the strategy `loop`"),
        ("strategy: plan, route: {}", "`route` has no effect on an agent with the strategy `plan`"),
        ("strategy: plan, sub_agents: []", "no agents to plan for"),
        ("strategy: plan, utilities: true", "`utilities` has no effect here"),
        ("strategy: plan, memory: true", "`memory` has no effect here"),
        ("strategy: plan, plan: {planner: Nobody}", "no agent named `Nobody`"),
        ("strategy: plan, plan: {planner: P}", "`P` plans, routes or iterates"),
        ("strategy: route, route: {planner: A}", "`A` does not plan"),
        ("strategy: plan, plan: {max_retries: -1}", "max_retries"),
    ],
)
def test_an_entry_without_effect_or_without_an_agent_is_refused(problems_of: Problems, entry: str, said: str) -> None:
    assert said in str(problems_of(AGENTS.format(entry=entry)))


@pytest.mark.parametrize(
    "entry", ["coordinator: {strategy: route}", "planner: {strategy: plan}", "Coordinator: {strategy: loop}"]
)
def test_the_name_of_a_built_in_agent_is_not_taken_for_another_way_to_work(problems_of: Problems, entry: str) -> None:
    (problem,) = problems_of(f"agents: {{A: {{description: a}}, R: {{strategy: route}}, {entry}}}")
    assert "is a built-in agent with another kind of strategy" in problem.message
    assert "give yours another name" in problem.hint
