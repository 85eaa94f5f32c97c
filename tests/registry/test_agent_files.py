"""Agents in files of their own, and models that are known by their names."""

from pathlib import Path

import pytest

from registry import ConfigError, Settings, load, restore
from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement


def written(folder: Path, files: dict[str, str]) -> Path:
    """Write the files of a configuration; return the first."""
    for name, text in files.items():
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_text(text, encoding="utf-8")
    return folder / next(iter(files))


@requirement("S3-CF-3")
def test_a_root_file_lists_agents_and_a_default_model(tmp_path: Path) -> None:
    files = {
        "config.yaml": "model: big\nmodels: {big: {model: x}, small: {model: y}}\nagents: [Lead.yaml, team/helper.yaml]",
        "Lead.yaml": "description: leads\nsub_agents: [Aide]\n",
        "team/helper.yaml": "name: Aide\ndescription: helps\nmodel: small\n",
    }

    settings = load(written(tmp_path, files), {})

    assert [(agent.name, agent.model) for agent in settings.agents.values()][:2] == [("Lead", "big"), ("Aide", "small")]
    assert settings.defined_at("agents", "Aide") == "team/helper.yaml:1"
    assert settings.defined_at("agents", "Aide", "model") == "team/helper.yaml:3"
    assert restore(settings.snapshot, {}).agents.keys() == settings.agents.keys()


@requirement("S3-TP-4", "S3-CF-2")
@pytest.mark.parametrize("objective", ["text", "content"])
def test_a_text_in_the_file_of_an_agent_includes_from_its_folder(tmp_path: Path, objective: str) -> None:
    text = "Do it. {% include 'texts/rules.md' %}"
    given = f'"{text}"' if objective == "text" else f'{{content: "{text}"}}'
    files = {
        "config.yaml": "agents: [agents/a.yaml]",
        "agents/a.yaml": f"strategy: iterate\niterate:\n  objective: {given}\n",
        "agents/texts/rules.md": "Be {% include 'kind.md' %}.",
        "agents/texts/kind.md": "kind",
    }
    settings = load(written(tmp_path, files), {})
    tmp_path.joinpath("agents/texts/kind.md").unlink()

    for each in (settings, restore(settings.snapshot, {})):
        template = each.agent("a").iterate.objective
        assert template is not None
        assert template.render({}, str) == "Do it. Be kind."
    assert restore(settings.snapshot, {}).hash == settings.hash
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "config.yaml", {})
    [problem] = caught.value.problems
    assert (problem.file, problem.line) == ("agents/texts/rules.md", 1)
    files["agents/a.yaml"] = files["agents/a.yaml"].replace("texts/rules.md", "../../out.md")
    with pytest.raises(ConfigError, match="leads out of the folder of the configuration") as caught:
        load(written(tmp_path, files), {})
    assert (caught.value.problems[0].file, caught.value.problems[0].line) == ("agents/a.yaml", 3)


@pytest.mark.parametrize(
    ("agents", "more", "where", "message"),
    [
        ("[gone.yaml]", "", "config.yaml:1", "`gone.yaml` cannot be used: there is no such file"),
        ("[../out.yaml]", "", "config.yaml:1", "expected the path of an agent's file"),
        ("[{name: A}]", "", "config.yaml:1", "expected the path of an agent's file"),
        ("[a.yaml, b.yaml]", "name: a", "b.yaml:1", "`a` is already an agent, in `a.yaml`"),
        ("[a.yaml, b.yaml]", "name: A", "b.yaml:1", "`A` is the same name as `a` in a.yaml, line 1"),
        ("[a.yaml, b.yaml]", "description: x\nfoo: 1", "b.yaml:2", "unknown key `foo`"),
        ("[b.yaml]", "a: [", "b.yaml:1", "broken YAML"),
        ("[b.yaml]", "- a", "b.yaml:1", "the file must be a mapping"),
        ("[b.yaml]", "description: x\ndescription: y", "b.yaml:2", "`description` is given twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_name(
    agents: str, more: str, where: str, message: str, tmp_path: Path
) -> None:
    file = written(tmp_path, {"config.yaml": f"agents: {agents}", "a.yaml": "description: a", "b.yaml": more})

    with pytest.raises(ConfigError) as caught:
        load(file, {})

    [problem] = caught.value.problems
    assert f"{problem.file}:{problem.line}" == where
    assert message in problem.message


@requirement("S3-OP-8")
def test_a_name_with_a_slash_is_a_model_and_any_other_must_be_defined(load_yaml: Load, problems_of: Problems) -> None:
    def ids(settings: Settings) -> dict[str, str]:
        return {name: spec.model for name, spec in settings.models.items()}

    settings = load_yaml("""
        models: {own/one: {model: gateway-id}, two: {model: id/of-two, fallback: [some/spare]}}
        defaults: {model: two}
        agents: {A: {model: anthropic/claude-x}, B: {model: Own/One, output_schema: {default: {model: not/one}}}, C: {}}
        agent_chains: {chain: {stages: [{name: s, agents: [{name: A, model: other/m.1:beta}]}]}}
    """)

    expected = {
        "own/one": "gateway-id",
        "two": "id/of-two",
        "anthropic/claude-x": "claude-x",
        "other/m.1:beta": "other/m.1:beta",
        "some/spare": "some/spare",
    }
    assert ids(settings) == expected
    assert [settings.agent(name).model for name in "ABC"] == ["anthropic/claude-x", "own/one", "two"]
    assert ids(restore(settings.snapshot, {})) == expected
    only = load_yaml("models: {one: {model: x}}\nagents: {A: {model: some/other}, B: {}}")
    assert (only.agent("B").model, only.defaults.model) == ("one", "one")
    built_in = load_yaml("agents: {A: {model: '${MODEL:-some/other}'}, B: {}}", {"MODEL": "of/variable"})
    assert (built_in.agent("A").model, built_in.agent("B").model) == ("of/variable", "sonnet")
    assert "of/variable" not in built_in.snapshot
    [problem] = problems_of("model: a\ndefaults: {model: b}\nmodels: {a: {model: x}, b: {model: y}}\nagents: {A: {}}")
    assert (problem.path, problem.line) == ("model", 1)
    assert [each.message for each in problems_of("agents: {A: {model: 'no model/x'}}")] == ["no model named `no model/x`"]
    assert [each.message for each in problems_of("model:\nagents: {A: {}}")] == ["has no value"]
