from dataclasses import asdict
from typing import Any

import yaml

from registry import describe
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
