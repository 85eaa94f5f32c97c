from dataclasses import FrozenInstanceError

import pytest

from registry import CatalogueEntry, resolve_catalogue
from tests.registry.conftest import Load, first_place
from tests.support.requirement import requirement

AGENTS = """
mcp_servers: {loki: {command: [loki-mcp]}, prom: {command: [prom-mcp]}}
agents:
  Zed: {description: Last letter first, mcp_servers: [loki, prom]}
  Ann: {description: " Reads logs ", mcp_servers: [loki]}
  Bob: {description: Checks metrics, mcp_servers: [prom]}
"""


def names(entries: tuple[CatalogueEntry, ...]) -> list[str]:
    return [entry.name for entry in entries]


@requirement("S2-RG-1")
def test_an_entry_has_name_description_and_servers(load_yaml: Load) -> None:
    entries = load_yaml(AGENTS).sub_agents()

    assert entries[:3] == (
        CatalogueEntry("Zed", "Last letter first", ("loki", "prom")),
        CatalogueEntry("Ann", "Reads logs", ("loki",)),
        CatalogueEntry("Bob", "Checks metrics", ("prom",)),
    )


@requirement("S2-RG-2")
def test_agents_without_a_description_are_not_in_the_registry(load_yaml: Load) -> None:
    settings = load_yaml("""
        agents:
          Absent: {}
          Empty: {description: ""}
          Blank: {description: "  "}
          Present: {description: Works}
    """)

    assert names(settings.sub_agents()) == ["Present", "Synthesizer"]
    assert settings.agent("Absent").name == "Absent"


@requirement("S2-RG-3")
def test_agents_that_can_dispatch_are_there_only_when_named(load_yaml: Load) -> None:
    settings = load_yaml("""
        agents:
          Worker: {description: Works}
          One: {description: First, type: orchestrator}
          Two: {description: Second, type: orchestrator}
          Lead: {description: Lists a worker, sub_agents: [Worker]}
          Chief: {sub_agents: [One, Worker]}
    """)

    assert names(settings.catalogue(settings.agent("One"))) == ["Worker", "Synthesizer"]
    assert names(settings.catalogue(settings.agent("Two"))) == ["Worker", "Synthesizer"]
    assert names(settings.catalogue(settings.agent("Chief"))) == ["One", "Worker"]


LEVELS = ["stage agent", "stage", "chain", "agent"]


@requirement("S2-RG-4")
@pytest.mark.parametrize("kind", ["orchestrator", ""])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"agent": "[Zed]"}, ["Zed"]),
        ({"chain": "[Ann]"}, ["Ann"]),
        ({"stage": "[Bob]"}, ["Bob"]),
        ({"stage agent": "[Ann, Bob]"}, ["Ann", "Bob"]),
        ({"chain": "[Ann]", "agent": "[Zed]"}, ["Ann"]),
        ({"stage": "[Bob]", "chain": "[Ann]", "agent": "[Zed]"}, ["Bob"]),
        ({"stage agent": "[Zed]", "stage": "[Bob]", "chain": "[Ann]"}, ["Zed"]),
        ({"stage agent": "[]", "stage": "[Bob]", "agent": "[Zed]"}, []),
        ({"stage": "[]", "chain": "[Ann]"}, []),
        ({"chain": "[]", "agent": "[Zed]"}, []),
        ({}, None),
    ],
)
def test_the_most_specific_list_decides(
    load_yaml: Load, kind: str, given: dict[str, str], expected: list[str] | None
) -> None:
    lists = {level: f"sub_agents: {given[level]}, " if level in given else "" for level in LEVELS}
    settings = load_yaml(
        AGENTS
        + f"""
  Lead: {{{lists["agent"]}type: "{kind}"}}
agent_chains:
  run: {{{lists["chain"]}stages: [{{{lists["stage"]}name: s, agents: [{{{lists["stage agent"]}name: Lead}}]}}]}}
"""
    )
    everyone = ["Zed", "Ann", "Bob", "Synthesizer"] if kind else []

    catalogue = settings.catalogue(settings.agent("Lead"), first_place(settings, "run"))

    assert names(catalogue) == (everyone if expected is None else expected)


@requirement("S2-RG-5")
def test_one_orchestrator_in_two_chains_has_two_catalogues(load_yaml: Load) -> None:
    settings = load_yaml(
        AGENTS
        + """
  Lead: {type: orchestrator}
agent_chains:
  logs: {sub_agents: [Ann], stages: [{name: s, agents: [Lead]}]}
  metrics: {sub_agents: [Bob], stages: [{name: s, agents: [Lead]}]}
"""
    )
    lead = settings.agent("Lead")

    assert names(settings.catalogue(lead, first_place(settings, "logs"))) == ["Ann"]
    assert names(settings.catalogue(lead, first_place(settings, "metrics"))) == ["Bob"]
    assert names(settings.catalogue(lead)) == ["Zed", "Ann", "Bob", "Synthesizer"]


@requirement("S2-RG-6")
def test_built_in_agents_are_included(load_yaml: Load) -> None:
    settings = load_yaml("agents: {Lead: {type: orchestrator}}")

    [entry] = settings.catalogue(settings.agent("Lead"))

    assert entry.name == "Synthesizer"
    assert entry.description


@requirement("S2-RG-7")
def test_the_order_is_that_of_the_file_every_time(load_yaml: Load) -> None:
    text = AGENTS + "  Lead: {type: orchestrator}\n  Picky: {sub_agents: [Bob, Zed]}\n"
    seen = {
        str((settings.catalogue(settings.agent("Lead")), settings.catalogue(settings.agent("Picky"))))
        for settings in (load_yaml(text) for _ in range(20))
    }
    settings = load_yaml(text)

    assert len(seen) == 1
    assert names(settings.catalogue(settings.agent("Lead"))) == ["Zed", "Ann", "Bob", "Synthesizer"]
    assert names(settings.catalogue(settings.agent("Picky"))) == ["Bob", "Zed"]


@requirement("S2-RG-8")
def test_nothing_that_was_loaded_can_be_changed(load_yaml: Load) -> None:
    settings = load_yaml(AGENTS)
    entry = settings.sub_agents()[0]

    with pytest.raises(FrozenInstanceError):
        entry.description = "changed"  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.agents["Ann"] = settings.agent("Bob")  # type: ignore[index]
    with pytest.raises(TypeError):
        settings.upstream("loki").env["A"] = "b"  # type: ignore[index]
    assert settings.sub_agents()[0] == entry


@requirement("S2-RG-9")
def test_overrides_on_a_reference_show_in_the_catalogue(load_yaml: Load) -> None:
    settings = load_yaml(
        AGENTS + "  Lead: {sub_agents: [{name: ann, mcp_servers: [prom]}, Ann2]}\n  Ann2: {description: x}\n"
    )

    entries = resolve_catalogue(settings.agents, settings.agent("Lead"))

    assert (entries[0].name, entries[0].mcp_servers) == ("Ann", ("prom",))
    assert settings.agent("Ann").mcp_servers == ("loki",)
