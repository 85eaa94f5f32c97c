import sys
from pathlib import Path

import pytest

import registry
from registry import ConfigError, describe
from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement

CANARY = "canary-7391-canary"


@requirement("S2-VA-10")
def test_a_variable_that_is_not_set_is_an_error_that_names_it(problems_of: Problems) -> None:
    [problem] = problems_of("mcp_servers: {s: {command: [x], env: {TOKEN: '${SRE_TOKEN}'}}}")

    assert problem.path == "mcp_servers.s.env.TOKEN"
    assert "`SRE_TOKEN` is not set" in problem.message
    assert "${SRE_TOKEN:-value}" in problem.hint


@requirement("S2-VA-10")
@pytest.mark.parametrize(
    ("source", "environ", "value"),
    [
        ("${A:-fallback}", {}, "fallback"),
        ("${A:-fallback}", {"A": "set"}, "set"),
        ("${A:-fallback}", {"A": ""}, "fallback"),
        ("${A:-}", {}, ""),
        ("${A}", {"A": ""}, ""),
        ("Bearer ${A}/${B:-b}", {"A": "a"}, "Bearer a/b"),
        ("$${A} costs $5", {"A": "a"}, "${A} costs $5"),
        ("${A}", {"A": "${B}", "B": "b"}, "${B}"),
        ("${A:-http://x:1}", {}, "http://x:1"),
    ],
)
def test_references_are_replaced_once(load_yaml: Load, source: str, environ: dict[str, str], value: str) -> None:
    settings = load_yaml(f"mcp_servers: {{s: {{command: [x], env: {{V: '{source}'}}}}}}", environ)

    assert settings.upstream("s").env["V"] == value


@pytest.mark.parametrize("source", ["${", "${A", "${A-b}", "${1A}", "${}"])
def test_a_broken_reference_is_refused(problems_of: Problems, source: str) -> None:
    [problem] = problems_of(f"agents: {{A: {{description: '{source}'}}}}", {"A": "a"})

    assert "not a valid one" in problem.message
    assert "$${" in problem.hint


def test_an_expanded_scalar_has_the_type_its_field_needs(load_yaml: Load) -> None:
    settings = load_yaml(
        """
        models: {m: {model: "${ID}", price: {input: "${PRICE}"}, thinking: "${THINK}"}}
        agents:
          A:
            timeout: ${T:-30s}
            agent_timeout: ${SECONDS}
            max_iterations: ${N:-7}
            description: ${ID}
            limits: {cycle_check: "${CHECK:-false}", max_cost_usd: "${COST}", wake: "${WAKE}"}
        """,
        {"SECONDS": "45", "ID": "123", "PRICE": "2.5", "THINK": "true", "COST": "1", "WAKE": "any"},
    )
    agent = settings.agent("A")
    limits = settings.limits_for(agent)

    assert (limits.timeout, limits.agent_timeout, limits.max_iterations) == (30, 45, 7)
    assert (limits.cycle_check, limits.max_cost_usd, limits.wake) == (False, 1, "any")
    assert (agent.description, settings.model("m").model, settings.model("m").thinking) == ("123", "123", True)


def test_the_interpreter_and_the_folders_are_known_without_being_set(load_yaml: Load, tmp_path: Path) -> None:
    text = """
        mcp_servers:
          s: {command: ["${OUTRIDER_PYTHON}", "${OUTRIDER_CONFIG_DIR}/x.py", "${OUTRIDER_HOME}"]}
    """

    assert load_yaml(text).upstream("s").command == (
        sys.executable,
        f"{tmp_path}/x.py",
        str(Path(registry.__file__).parent.parent),
    )
    assert load_yaml(text, {"OUTRIDER_PYTHON": "other"}).upstream("s").command[:1] == ("other",)  # type: ignore[index]


