import json
from pathlib import Path

import pytest

from registry import ConfigError, Limits, Price, Settings, StreamTimeouts, UnknownName, load, restore
from tests.registry.conftest import Load, first_place

CONFIG = """\
defaults: {model: sonnet, limits: {timeout: "${TIMEOUT:-500s}", max_concurrent_roots: 9}}
models:
  sonnet: {model: claude-sonnet-5-5, fallback: [Haiku], price: {input: 2, output: 10, above: {tokens: 9, input: 4}}}
  haiku: {model: claude-haiku-5-5, api_key: "${HAIKU_KEY}", cache: 1h, timeouts: {stall: 90s}, rehearsal: talk.yaml}
mcp_servers:
  loki:
    command: ["${OUTRIDER_PYTHON}", -m, loki]
    cwd: tools
    env: {TOKEN: literal-secret, NAME: "${NAME}"}
    tools: {allow: [query*], deny: [query_all]}
    effects: {query: read_only, "query*": ask}
    gates: {query_raw: ask, "query*": none}
    trust_annotations: true
    timeout: 30s
agents:
  LogAnalyzer: {description: Reads logs, mcp_servers: [loki], tools: {deny: [loki.query_raw]}}
  Investigator:
    type: orchestrator
    iteration_strategy: native-thinking
    sub_agents: [log-analyzer, {name: Synthesizer, max_iterations: 1}]
    max_concurrent_agents: 2
agent_chains:
  sre-investigation:
    alert_types: [PodCrashLooping]
    limits: {timeout: 15m}
    stages:
      - name: investigate
        success_policy: all
        agents: [{name: Investigator, replicas: 2, model: haiku, mcp_servers: [], sub_agents: []}, LogAnalyzer]
        synthesis: {name: Synthesizer}
""".replace("log-analyzer", "loganalyzer")
ENVIRON = {"NAME": "ann", "HAIKU_KEY": "unused"}


@pytest.fixture
def loaded(load_yaml: Load, tmp_path: Path) -> Settings:
    (tmp_path / "talk.yaml").touch()
    return load_yaml(CONFIG, ENVIRON)


def test_everything_in_the_file_is_in_the_settings(loaded: Settings, tmp_path: Path) -> None:
    loki, haiku = loaded.upstream("loki"), loaded.model("haiku")
    place = first_place(loaded, "sre-investigation")

    assert (loki.cwd, loki.timeout, loki.start_timeout, loki.isolation) == (tmp_path / "tools", 30, 10, "shared")
    assert (loki.effect_of("query"), loki.effect_of("query_b"), loki.effect_of("x")) == ("read_only", "ask", None)
    assert (loki.gate_of("query_raw"), loki.gate_of("query_b"), loki.gate_of("x")) == ("ask", "none", None)
    assert loki.trust_annotations
    assert [loki.tools.permits(tool) for tool in ("query", "query_all", "other")] == [True, False, False]
    assert (haiku.rehearsal, haiku.max_tokens, haiku.api_key_env) == (tmp_path / "talk.yaml", 8192, "HAIKU_KEY")
    assert loaded.model("sonnet").fallback == ("haiku",)
    assert loaded.model("sonnet").price == Price(2, 10, above_tokens=9, above=Price(4))
    assert (haiku.timeouts, haiku.cache) == (StreamTimeouts(first_token=120, stall=90, total=240), "1h")
    assert (place.agent.replicas, place.stage.success_policy, place.stage.synthesis) == (2, "all", "Synthesizer")
    assert (loaded.stage_agent(place).model, loaded.stage_agent(place).thinking) == ("haiku", True)
    assert loaded.limits_for(loaded.agent("Investigator"), place) == Limits(timeout=900, max_concurrent_agents=2)
    assert loaded.limits_for(loaded.agent("LogAnalyzer")).timeout == 500
    assert loaded.defaults.max_concurrent_roots == 9


