import pytest

from tests.registry.conftest import Load, Problems, first_place
from tests.support.requirement import requirement


@requirement("S2-VA-4")
@pytest.mark.parametrize(
    "text",
    [
        "agents: {Mute: {}, Lead: {sub_agents: [Mute]}}",
        "agents: {M: {description: ' '}, A: {}}\nagent_chains: {c: {sub_agents: [m], stages: [{name: s, agents: [A]}]}}",
    ],
)
def test_an_agent_in_a_list_needs_a_description(problems_of: Problems, text: str) -> None:
    [problem] = problems_of(text)

    assert "has no description" in problem.message
    assert problem.path.endswith("sub_agents[0]")


@requirement("S2-VA-5")
@pytest.mark.parametrize(
    ("agent", "path"),
    [
        ("{type: orchestrator, strategy: synthesis}", "agents.Lead.type"),
        ("{type: orchestrator, sub_agents: []}", "agents.Lead.sub_agents"),
        ("{type: orchestrator}, Synthesizer: {description: ''}", "agents.Lead"),
    ],
)
def test_an_orchestrator_that_could_never_dispatch_is_refused(problems_of: Problems, agent: str, path: str) -> None:
    [problem] = problems_of(f"agents: {{Lead: {agent}}}")

    assert problem.path == path
    assert "orchestrator" in problem.message


@requirement("S2-VA-5")
@pytest.mark.parametrize("level", ["chain", "stage"])
def test_an_empty_list_on_chain_or_stage_makes_it_a_plain_agent_there(load_yaml: Load, level: str) -> None:
    empty = {"chain": "", "stage": "", level: "sub_agents: [], "}
    settings = load_yaml(f"""
        agents: {{Lead: {{type: orchestrator}}}}
        agent_chains: {{c: {{{empty["chain"]}stages: [{{{empty["stage"]}name: s, agents: [Lead]}}]}}}}
    """)

    assert settings.catalogue(settings.agent("Lead"), first_place(settings, "c")) == ()
    assert settings.catalogue(settings.agent("Lead")) != ()


@requirement("S2-VA-6")
@pytest.mark.parametrize("synthesis", ["Lead", "{name: Lead}", "Lister"])
def test_an_agent_that_dispatches_cannot_merge_the_results_of_a_stage(problems_of: Problems, synthesis: str) -> None:
    [problem] = problems_of(f"""
        agents: {{Worker: {{description: w}}, Lead: {{type: orchestrator}}, Lister: {{sub_agents: [Worker]}}}}
        agent_chains: {{c: {{stages: [{{name: s, agents: [Worker], synthesis: {synthesis}}}]}}}}
    """)

    assert problem.path == "agent_chains.c.stages[0].synthesis"
    assert "cannot merge" in problem.message


@requirement("S2-VA-8")
def test_an_agent_that_lists_itself_is_refused_while_cycles_are_checked(load_yaml: Load, problems_of: Problems) -> None:
    [problem] = problems_of("agents: {Self: {description: x, sub_agents: [self]}}")

    assert problem.path == "agents.Self.sub_agents[0]"
    assert "cycle_check" in problem.hint
    load_yaml("agents: {Self: {description: x, sub_agents: [Self], limits: {cycle_check: false}}}")
    load_yaml("defaults: {limits: {cycle_check: false}}\nagents: {Self: {description: x, sub_agents: [Self]}}")


@requirement("S2-VA-8")
def test_a_chain_cannot_make_an_agent_list_itself(load_yaml: Load, problems_of: Problems) -> None:
    chain = "agent_chains: {c: {sub_agents: [A], stages: [{name: s, agents: [{name: A%s}]}]}}"
    agents = "agents: {A: {description: a}, B: {description: b}}\n"

    [problem] = problems_of(agents + chain % "")

    assert problem.path == "agent_chains.c.sub_agents[0]"
    load_yaml(agents + chain % ", limits: {cycle_check: false}")
    load_yaml(agents + chain % ", sub_agents: [B]")


def test_a_longer_cycle_is_left_to_the_guard(load_yaml: Load) -> None:
    settings = load_yaml("agents: {A: {description: a, sub_agents: [B]}, B: {description: b, sub_agents: [A]}}")

    assert [entry.name for entry in settings.catalogue(settings.agent("A"))] == ["B"]


@requirement("S2-CH-1")
def test_an_alert_type_starts_one_chain(load_yaml: Load, problems_of: Problems) -> None:
    chain = "{alert_types: [%s], stages: [{name: s, agents: [Synthesizer]}]}"

    [problem] = problems_of(f"agent_chains: {{a: {chain % 'Down'}, b: {chain % 'Up, Down'}}}")

    assert problem.path == "agent_chains.b.alert_types[1]"
    assert "already starts the chain `a`" in problem.message
    settings = load_yaml(f"agent_chains: {{a: {chain % 'Down'}, b: {chain % 'Up'}}}")
    assert settings.chain_for_alert("Up").name == "b"
