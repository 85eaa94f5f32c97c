import json
from dataclasses import asdict
from typing import Any

import pytest
import yaml

from registry import PlaceLimits, chain_limits, describe, values
from tests.registry.conftest import Load
from tests.support.requirement import requirement

CONFIG = """\
defaults: {limits: {max_iterations: 9}}
mcp_servers: {loki: {command: [loki-mcp], env: {PORT: "80"}}}
agents:
  LogAnalyzer: {description: 'Reads: logs # all of them', mcp_servers: [loki], agent_timeout: 10s}
  Lead: {iteration_strategy: langchain, sub_agents: [LogAnalyzer], max_iterations: 4}
agent_chains:
  run: {stages: [{name: first, agents: [{name: Lead, limits: {timeout: 1m}}]}]}
"""


@requirement("S2-VA-11")
def test_the_printed_configuration_is_what_holds(load_yaml: Load) -> None:
    settings = load_yaml(CONFIG)
    printed: dict[str, Any] = yaml.safe_load(describe(settings))

    for name, agent in settings.agents.items():
        decided = {key: value for key, value in asdict(settings.limits_for(agent)).items() if value is not None}
        assert printed["agents"][name]["limits"] == decided
        assert printed["agents"][name]["model"] == agent.model
        assert printed["agents"][name]["strategy"] == agent.strategy
        assert printed["agents"][name].get("description", "") == agent.description
    assert printed["mcp_servers"]["loki"]["env"] == {"PORT": "80"}
    assert printed["agent_chains"]["run"]["stages"][0]["agents"][0]["limits"] == {"timeout": 60}


def test_each_value_says_where_it_came_from(load_yaml: Load) -> None:
    lines = describe(load_yaml(CONFIG)).splitlines()
    lead = lines[lines.index("  Lead:") :]
    analyzer = lines[lines.index("  LogAnalyzer:") :]

    assert "      max_iterations: 4  # config.yaml:5" in lead
    assert "      max_iterations: 9  # config.yaml:1" in analyzer
    assert "      agent_timeout: 10.0  # config.yaml:4" in analyzer
    assert "      max_depth: 3  # default" in analyzer
    assert "    strategy: loop  # config.yaml:5" in lead


def test_the_printed_configuration_loads_and_means_the_same(load_yaml: Load) -> None:
    settings = load_yaml(CONFIG)
    again = load_yaml(describe(settings))

    assert again.hash == settings.hash


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines",
        "two\nlines\n",
        "a\n\nb\n",
        "a\n\n",
        " indented\nfirst",
        "a\n  b\n# c: d\n",
        "tab\there\nx",
        "a \nb",
        "- a\n- b",
    ],
)
def test_longer_texts_are_printed_as_they_were_written(load_yaml: Load, text: str) -> None:
    settings = load_yaml(json.dumps({"agents": {"A": {"custom_instructions": text}}}))

    assert load_yaml(describe(settings)).agent("A").custom_instructions == settings.agent("A").custom_instructions == text


def test_what_is_built_in_is_told_from_what_is_a_default(load_yaml: Load) -> None:
    found = {each.path: each.origin for each in values(load_yaml("agents: {A: {}}"))}
    own = {each.path: each.origin for each in values(load_yaml("models: {sonnet: {model: x}}\nagents: {A: {}}"))}

    assert found["agents.Synthesizer.strategy"] == "built-in"
    assert found["models.sonnet.model"] == "built-in"
    assert found["agents.A.strategy"] == "default"
    assert (own["models.sonnet.model"], own["models.sonnet.provider"]) == ("config.yaml:1", "default")


def test_the_limits_of_each_place_of_a_chain_are_resolved(load_yaml: Load) -> None:
    settings = load_yaml(CONFIG)
    chain, lead = chain_limits(settings, settings.chain("run"))

    def found(place: PlaceLimits) -> dict[str, tuple[object, str]]:
        return {each.path: (each.value, each.origin) for each in place.limits}

    assert (chain.place, lead.place) == ("run", "run.first.Lead")
    assert found(chain)["max_iterations"] == (9, "config.yaml:1")
    assert found(chain)["timeout"] == (600.0, "default")
    assert found(lead)["timeout"] == (60.0, "config.yaml:7")
    assert found(lead)["max_iterations"] == (4, "config.yaml:5")
    assert "#   max_iterations: 4  # config.yaml:5" in describe(settings).splitlines()


@requirement("S2-VA-11")
def test_no_secret_is_among_the_values(load_yaml: Load) -> None:
    text = """\
    mcp_servers:
      a: {url: "https://canary@host/mcp", headers: {Authorization: "Bearer canary"}}
      b: {command: [b, --token, canary], env: {API_KEY: canary, REGION: "${REGION}"}}
    """
    settings = load_yaml(text, {"REGION": "canary"})

    shown = describe(settings) + json.dumps([each.value for each in values(settings)])

    assert "canary" not in shown
    assert "${REGION}" in shown
