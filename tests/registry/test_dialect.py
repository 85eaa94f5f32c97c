"""Orchestrators as AIGNE's library writes them: every form its documentation shows loads, and means what it says there."""

from pathlib import Path

import pytest

from registry import AgentSpec, ConfigError, load, restore
from tests.registry import orchestrators
from tests.registry.orchestrators import orchestrator
from tests.support.requirement import requirement


def loaded(folder: Path, text: str) -> AgentSpec:
    """Load an orchestrator that a root file lists, and what its snapshot gives again."""
    settings = load(orchestrator(folder, text), {})
    name = "researcher" if "name: researcher" in text else "orchestrator"
    again = restore(settings.snapshot, {}).agent(name)
    agent = settings.agent(name)
    assert (again.iterate, again.model, again.workspaces) == (agent.iterate, agent.model, agent.workspaces)
    return agent


@requirement("S3-CF-1", "S3-CF-3")
@pytest.mark.parametrize("text", [*orchestrators.WHOLE.values(), *orchestrators.PARTS.values()],
                         ids=[*orchestrators.WHOLE, *orchestrators.PARTS])  # fmt: skip
def test_every_form_loads_as_it_is_written(text: str, tmp_path: Path) -> None:
    agent = loaded(tmp_path, text)

    assert (agent.strategy, agent.model) == ("iterate", "google/gemini-2.5-pro")
    assert agent.iterate.objective is not None


@requirement("S3-CF-1", "S3-CF-2")
def test_a_basic_orchestrator_has_its_objective_state_input_and_folder(tmp_path: Path) -> None:
    agent = loaded(tmp_path, orchestrators.BASIC)

    objective = agent.iterate.objective
    assert objective is not None
    assert (objective.name, objective.variables()) == ("agents/objective.md", frozenset({"message"}))
    assert (agent.iterate.max_iterations, agent.iterate.max_tokens, agent.iterate.keep_recent) == (20, 100_000, 20)
    assert list((agent.input_schema or {})["properties"]) == ["message"]
    [folder] = agent.workspaces
    assert (folder.name, folder.path.resolve()) == ("workspace", tmp_path / "agents")
    assert folder.description == "Workspace directory for the orchestrator agent"


@requirement("S3-CF-1")
def test_components_have_their_instructions_schemas_and_models(tmp_path: Path) -> None:
    planner = loaded(tmp_path, orchestrators.PLANNER).iterate.planner
    assert planner.instructions is not None
    assert planner.instructions.variables() == {"objective", "skills", "executionState"}
    worker = loaded(tmp_path, orchestrators.WORKER).iterate.worker
    assert worker.instructions is not None
    assert worker.instructions.name == "agents/custom-worker.md"
    completer = loaded(tmp_path, orchestrators.COMPLETER).iterate.completer
    assert (completer.output_schema or {})["required"] == ["summary"]
    whole = loaded(tmp_path, orchestrators.SCHEMAS)
    assert list((whole.output_schema or {})["properties"]) == ["summary", "findings", "recommendations"]


@requirement("S3-OP-8")
def test_a_model_is_the_default_of_all_and_a_components_own_one_wins(tmp_path: Path) -> None:
    settings = load(orchestrator(tmp_path, orchestrators.MODELS), {})
    iterate = settings.agent("orchestrator").iterate

    named = {part: getattr(iterate, part).model for part in ("planner", "worker", "completer")}
    assert named == {
        "planner": "anthropic/claude-3-5-sonnet-20241022",
        "worker": "google/gemini-2.0-flash",
        "completer": "anthropic/claude-3-5-sonnet-20241022",
    }
    ids = {name: settings.model(name).model for name in (*named.values(), settings.defaults.model)}
    assert ids == {
        "anthropic/claude-3-5-sonnet-20241022": "claude-3-5-sonnet-20241022",
        "google/gemini-2.0-flash": "google/gemini-2.0-flash",
        "google/gemini-2.5-pro": "google/gemini-2.5-pro",
    }


@requirement("S3-BP-3", "S3-BP-4")
@pytest.mark.parametrize("most", [1, 10, 25, 50])
def test_iterations_have_a_limit_and_other_spellings_mean_the_same(most: int, tmp_path: Path) -> None:
    camel = f"stateManagement: {{maxIterations: {most}, maxTokens: 80000, keepRecent: 25}}\nskills: [helper, files]\n"
    root = orchestrator(tmp_path, camel)
    helper = tmp_path / "agents" / "helper.yaml"
    helper.write_text("description: helps\ncustom_instructions: Help.", encoding="utf-8")
    servers = "mcp_servers: {files: {command: [serve-files]}}\n"
    root.write_text(f"{orchestrators.ROOT}  - agents/helper.yaml\n{servers}", encoding="utf-8")

    agent = load(root, {}).agent("orchestrator")

    assert (agent.iterate.max_iterations, agent.iterate.max_tokens, agent.iterate.keep_recent) == (most, 80_000, 25)
    assert agent.mcp_servers == ("files",)
    assert [each.name for each in agent.sub_agents or ()] == ["helper"]


@requirement("S3-BP-3")
@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("state_management:\n  max_iterations: 0", 4, "must be at least 1"),
        (
            "stateManagement: {maxIterations: 3, max_iterations: 4}",
            3,
            "`maxIterations` and `max_iterations` are one",
        ),
        ("statemanagement: {}", 3, "unknown key `statemanagement`"),
        ("afs: {modules: [{module: history}]}", 3, "this module is not a folder"),
        ("afs: true", 3, "a list of `modules` is expected here"),
        ("afs:\n  modules:\n    - module: local-fs\n      options: {localPath: .}", 6, "`name` is missing"),
        ("planner:\n  type: team", 4, "unknown key `type`"),
        ("worker:\n  instructions:\n    url: gone.md", 5, "`agents/gone.md` cannot be used: there is no such file"),
        ("worker:\n  instructions:\n    url: ../../out.md", 5, "leads out of the folder of the configuration"),
        ("skills: [nobody]", 3, "no agent named `nobody`"),
        ("model: gemini", 3, "no model named `gemini`"),
        ("name: 7", 3, "a name must be a text"),
        (f"{orchestrators.TYPE}objective: ' '", 2, "the text is empty"),
        ("iterate: {state: {keep_recent: 2}}\nstateManagement: {}", 4, "`state_management` and `iterate.state` are one"),
    ],
)
def test_what_is_wrong_is_told_with_the_file_and_line_of_the_agent(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(orchestrator(tmp_path, text), {})

    [problem] = caught.value.problems
    assert (problem.file, problem.line) == ("agents/orchestrator.yaml", line)
    assert message in problem.message


def test_an_orchestrator_may_stand_in_the_configuration_or_be_the_whole_of_it(tmp_path: Path) -> None:
    inner = "\n".join(f"    {line}" for line in orchestrators.DOCUMENTATION.splitlines())
    file = tmp_path / "config.yaml"
    file.write_text(f"agents:\n  writer:\n{inner}\n", encoding="utf-8")
    alone = tmp_path / "writer.yaml"
    alone.write_text(orchestrators.DOCUMENTATION, encoding="utf-8")

    first, second = (load(each, {}).agent("writer") for each in (file, alone))

    assert first.iterate == second.iterate
    assert [each.path for each in first.workspaces] == [tmp_path / "src", tmp_path / "docs"]
    where = load(alone, {}).defined_at
    assert where("agents", "writer", "iterate", "state", "max_iterations") == "writer.yaml:10"
    assert where("agents", "writer", "strategy") == "writer.yaml:1"
