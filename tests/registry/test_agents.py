import pytest

from registry import SYNTHESIZER, AgentSpec, ConfigError, load
from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement


@requirement("S2-CF-1")
def test_an_agent_keeps_every_setting_it_is_given(load_yaml: Load) -> None:
    settings = load_yaml("""
        mcp_servers:
          loki: {command: [loki-mcp]}
        agents:
          LogAnalyzer: {description: Reads logs}
          Investigator:
            description: Finds causes
            type: orchestrator
            mcp_servers: [loki]
            custom_instructions: Be brief
            iteration_strategy: native-thinking
            max_iterations: 7
    """)
    agent = settings.agent("Investigator")

    assert (agent.description, agent.type, agent.mcp_servers) == ("Finds causes", "orchestrator", ("loki",))
    assert (agent.custom_instructions, agent.strategy, agent.thinking) == ("Be brief", "loop", True)
    assert settings.limits_for(agent).max_iterations == 7


@requirement("S2-CF-1")
def test_an_agent_without_settings_has_the_documented_defaults(load_yaml: Load) -> None:
    settings = load_yaml("""
        agents:
          Plain:
    """)
    agent = settings.agent("Plain")

    assert agent == AgentSpec(name="Plain", model="sonnet")
    assert (agent.description, agent.type, agent.mcp_servers, agent.custom_instructions) == ("", "", (), "")
    assert (agent.strategy, agent.thinking, agent.sub_agents) == ("loop", False, None)
    assert settings.limits_for(agent).max_iterations == 20


def test_instructions_keep_their_line_breaks(load_yaml: Load) -> None:
    settings = load_yaml("""
        agents:
          Writer:
            custom_instructions: |
              First line.

                indented third
    """)

    assert settings.agent("Writer").custom_instructions == "First line.\n\n  indented third\n"


@requirement("S2-CF-6")
@pytest.mark.parametrize("key", ["strategy", "iteration_strategy"])
@pytest.mark.parametrize(
    ("written", "strategy", "thinking"),
    [
        ("loop", "loop", False),
        ("native-thinking", "loop", True),
        ("langchain", "loop", False),
        ("synthesis", "synthesis", False),
        ("synthesis-native-thinking", "synthesis", True),
    ],
)
def test_each_name_of_a_strategy_means_one_behaviour(
    load_yaml: Load, key: str, written: str, strategy: str, thinking: bool
) -> None:
    agent = load_yaml(f"agents: {{A: {{{key}: {written}}}}}").agent("A")

    assert (agent.strategy, agent.thinking) == (strategy, thinking)


@requirement("S2-CF-6")
def test_both_names_of_the_strategy_with_different_meaning_are_refused(load_yaml: Load, problems_of: Problems) -> None:
    [problem] = problems_of("agents: {A: {strategy: loop, iteration_strategy: synthesis}}")

    assert problem.path == "agents.A.iteration_strategy"
    assert "have different values" in problem.message
    assert load_yaml("agents: {A: {strategy: loop, iteration_strategy: langchain}}").agent("A").strategy == "loop"


def test_a_strategy_that_a_file_cannot_give_is_refused_with_the_reason(problems_of: Problems) -> None:
    [problem] = problems_of("agents: {A: {strategy: chain}}")

    assert "not a strategy" in problem.message
    assert problem.hint


@requirement("S2-CF-8")
def test_an_override_of_one_field_keeps_the_rest_of_a_built_in_agent(load_yaml: Load) -> None:
    before = load_yaml("agents: {}").agent(SYNTHESIZER)
    settings = load_yaml("agents: {Synthesizer: {custom_instructions: Answer in French}}")
    after = settings.agent(SYNTHESIZER)

    assert after.custom_instructions == "Answer in French"
    assert (after.description, after.strategy) == (before.description, "synthesis")
    assert SYNTHESIZER in [entry.name for entry in settings.sub_agents()]


@requirement("S2-CF-8")
def test_a_built_in_agent_can_be_given_another_strategy_under_either_name(load_yaml: Load) -> None:
    assert load_yaml("agents: {Synthesizer: {iteration_strategy: langchain}}").agent(SYNTHESIZER).strategy == "loop"
    assert load_yaml("agents: {synthesizer: {strategy: loop}}").agent(SYNTHESIZER).name == "synthesizer"


def test_a_reference_changes_the_agent_for_that_use_only(load_yaml: Load) -> None:
    settings = load_yaml("""
        defaults: {model: big}
        models: {big: {model: claude-big}, small: {model: claude-small}}
        mcp_servers: {loki: {command: [loki-mcp]}, prom: {command: [prom-mcp]}}
        agents:
          Worker: {description: Works, mcp_servers: [loki]}
          First: {sub_agents: [{name: Worker, model: small, max_iterations: 1, mcp_servers: [prom]}]}
          Second: {sub_agents: [Worker]}
    """)
    worker = settings.agent("Worker")
    [narrowed] = settings.catalogue(settings.agent("First"))
    [whole] = settings.catalogue(settings.agent("Second"))
    used = worker.overridden(narrowed.overrides)

    assert (used.model, used.mcp_servers, settings.limits_for(used).max_iterations) == ("small", ("prom",), 1)
    assert worker.overridden(whole.overrides) == worker
    assert settings.limits_for(worker).max_iterations == 20


ORCHESTRATOR = """
agents:
  LogAnalyzer: {description: Analyses logs}
  MetricChecker: {description: Checks metrics}
  MyOrchestrator:
    type: orchestrator
    description: "Dynamic SRE investigation orchestrator"
    custom_instructions: |
      You investigate alerts by dispatching specialized sub-agents...
    max_concurrent_agents: 5
    agent_timeout: 300s
agent_chains:
  focused-investigation:
    sub_agents: [LogAnalyzer, MetricChecker]
    stages:
      - name: investigate
        agents:
          - name: MyOrchestrator
"""


def test_a_file_of_agents_and_chains_alone_loads(load_yaml: Load) -> None:
    settings = load_yaml(ORCHESTRATOR)

    assert settings.model(settings.agent("MyOrchestrator").model).model.startswith("claude-")
    assert settings.chain("focused-investigation").stages[0].agents[0].name == "MyOrchestrator"


def test_an_agent_registered_in_code_can_be_named_in_a_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("registered") / "config.yaml"
    file.write_text("agents: {Boss: {sub_agents: [Probe]}}", encoding="utf-8")
    probe = AgentSpec(name="Probe", description="Probes", strategy="function")

    settings = load(file, {}, registered=[probe])

    assert settings.agent("probe").strategy == "function"
    assert [entry.name for entry in settings.catalogue(settings.agent("Boss"))] == ["Probe"]
    with pytest.raises(ConfigError, match="has no description"):
        load(file, {}, registered=[AgentSpec(name="Probe", strategy="function")])
    file.write_text("agents: {probe: {}}", encoding="utf-8")
    with pytest.raises(ConfigError, match="registered in code"):
        load(file, {}, registered=[probe])