def test_an_unknown_name_is_answered_with_the_nearest_and_where_it_is_defined(loaded: Settings) -> None:
    with pytest.raises(UnknownName) as caught:
        loaded.agent("log_analyser")

    assert str(caught.value) == "no agent named `log_analyser`"
    assert caught.value.hint == "did you mean `LogAnalyzer`? Defined in config.yaml:16"
    with pytest.raises(UnknownName) as caught:
        loaded.chain("zzz")
    assert caught.value.hint == "Known: `sre-investigation`"


def test_what_can_be_run_is_an_agent_or_a_chain(loaded: Settings) -> None:
    assert loaded.agent_or_chain("SRE_investigation") is loaded.chain("sre-investigation")
    assert loaded.agent_or_chain("investigator") is loaded.agent("Investigator")
    with pytest.raises(UnknownName, match="no agent or chain named") as caught:
        loaded.agent_or_chain("sre-investigatoin")
    assert "Defined in config.yaml:23" in caught.value.hint


def test_an_alert_names_its_chain(loaded: Settings) -> None:
    assert loaded.chain_for_alert("PodCrashLooping").name == "sre-investigation"
    with pytest.raises(UnknownName) as caught:
        loaded.chain_for_alert("PodCrashLoping")
    assert "did you mean `PodCrashLooping`?" in caught.value.hint


def test_every_path_knows_its_line(loaded: Settings) -> None:
    assert loaded.defined_at("agents", "Investigator") == "config.yaml:17"
    assert loaded.defined_at("agents", "Investigator", "sub_agents", 1) == "config.yaml:20"
    assert loaded.defined_at("agents", "Synthesizer") == ""


def test_a_snapshot_gives_the_same_settings_again(loaded: Settings) -> None:
    again = restore(loaded.snapshot, ENVIRON)

    assert again.hash == loaded.hash
    assert (again.models, again.upstreams, again.chains) == (loaded.models, loaded.upstreams, loaded.chains)
    for agent in loaded.agents.values():
        other = again.agent(agent.name)
        assert again.limits_for(other) == loaded.limits_for(agent)
        assert again.catalogue(other) == loaded.catalogue(agent)
        assert (other.model, other.strategy, other.thinking) == (agent.model, agent.strategy, agent.thinking)


def test_a_snapshot_reads_variables_and_secrets_anew_and_nothing_else(loaded: Settings) -> None:
    changed = CONFIG.replace("literal-secret", "new-secret").replace("Reads logs", "Changed since")
    loaded.source.write_text(changed, encoding="utf-8")

    again = restore(loaded.snapshot, {**ENVIRON, "NAME": "bob"})

    assert dict(again.upstream("loki").env) == {"TOKEN": "new-secret", "NAME": "bob"}
    assert again.agent("LogAnalyzer").description == "Reads logs"


def test_a_snapshot_whose_secret_is_gone_says_so(loaded: Settings) -> None:
    loaded.source.unlink()

    with pytest.raises(ConfigError, match="is no longer in"):
        restore(loaded.snapshot, ENVIRON)


def test_the_snapshot_depends_on_what_holds_and_not_on_how_it_is_written(load_yaml: Load) -> None:
    short = load_yaml("agents: {A: {timeout: 5m}}")
    long = load_yaml("# the same\nagents:\n  A:\n    limits:\n      timeout: 300\n    strategy: loop\n")
    other = load_yaml("agents: {A: {timeout: 6m}}")

    assert short.hash == long.hash
    assert short.hash != other.hash
    assert json.loads(short.snapshot)["config"]["agents"]["A"]["limits"]["timeout"] == 300


def test_the_environment_does_not_change_the_snapshot(load_yaml: Load) -> None:
    text = "agents: {A: {custom_instructions: '${TEXT}'}}"

    assert load_yaml(text, {"TEXT": "one"}).snapshot == load_yaml(text, {"TEXT": "two"}).snapshot


def test_a_file_that_is_not_there_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "absent.yaml", {})
    assert "there is no such file" in str(caught.value)
    assert "--config" in caught.value.hint
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, {})


def test_an_empty_file_holds_what_is_built_in(load_yaml: Load) -> None:
    settings = load_yaml("# nothing\n")

    assert list(settings.agents) == ["Synthesizer"]
    assert settings.model("sonnet").price is not None
