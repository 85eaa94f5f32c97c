"""The `workspaces` section and an agent's list: what each agent has, and what is wrong with one that cannot be used."""

from pathlib import Path

import pytest

from registry import WorkspaceSpec, describe, restore
from tests.registry.conftest import Load, Problems

SHARED = """
    workspaces:
      docs: {path: "${DOCS:-docs}", description: What is published.}
      Source-Code: {path: src, access: read_only}
    agents:
      writer: {workspaces: [docs, source_code, {name: own, path: ../elsewhere}]}
      reader: {workspaces: [{name: DOCS, access: read_only, description: To look at.}]}
      nobody: {}
"""
FAULTY = """\
workspaces: {{docs: {{path: docs}}, code: {{path: src, access: read_only}}}}
agents:
  A: {{workspaces: [{use}]{more}}}
"""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    """A folder and a file."""
    (tmp_path / "src").mkdir()
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")


def test_an_agent_has_the_workspaces_it_names_as_it_uses_them(load_yaml: Load, tmp_path: Path) -> None:
    agents = load_yaml(SHARED).agents

    assert agents["writer"].workspaces == (
        WorkspaceSpec("docs", tmp_path / "docs", "What is published."),
        WorkspaceSpec("Source-Code", tmp_path / "src", read_only=True),
        WorkspaceSpec("own", tmp_path / "../elsewhere"),
    )
    assert agents["reader"].workspaces == (WorkspaceSpec("docs", tmp_path / "docs", "To look at.", read_only=True),)
    assert agents["nobody"].workspaces == ()


def test_workspaces_are_shown_with_their_lines_and_come_back_from_a_snapshot(load_yaml: Load, tmp_path: Path) -> None:
    settings = load_yaml(SHARED, {"DOCS": "published"})

    shown = describe(settings)
    assert "    path: ${DOCS:-docs}  # config.yaml:3" in shown.replace('"', "")
    assert "      - docs  # config.yaml:6" in shown
    (tmp_path / "src").rmdir()  # what has begun goes on
    again = restore(settings.snapshot, {"DOCS": "published"})
    assert all(again.agents[name].workspaces == agent.workspaces for name, agent in settings.agents.items())
    assert again.agents["writer"].workspaces[0].path == tmp_path / "published"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("doc", "no workspace named `doc`"),
        ("docs, DOCS", "`DOCS` is the same name as `docs`"),
        ("{name: a b, path: x}", "`a b` cannot be a name here"),
        ("{name: x, path: a.txt}", "it is not a folder"),
        ("{name: x, path: missing, access: read_only}", "there is no such folder"),
        ("{name: code, access: read_write}", "`code` is read-only for all agents"),
        ("{name: docs, access: all}", "`all` is not allowed here"),
        ("{path: x}", "`name` is missing"),
        ("{name: docs, paht: x}", "unknown key `paht`"),
        ("3", "a name, or a mapping with a `name`, is expected"),
    ],
)
def test_a_workspace_that_cannot_be_used_is_a_problem_with_its_line(problems_of: Problems, use: str, message: str) -> None:
    (problem,) = problems_of(FAULTY.format(use=use, more=""))

    assert problem.message.startswith(message)
    assert problem.line == 3


def test_a_hint_says_what_was_meant_and_what_else_can_be_done(problems_of: Problems) -> None:
    (problem,) = problems_of(FAULTY.format(use="doc", more=""))
    assert problem.hint == "did you mean `docs`? Known: `docs`, `code`; or give it a `path`"


def test_a_workspace_without_a_folder_and_two_of_one_name_are_problems(problems_of: Problems) -> None:
    found = problems_of(
        "workspaces:\n  a: {}\n  b-c: {path: src}\n  B_C: {path: src}\n  d: {path: a.txt}\nagents: {A: {}}\n"
    )

    assert [(problem.line, problem.message) for problem in found] == [
        (2, "`path` is missing"),
        (4, "`B_C` is the same name as `b-c`"),
        (5, "it is not a folder"),
    ]


def test_a_workspace_may_lie_in_a_home(load_yaml: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = "workspaces: {a: {path: ~/notes}}\nagents: {A: {workspaces: [a, {name: b, path: '~'}]}}"

    assert [each.path for each in load_yaml(text).agent("A").workspaces] == [tmp_path / "home/notes", tmp_path / "home"]


def test_workspaces_of_an_agent_that_calls_no_tools_are_a_problem(problems_of: Problems) -> None:
    (problem,) = problems_of(
        FAULTY.format(use="docs", more=", strategy: plan, sub_agents: [B]") + "  B: {description: b}\n"
    )
    assert problem.message == "`workspaces` has no effect here: an agent with the strategy `plan` calls no tools itself"
