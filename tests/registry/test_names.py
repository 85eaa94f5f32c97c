import pytest

from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement


@requirement("S2-TN-4")
@pytest.mark.parametrize(
    "name", ["a.b", "a__b", "a--b", "-a", "a_", "a b", "orchestrator", "Orchestrator", "outrider", "x" * 65, "é"]
)
def test_a_server_name_that_could_not_be_told_apart_is_refused(problems_of: Problems, name: str) -> None:
    [problem] = problems_of(f"mcp_servers: {{'{name}': {{command: [x]}}}}")

    assert f"`{name}` cannot be a name here" in problem.message


@requirement("S2-TN-4")
def test_server_names_of_letters_digits_and_single_separators_load(load_yaml: Load) -> None:
    settings = load_yaml("mcp_servers: {a-b_c9: {command: [x]}, K8s: {url: 'https://k8s.example'}}")

    assert list(settings.upstreams) == ["a-b_c9", "K8s"]


@requirement("S2-TL-9")
@pytest.mark.parametrize(
    "text",
    [
        "agents: {Log-Analyzer: {}, log_analyzer: {}}",
        "agents: {Same: {}}\nagent_chains: {same: {stages: [{name: s, agents: [Same]}]}}",
        "mcp_servers: {a-b: {command: [x]}, A_B: {command: [x]}}",
        "models: {big: {model: x}, BIG: {model: y}}\ndefaults: {model: big}",
    ],
)
def test_two_names_that_fold_alike_are_refused(problems_of: Problems, text: str) -> None:
    [problem] = problems_of(text)

    assert "is the same name as" in problem.message
    assert "in line 1" in problem.message


@requirement("S2-TL-9")
def test_a_reference_may_be_spelt_differently(load_yaml: Load) -> None:
    settings = load_yaml("""
        mcp_servers: {Loki-Main: {command: [x]}}
        models: {Big: {model: x}}
        agents:
          Log-Analyzer: {description: Reads logs, mcp_servers: [loki_main], model: big}
          Lead: {sub_agents: [log_analyzer]}
        agent_chains: {c: {stages: [{name: s, agents: [lead], synthesis: synthesizer}]}}
    """)

    assert settings.agent("LOG_ANALYZER").mcp_servers == ("Loki-Main",)
    assert settings.agent("Log-Analyzer").model == "Big"
    assert [entry.name for entry in settings.catalogue(settings.agent("lead"))] == ["Log-Analyzer"]
    assert (settings.chain("C").stages[0].agents[0].name, settings.chain("c").stages[0].synthesis) == (
        "Lead",
        "Synthesizer",
    )
