"""Commands of a route: what a file may say about them."""

from pathlib import Path

import pytest

from registry import load, restore
from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement
from tests.support.sources import ROOT


def config(commands: str, sub_agents: str = "[]") -> str:
    route = f"{{strategy: route, sub_agents: {sub_agents}, route: {{commands: {{{commands}}}}}}}"
    return f"agents: {{R: {route}, A: {{}}, planner: {{}}}}"


@pytest.mark.parametrize(
    ("commands", "path", "said"),
    [
        ("go: {}", "go", "a command needs either `agents` or an `answer`"),
        ("go: {agents: [A], answer: x}", "go", "a command needs either `agents` or an `answer`"),
        ("go: {answer: x, timeout: 5s}", "go.timeout", "`timeout` has no effect here: no agent carries out"),
        ("go: {agents: [B]}", "go.agents[0].agent", "no agent named `B`"),
        ("go: {agents: [{agents: [A, B]}]}", "go.agents[0].agents[1]", "no agent named `B`"),
        ("go: {agents: [{agent: A, agents: [A]}]}", "go.agents[0]", "a rule names one `agent`, or several under `agents`"),
        ("go: {agents: [A, {agent: A, when: {plan: true}}]}", "go.agents[0]", "this rule always matches, so the rules"),
        ("go: {agents: [A], sets: done}", "go.sets", "`sets` has no effect without a work item"),
        (
            "go: {agents: [A], arguments: [{name: t}, {name: n, kind: item}]}",
            "go.arguments[0]",
            "no argument can follow a `text`",
        ),
        ("go: {agents: [A], arguments: [{name: c, kind: choice}]}", "go.arguments[0]", "`choices` and the kind"),
        (
            "go: {agents: [A], arguments: [{name: n, kind: item, default: '1'}]}",
            "go.arguments[0].default",
            "`default` has no effect on work items",
        ),
        ("go: {agents: [A], arguments: [{name: rule}]}", "go.arguments[0].name", "`rule` is a reserved name here"),
        ("go: {answer: x, arguments: [{name: items}]}", "go.arguments[0].name", "`items` is a reserved name here"),
        (
            "go: {agents: [A], arguments: [{name: n, kind: item}, {name: n}]}",
            "go.arguments[1].name",
            "`n` is a reserved name here",
        ),
        ("go: {agents: [A]}, Go: {agents: [A]}", "Go", "`Go` is the same name as `go`"),
        ("'go on': {agents: [A]}", "go on", "`go on` cannot be a name here"),
        (
            "go: {agents: [{agent: A, when: {complexity: hard}}]}",
            "go.agents[0].when.complexity[0]",
            "`hard` is not allowed",
        ),
        ("go: {answer: '{{ items.pop() }}'}", "go.answer", ""),
        ("go: {prompt: {url: ../x.md}, agents: [A]}", "go.prompt.url", "leads out of the folder"),
    ],
)
def test_what_cannot_work_is_refused_where_it_stands(problems_of: Problems, commands: str, path: str, said: str) -> None:
    [problem] = problems_of(config(commands))
    assert problem.path == f"agents.R.route.commands.{path}"
    assert problem.message.startswith(said)


def test_a_built_in_agent_carries_out_no_command(load_yaml: Load, problems_of: Problems) -> None:
    assert load_yaml(config("go: {agents: [planner]}")).agent("planner").output_schema is None
    [problem] = problems_of(config("go: {agents: [planner]}", "[Other]").replace("A: {}", "Other: {description: o}"))
    assert problem.message == "`planner` is the built-in agent `Planner` here, which cannot carry out commands"
    described = config("go: {agents: [planner]}", "[Other]").replace("A: {}", "Other: {description: o}")
    settings = load_yaml(described.replace("planner: {}", "planner: {description: plans what people do}"))
    assert settings.agent("planner").output_schema is None


def test_the_example_of_the_page_about_commands_loads(load_yaml: Load) -> None:
    page = (ROOT / "docs" / "howto" / "commands.md").read_text(encoding="utf-8")
    settings = load_yaml(page.partition("```yaml\n")[2].partition("```")[0])
    assert list(settings.agent("orchestrator").route.commands) == ["task", "research", "implement", "todo"]


@requirement("S1-ST1-2")
def test_texts_of_commands_stand_in_files_and_stay_as_they_were_read(tmp_path: Path) -> None:
    (tmp_path / "go.md").write_text("Do $ARGUMENTS and {{ no more }}", encoding="utf-8")
    (tmp_path / "config.yaml").write_text(config("go: {prompt: {url: go.md}, agents: [A]}"), encoding="utf-8")
    settings = load(tmp_path / "config.yaml", {})
    command = settings.agent("R").route.commands["go"]
    assert (command.prompt, command.usage) == ("Do $ARGUMENTS and {{ no more }}", "/go [ARGUMENTS]")
    (tmp_path / "go.md").write_text("changed", encoding="utf-8")
    assert restore(settings.snapshot, {}).agent("R").route.commands == settings.agent("R").route.commands