@pytest.mark.parametrize(
    "text",
    [
        "agents: {A: {timeout: '${SECRET}'}}",
        "agents: {A: {max_iterations: '${SECRET}'}}",
        "agents: {A: {limits: {cycle_check: '${SECRET}'}}}",
        "agents: {A: {limits: {max_cost_usd: '${SECRET}'}}}",
        "agents: {A: {type: '${SECRET}'}}",
        "agents: {A: {strategy: '${SECRET}'}}",
        "agents: {A: {model: '${SECRET}'}}",
        "agents: {A: {sub_agents: '${SECRET}'}}",
        "agents: {A: {sub_agents: ['${SECRET}']}}",
        "agents: {A: {sub_agents: [{name: '${SECRET}'}]}}",
        "agents: {A: {mcp_servers: ['${SECRET}', '${SECRET}']}}",
        "agents: {A: {tools: {deny: ['${SECRET}.x']}}}",
        "agents: {A: '${SECRET}'}",
        "agents: '${SECRET}'",
        "defaults: {model: '${SECRET}'}",
        "models: {m: {model: x, fallback: ['${SECRET}']}}",
        "models: {m: {model: x, base_url: '${SECRET}'}}",
        "models: {m: {model: x, rehearsal: '${SECRET}'}}",
        "mcp_servers: {s: {url: '${SECRET}'}}",
        "mcp_servers: {s: {command: '${SECRET}'}}",
        "mcp_servers: {s: {command: [x], effects: {a: '${SECRET}'}}}",
        "agent_chains: {c: {stages: [{name: s, agents: ['${SECRET}']}]}}",
        "agent_chains: {c: {stages: [{name: s, agents: [Synthesizer], synthesis: '${SECRET}'}]}}",
        "agent_chains: {c: {stages: [{name: '${SECRET}', agents: [X]}, {name: '${SECRET}', agents: [X]}]}}",
        "agent_chains: {a: &a {alert_types: ['${SECRET}'], stages: [{name: s, agents: [X]}]}, b: *a}",
    ],
)
def test_no_error_shows_the_value_of_a_variable(load_yaml: Load, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_yaml(text, {"SECRET": CANARY})

    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value.problems)


@pytest.mark.parametrize(
    "value", [f"{CANARY}\n", f" {CANARY}", f"{CANARY}\t", f"{CANARY[:4]}\r\nX-Forged: yes{CANARY[4:]}"]
)
def test_a_header_that_cannot_be_sent_is_refused_without_being_shown(load_yaml: Load, value: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml:1:.*must not begin or end with white space") as caught:
        load_yaml("mcp_servers: {s: {url: 'http://x', headers: {Authorization: '${SECRET}'}}}", {"SECRET": value})

    assert CANARY not in str(caught.value)
    assert caught.value.problems[0].path == "mcp_servers.s.headers.Authorization"


SECRETIVE = """
models: {m: {model: x, api_key: "${MODEL_KEY}", base_url: "https://user:canary-7391-canary@host"}}
mcp_servers:
  local:
    command: [program, --token, canary-7391-canary, --api-key=canary-7391-canary, --verbose]
    env: {GRAFANA_TOKEN: canary-7391-canary, FROM_VARIABLE: "${SECRET}", PASSWORD: "${UNSET:-canary-7391-canary}"}
  remote:
    url: https://host/mcp?key=canary-7391-canary
    headers: {Authorization: canary-7391-canary, X-Other: "Bearer ${SECRET}"}
agents: {A: {custom_instructions: "${SECRET}"}}
"""


@requirement("S2-VA-11")
def test_neither_the_printed_nor_the_stored_configuration_holds_a_secret(load_yaml: Load) -> None:
    settings = load_yaml(SECRETIVE, {"SECRET": CANARY})

    assert CANARY in settings.agent("A").custom_instructions
    assert settings.upstream("local").env["GRAFANA_TOKEN"] == CANARY
    assert CANARY not in describe(settings)
    assert CANARY not in settings.snapshot
    assert CANARY not in repr(settings.upstreams)
    assert "Bearer ${SECRET}" in describe(settings)


def test_a_key_is_read_by_the_name_of_its_variable_when_it_is_used(load_yaml: Load) -> None:
    settings = load_yaml("models: {m: {model: x, api_key: '${NOT_SET_YET}'}, n: {model: y}}\ndefaults: {model: n}")

    assert settings.model("m").api_key_env == "NOT_SET_YET"
    assert settings.model("n").api_key_env == "ANTHROPIC_API_KEY"
