import pytest

from registry import ConfigError
from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement


@requirement("S2-VA-1")
@pytest.mark.parametrize(
    ("text", "path", "meant"),
    [
        ("agentz: {}", "agentz", "agents"),
        ("defaults: {modle: x}", "defaults.modle", "model"),
        ("defaults: {limits: {max_dept: 3}}", "defaults.limits.max_dept", "max_depth"),
        ("models: {m: {model: x, prise: {}}}", "models.m.prise", "price"),
        ("models: {m: {model: x, price: {inputs: 1}}}", "models.m.price.inputs", "input"),
        ("models: {m: {model: x, price: {above: {token: 1, tokens: 1}}}}", "models.m.price.above.token", "tokens"),
        ("models: {m: {model: x, timeouts: {stal: 1s}}}", "models.m.timeouts.stal", "stall"),
        ("mcp_servers: {s: {command: [x], timeuot: 1s}}", "mcp_servers.s.timeuot", "timeout"),
        ("mcp_servers: {s: {command: [x], tools: {alow: []}}}", "mcp_servers.s.tools.alow", "allow"),
        ("agents: {A: {descripton: x}}", "agents.A.descripton", "description"),
        ("agents: {A: {sub_agents: [{name: B, modle: x}]}, B: {description: b}}", "agents.A.sub_agents[0].modle", "model"),
        ("agent_chains: {c: {stagse: [], stages: [{name: s, agents: [Synthesizer]}]}}", "agent_chains.c.stagse", "stages"),
        (
            "agent_chains: {c: {stages: [{name: s, agent: [], agents: [Synthesizer]}]}}",
            "agent_chains.c.stages[0].agent",
            "agents",
        ),
        (
            "agent_chains: {c: {stages: [{name: s, agents: [{name: Synthesizer, replica: 2}]}]}}",
            "agent_chains.c.stages[0].agents[0].replica",
            "replicas",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(
    problems_of: Problems, text: str, path: str, meant: str
) -> None:
    [problem] = problems_of(text)

    assert (problem.file, problem.line, problem.path) == ("config.yaml", 1, path)
    assert problem.column == text.index(f"{path.rpartition('.')[2]}:") + 1
    assert f"did you mean `{meant}`?" in problem.hint


@requirement("S2-VA-2")
def test_a_key_given_twice_is_refused_with_both_lines(problems_of: Problems) -> None:
    [problem] = problems_of("""\
        agents:
          A: {description: first}
          B: {description: other}
          A: {description: second}
    """)

    assert (problem.line, problem.path) == (4, "agents.A")
    assert "line 2 and in line 4" in problem.message


@requirement("S2-VA-3")
@pytest.mark.parametrize(
    ("text", "path", "message", "known"),
    [
        ("agents: {Worker: {sub_agents: [Wroker2]}}", "agents.Worker.sub_agents[0]", "no agent named `Wroker2`", "Worker"),
        (
            "agents: {Worker: {sub_agents: [{name: Bogus}]}}",
            "agents.Worker.sub_agents[0].name",
            "no agent named `Bogus`",
            "Worker",
        ),
        (
            "mcp_servers: {loki: {command: [x]}}\nagents: {A: {mcp_servers: [lokki]}}",
            "agents.A.mcp_servers[0]",
            "no server named `lokki`",
            "loki",
        ),
        (
            "mcp_servers: {loki: {command: [x]}}\nagents: {A: {sub_agents: [{name: Synthesizer, mcp_servers: [x]}]}}",
            "agents.A.sub_agents[0].mcp_servers[0]",
            "no server named `x`",
            "loki",
        ),
        ("models: {big: {model: x}}\nagents: {A: {model: bigg}}", "agents.A.model", "no model named `bigg`", "big"),
        ("models: {big: {model: x, fallback: [small]}}", "models.big.fallback[0]", "no model named `small`", "big"),
        ("defaults: {model: bigg}\nmodels: {big: {model: x}}", "defaults.model", "no model named `bigg`", "big"),
        (
            "agent_chains: {c: {sub_agents: [X], stages: [{name: s, agents: [Synthesizer]}]}}",
            "agent_chains.c.sub_agents[0]",
            "no agent named `X`",
            "Synthesizer",
        ),
        (
            "agent_chains: {c: {stages: [{name: s, agents: [X]}]}}",
            "agent_chains.c.stages[0].agents[0]",
            "no agent named `X`",
            "Synthesizer",
        ),
        (
            "agent_chains: {c: {stages: [{name: s, sub_agents: [X], agents: [Synthesizer]}]}}",
            "agent_chains.c.stages[0].sub_agents[0]",
            "no agent named `X`",
            "Synthesizer",
        ),
        (
            "agent_chains: {c: {stages: [{name: s, synthesis: X, agents: [Synthesizer]}]}}",
            "agent_chains.c.stages[0].synthesis",
            "no agent named `X`",
            "Synthesizer",
        ),
        (
            "agents: {A: {tools: {deny: [lokki.query]}}}\nmcp_servers: {loki: {command: [x]}}",
            "agents.A.tools.deny[0]",
            "no server named `lokki`",
            "loki",
        ),
    ],
)
def test_a_name_that_does_not_exist_is_refused_with_the_known_ones(
    problems_of: Problems, text: str, path: str, message: str, known: str
) -> None:
    [problem] = problems_of(text)

    assert (problem.path, problem.line > 0) == (path, True)
    assert message in problem.message
    assert f"`{known}`" in problem.hint


FIVE_FAULTS = """\
defaults:
  limits: {max_depth: 0}
agents:
  Alpha: {descripton: x}
  Beta: {sub_agents: [Nobody]}
  Gamma: {timeout: 5 parsecs, mcp_servers: [nowhere]}
"""


@requirement("S2-VA-9")
def test_all_problems_come_in_one_report_in_the_order_of_the_file(load_yaml: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load_yaml(FIVE_FAULTS)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("config.yaml:")]

    assert [line.split(": ")[:2] for line in lines] == [
        ["config.yaml:2:23", "defaults.limits.max_depth"],
        ["config.yaml:4:11", "agents.Alpha.descripton"],
        ["config.yaml:5:23", "agents.Beta.sub_agents[0]"],
        ["config.yaml:6:20", "agents.Gamma.timeout"],
        ["config.yaml:6:45", "agents.Gamma.mcp_servers[0]"],
    ]


@requirement("S2-VA-9")
def test_a_fault_hides_no_other_and_invents_none(problems_of: Problems) -> None:
    problems = problems_of("""
        models: {broken: {modle: x}}
        defaults: {model: broken}
        agents:
          Mute: {descripton: misspelt}
          Lead: {sub_agents: [Mute, Nobody], max_iterations: 0, timeout: 1s, limits: {timeout: 2s}}
        agent_chains:
          c: {stages: [{agents: [Lead, Nowhere]}, {name: s, agents: []}, 5], sub_agents: [[], [], Noone]}
          d: {alert_types: [5, 5]}
          e: {alert_types: [5, 5], stages: [{name: s, agents: [{nam: x}, "${UNSET}"]}]}
    """)

    assert [(problem.path, problem.message.split(":")[0]) for problem in problems] == [
        ("models.broken.model", "`model` is missing"),
        ("models.broken.modle", "unknown key `modle`"),
        ("agents.Mute.descripton", "unknown key `descripton`"),
        ("agents.Lead.sub_agents[1]", "no agent named `Nobody`"),
        ("agents.Lead.max_iterations", "must be at least 1, not `0`"),
        ("agents.Lead.timeout", "`timeout` and `limits.timeout` are one setting and have different values here"),
        ("agent_chains.c.stages[0].name", "`name` is missing"),
        ("agent_chains.c.stages[0].agents[1]", "no agent named `Nowhere`"),
        ("agent_chains.c.stages[1].agents", "must not be empty"),
        ("agent_chains.c.stages[2]", "a mapping is expected, not a number"),
        ("agent_chains.c.sub_agents[0]", "a name, or a mapping with a `name`, is expected, not a list"),
        ("agent_chains.c.sub_agents[1]", "a name, or a mapping with a `name`, is expected, not a list"),
        ("agent_chains.c.sub_agents[2]", "no agent named `Noone`"),
        ("agent_chains.d.stages", "`stages` is missing"),
        ("agent_chains.d.alert_types[0]", "a text is expected, not a number"),
        ("agent_chains.d.alert_types[1]", "a text is expected, not a number"),
        ("agent_chains.e.alert_types[0]", "a text is expected, not a number"),
        ("agent_chains.e.alert_types[1]", "a text is expected, not a number"),
        ("agent_chains.e.stages[0].agents[0].name", "`name` is missing"),
        ("agent_chains.e.stages[0].agents[0].nam", "unknown key `nam`"),
        ("agent_chains.e.stages[0].agents[1]", "environment variable `UNSET` is not set"),
    ]


@requirement("S2-LE-9")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("mcp_servers: {s: {url: 'http://x', env: {A: b}}}", "mcp_servers.s.env"),
        ("mcp_servers: {s: {url: 'http://x', cwd: here}}", "mcp_servers.s.cwd"),
        ("mcp_servers: {s: {command: [x], headers: {A: b}}}", "mcp_servers.s.headers"),
        (
            "mcp_servers: {s: {command: [x]}}\nagents: {A: {strategy: synthesis, mcp_servers: [s]}}",
            "agents.A.mcp_servers",
        ),
        ("agents: {A: {strategy: synthesis, sub_agents: [Synthesizer]}}", "agents.A.sub_agents"),
        ("agents: {A: {strategy: synthesis, memory: true}}", "agents.A.memory"),
        (
            "agent_chains: {c: {stages: [{name: s, agents: [{name: Synthesizer, sub_agents: [synthesizer]}]}]}}",
            "agent_chains.c.stages[0].agents[0].sub_agents",
        ),
        ("agent_chains: {c: {timeout: 1m, stages: [{name: s, agents: [Synthesizer]}]}}", "agent_chains.c.timeout"),
    ],
)
def test_a_setting_without_effect_is_refused(problems_of: Problems, text: str, path: str) -> None:
    [problem] = problems_of(text)

    assert problem.path == path


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("agents: {A: {max_iterations: '5'}}", "agents.A.max_iterations", "a whole number is expected, not a text"),
        ("agents: {A: {max_iterations: 1.5}}", "agents.A.max_iterations", "a whole number is expected"),
        ("agents: {A: {max_iterations: true}}", "agents.A.max_iterations", "not a flag"),
        ("agents: {A: {description: 5}}", "agents.A.description", "a text is expected, not a number"),
        ("agents: {A: {limits: {cycle_check: yes}}}", "agents.A.limits.cycle_check", "`true` or `false` is expected"),
        ("agents: {A: {sub_agents: B}}", "agents.A.sub_agents", "a list is expected, not a text"),
        (
            "agents: {A: {sub_agents: [5]}}",
            "agents.A.sub_agents[0]",
            "a name, or a mapping with a `name`, is expected, not a number",
        ),
        ("agents: {A: []}", "agents.A", "a mapping is expected, not a list"),
        ("agents: []", "agents", "a mapping is expected, not a list"),
        ("agents: {A: {type: orchestra}}", "agents.A.type", "`orchestra` is not allowed here"),
        ("agents: {A: {description: }}", "agents.A.description", "has no value"),
        ("agents: {A: {sub_agents: }}", "agents.A.sub_agents", "has no value"),
        ("defaults: {limits: {wake: some}}", "defaults.limits.wake", "not allowed here"),
        ("mcp_servers: {s: {}}", "mcp_servers.s", "exactly one of `command` and `url`"),
        ("mcp_servers: {s: {command: [x], url: 'http://x'}}", "mcp_servers.s", "exactly one of"),
        ("mcp_servers: {s: {command: npx thing}}", "mcp_servers.s.command", "`command` must be a list"),
        ("mcp_servers: {s: {command: []}}", "mcp_servers.s.command", "must not be empty"),
        ("mcp_servers: {s: {url: ftp://x}}", "mcp_servers.s.url", "`http://` or `https://`"),
        ("mcp_servers: {s: {command: [x], env: {PORT: 80}}}", "mcp_servers.s.env.PORT", "a text is expected"),
        ("mcp_servers: {s: {command: [x], effects: {q: never}}}", "mcp_servers.s.effects.q", "not allowed here"),
        ("mcp_servers: {s: {command: [x], gates: {q: always}}}", "mcp_servers.s.gates.q", "not allowed here"),
        ("models: {m: {model: x, price: {input: -1}}}", "models.m.price.input", "at least 0"),
        ("models: {m: {model: x, provider: other}}", "models.m.provider", "`other` is not allowed here"),
        ("models: {m: {model: x, api_key: sk-abc}}", "models.m.api_key", "never by its value"),
        ("models: {m: {model: x, rehearsal: none.yaml}}", "models.m.rehearsal", "there is no file `none.yaml`"),
        ("models: {m: {model: x, fallback: [m]}}", "models.m.fallback", "fallbacks form a cycle: m → m"),
        ("models: {a: {model: x}, b: {model: y}}", "models", "no default model for `Synthesizer`"),
        ("agents: {'a b': {}}", "agents.a b", "cannot be a name"),
        ("agents: {A: {description: a}, L: {sub_agents: [A, a]}}", "agents.L.sub_agents[1]", "listed twice"),
        ("mcp_servers: {s: {command: [x]}}\nagents: {A: {mcp_servers: [s, S]}}", "agents.A.mcp_servers[1]", "twice"),
        ("agent_chains: {c: {stages: []}}", "agent_chains.c.stages", "must not be empty"),
        (
            "agent_chains: {c: {stages: [{name: s, agents: [Synthesizer]}, {name: S, agents: [Synthesizer]}]}}",
            "agent_chains.c.stages[1].name",
            "two stages",
        ),
        (
            "agent_chains: {c: {stages: [{name: s, agents: [{name: Synthesizer, replicas: 0}]}]}}",
            "agent_chains.c.stages[0].agents[0].replicas",
            "at least 1",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_stands(problems_of: Problems, text: str, path: str, message: str) -> None:
    [problem] = problems_of(text)

    assert (problem.path, problem.line > 0) == (path, True)
    assert message in problem.message


def test_a_fallback_cycle_is_reported_once(problems_of: Problems) -> None:
    [problem] = problems_of("""
        defaults: {model: a}
        models: {a: {model: x, fallback: [b]}, b: {model: x, fallback: [c]}, c: {model: x, fallback: [b, a]}}
    """)

    assert problem.message == "fallbacks form a cycle: a → b → c → a"
