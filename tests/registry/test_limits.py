import dataclasses

import pytest

from registry import LimitOverrides, Limits, resolve_limits
from tests.registry.conftest import Load, Problems, first_place
from tests.support.requirement import requirement


@requirement("S2-LE-14")
def test_the_built_in_limits_are_the_documented_ones(load_yaml: Load) -> None:
    settings = load_yaml("")

    assert dataclasses.asdict(Limits()) == {
        "max_depth": 3,
        "max_concurrent_agents": 5,
        "max_iterations": 20,
        "timeout": 600,
        "agent_timeout": 300,
        "wrap_up_reserve": 60,
        "max_dispatches": 100,
        "max_tokens": None,
        "max_cost_usd": None,
        "on_limit": "queue",
        "on_finish": "wait",
        "wake": "all",
        "cycle_check": True,
        "cancel_grace": 30,
        "model_timeout": 300,
        "tool_timeout": 60,
        "approval_timeout": 3600,
    }
    assert settings.limits_for(settings.agent("Synthesizer")) == Limits()
    assert settings.defaults.max_concurrent_roots == 50


def test_the_layers_can_set_every_limit_and_nothing_else() -> None:
    assert set(LimitOverrides.model_fields) == {field.name for field in dataclasses.fields(Limits)}


def test_the_reserve_is_at_most_a_fifth_of_the_time_allowed() -> None:
    assert Limits().reserve_of(600) == 60
    assert Limits().reserve_of(100) == 20


LAYERED = """
defaults: {{limits: {{{defaults}}}}}
agents:
  Worker: {{description: Works}}
  Lead: {{sub_agents: [Worker], limits: {{{agent}}}}}
agent_chains:
  run:
    limits: {{{chain}}}
    stages: [{{name: s, limits: {{{stage}}}, agents: [{{name: Lead, limits: {{{stage_agent}}}}}]}}]
"""
ORDER = ["defaults", "agent", "chain", "stage", "stage_agent"]


@requirement("S2-GR-10", "S2-LE-9")
@pytest.mark.parametrize("highest", range(len(ORDER) + 1))
def test_the_most_specific_layer_that_gives_a_value_wins(load_yaml: Load, highest: int) -> None:
    layers = {name: f"max_iterations: {100 + index}" if index < highest else "" for index, name in enumerate(ORDER)}
    settings = load_yaml(LAYERED.format(**layers))
    place = first_place(settings, "run")
    lead = settings.agent("Lead")

    assert settings.limits_for(lead, place).max_iterations == (99 + highest if highest else 20)
    assert settings.limits_for(lead, place, LimitOverrides(max_iterations=1)).max_iterations == 1


def test_what_a_chain_sets_does_not_reach_a_dispatched_agent(load_yaml: Load) -> None:
    layers = dict.fromkeys(ORDER, "") | {"chain": "max_iterations: 3", "stage_agent": "timeout: 9s"}
    settings = load_yaml(LAYERED.format(**layers))
    [entry] = settings.catalogue(settings.agent("Lead"))
    child = settings.agent(entry.name).overridden(entry.overrides)

    assert settings.limits_for(child).max_iterations == 20
    assert settings.limits_for(child).timeout == 600
    assert settings.limits_for_chain(settings.chain("run")).max_iterations == 3


@requirement("S2-GR-11")
def test_flat_keys_and_the_block_are_the_same_settings(load_yaml: Load) -> None:
    flat = load_yaml("agents: {A: {max_concurrent_agents: 2, agent_timeout: 10s, timeout: 1m, max_iterations: 4}}")
    block = load_yaml(
        "agents: {A: {limits: {max_concurrent_agents: 2, agent_timeout: 10s, timeout: 1m, max_iterations: 4}}}"
    )
    both = load_yaml("agents: {A: {agent_timeout: 5m, limits: {agent_timeout: 300s}}}")

    assert flat.limits_for(flat.agent("A")) == block.limits_for(block.agent("A"))
    assert both.limits_for(both.agent("A")).agent_timeout == 300


@requirement("S2-GR-11")
@pytest.mark.parametrize("key", ["max_concurrent_agents", "agent_timeout", "timeout", "max_iterations"])
def test_a_flat_key_that_contradicts_the_block_is_refused(problems_of: Problems, key: str) -> None:
    [problem] = problems_of(f"agents: {{A: {{{key}: 2, limits: {{{key}: 3}}}}}}")

    assert problem.path == f"agents.A.{key}"
    assert "different values" in problem.message


@requirement("S2-CF-11")
@pytest.mark.parametrize(
    ("written", "seconds"),
    [("300s", 300), ("5m", 300), ("1h", 3600), ("250ms", 0.25), ("45", 45), ("0.5", 0.5), ("1.5m", 90), ('"30 s"', 30)],
)
def test_durations_are_written_in_several_ways(load_yaml: Load, written: str, seconds: float) -> None:
    settings = load_yaml(f"agents: {{A: {{agent_timeout: {written}}}}}")

    assert settings.limits_for(settings.agent("A")).agent_timeout == seconds


@requirement("S2-CF-11")
@pytest.mark.parametrize("written", ["5 parsecs", "s", "1h30m", "true", "[1]", "9999999h", ".inf"])
def test_what_is_no_duration_is_refused_with_its_path(problems_of: Problems, written: str) -> None:
    [problem] = problems_of(f"agents: {{A: {{agent_timeout: {written}}}}}")

    assert problem.path == "agents.A.agent_timeout"
    assert "300s" in problem.hint


@requirement("S2-VA-7")
@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize(
    "limit",
    [
        "max_depth",
        "max_concurrent_agents",
        "max_iterations",
        "timeout",
        "agent_timeout",
        "max_dispatches",
        "max_tokens",
        "max_cost_usd",
        "model_timeout",
        "tool_timeout",
        "max_concurrent_roots",
    ],
)
def test_a_limit_out_of_range_is_refused_with_its_path(problems_of: Problems, limit: str, value: int) -> None:
    [problem] = problems_of(f"defaults: {{limits: {{{limit}: {value}}}}}")

    assert problem.path == f"defaults.limits.{limit}"
    assert f"not `{value}`" in problem.message


@pytest.mark.parametrize("limit", ["wrap_up_reserve", "cancel_grace"])
def test_a_reserve_or_grace_may_be_nothing_but_not_less(load_yaml: Load, problems_of: Problems, limit: str) -> None:
    settings = load_yaml(f"defaults: {{limits: {{{limit}: 0}}}}")

    assert getattr(settings.limits_for(settings.agent("Synthesizer")), limit) == 0
    assert len(problems_of(f"defaults: {{limits: {{{limit}: -1s}}}}")) == 1


@requirement("S2-LE-9")
def test_a_limit_of_the_service_is_refused_on_an_agent(problems_of: Problems) -> None:
    [problem] = problems_of("agents: {A: {limits: {max_concurrent_roots: 3}}}")

    assert "unknown key `max_concurrent_roots`" in problem.message


def test_layers_that_are_missing_change_nothing() -> None:
    assert resolve_limits(None, LimitOverrides(), None) == Limits()
