"""The `context_files` section: who sees which files, and what is wrong with a file that cannot be shown."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from registry import describe, json_schema, restore
from tests.registry.conftest import Load, Problems

LEVELS = """
    context_files:
      common: [standards/*.md]
      languages: {lean: [lean4/*.md], Mark-Down: ["${REPO:-repo}/*.md", standards/*.md]}
      full: ["**/*.md"]
    agents:
      one: {context: {level: 1}}
      two: {context: {level: 2, language: mark_down}}
      three: {context: {level: "${LEVEL}"}}
      none: {}
"""
FAULTY = """\
context_files:
  {section}
agents:
  A: {{context: {{{context}}}}}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    """Files of three kinds."""
    for path in ("standards/a.md", "lean4/b.md", "repo/c.md"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(path, encoding="utf-8")


def test_a_level_sees_what_those_below_it_see(load_yaml: Load) -> None:
    settings = load_yaml(LEVELS, {"LEVEL": "3"})

    shown = {
        name: settings.context_files.patterns(agent.context.level, agent.context.language)
        for name, agent in settings.agents.items()
    }
    assert shown == {
        "one": ("standards/*.md",),
        "two": ("standards/*.md", "repo/*.md"),
        "three": ("standards/*.md", "lean4/*.md", "repo/*.md", "**/*.md"),
        "none": (),
        "Synthesizer": (),
    }
    for level, language in ((1, "lean"), (2, "klingon")):
        assert settings.context_files.patterns(level, language) == ("standards/*.md",)


def test_the_section_is_shown_with_its_lines_and_stored_with_variables_by_reference(load_yaml: Load) -> None:
    given = {"LEVEL": "3", "REPO": "lean4"}
    settings = load_yaml(LEVELS, given)

    assert "    - standards/*.md  # config.yaml:3" in describe(settings).replace('"', "")
    assert "${REPO:-repo}/*.md" in settings.snapshot
    assert restore(settings.snapshot, given).context_files == settings.context_files
    assert load_yaml(describe(settings), given).hash == settings.hash
    assert "context_files" not in load_yaml("agents: {A: {}}").snapshot
    written: Any = yaml.safe_load(LEVELS)
    jsonschema.validate(written, json_schema())


def test_what_has_begun_goes_on_although_its_files_are_gone(load_yaml: Load, tmp_path: Path) -> None:
    settings = load_yaml(LEVELS, {"LEVEL": "3"})
    (tmp_path / "standards" / "a.md").unlink()

    assert restore(settings.snapshot, {"LEVEL": "3"}).context_files == settings.context_files


@pytest.mark.parametrize(
    ("section", "place", "message", "hint"),
    [
        ("common: [standards/a.md, nothing/*.md]", (2, 28), "no file matches `nothing/*.md`", "relative to this file"),
        ("languages: {lean: [standards]}", (2, 22), "no file matches `standards`", "relative to this file"),
        ('full: ["${CANARY}/*.md"]', (2, 10), "no file matches `${CANARY}/*.md`", "relative to this file"),
        ("common: [../standards/a.md]", (2, 12), "leads out of the folder of this file", "without `..`"),
        ("common: [standards/../../x]", (2, 12), "leads out of the folder of this file", "without `..`"),
        ("common: [/etc/passwd]", (2, 12), "leads out of the folder of this file", "relative to this file"),
        ("common: ['C:\\x\\*.md']", (2, 12), "leads out of the folder of this file", "relative to this file"),
        ("common: ['a\\..\\..\\x.md']", (2, 12), "leads out of the folder of this file", "without `..`"),
        ("common: [bad/out.md]", (2, 12), "(`bad/out.md`) cannot be shown: it is a link that leads out", "narrower"),
        ("common: ['bad/*.png']", (2, 12), "(`bad/x.png`) cannot be shown: it is not UTF-8 text", "narrower"),
        (
            "common: ['${BAD}/*.png']",
            (2, 12),
            "that `${BAD}/*.png` matches cannot be shown: it is not UTF-8 text",
            "narrower",
        ),
        ("common: [bad/away/x.md]", (2, 12), "no file matches `bad/away/x.md`", "links to folders elsewhere"),
        ("common: standards/a.md", (2, 11), "a list is expected, not a text", "[standards/a.md]"),
        ("common:", (2, 10), "has no value", "remove the key"),
        ("comon: [standards/a.md]", (2, 3), "unknown key `comon`", "did you mean `common`?"),
        ("languages: {c++: [standards/a.md]}", (2, 15), "`c++` cannot be a name here", "rename it"),
        ("languages: {a: [lean4/b.md], A: [lean4/b.md]}", (2, 32), "`A` is the same name as `a`", "together"),
    ],
)
def test_files_that_cannot_be_shown_are_found_when_the_file_is_loaded(
    problems_of: Problems, tmp_path: Path, section: str, place: tuple[int, int], message: str, hint: str
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.png").write_bytes(b"\x89PNG\0")
    (tmp_path / "bad" / "out.md").symlink_to("/etc/hostname")
    (tmp_path / "bad" / "away").symlink_to("/etc")

    [problem] = problems_of(FAULTY.format(section=section, context=""), {"CANARY": "bird", "BAD": "bad"})

    assert (problem.line, problem.column) == place
    assert message in problem.message
    assert hint in problem.hint
    assert "bird" not in str(problem)


@pytest.mark.parametrize(
    ("context", "at", "message", "hint"),
    [
        ("level: 4", "level", "must be at most 3, not `4`", "leave it out"),
        ("level: 0", "level", "must be at least 1, not `0`", "leave it out"),
        ("level: full", "level", "a whole number is expected, not a text", ""),
        (
            "level: 2",
            "level",
            "level 2 adds the files of a language, and `language` is missing",
            "known: `lean`, `markdown`",
        ),
        ("language: lean", "language", "`language` has no effect without `level: 2`", "add the level"),
        ("level: 3, language: lean", "language", "`language` has no effect without `level: 2`", "remove it"),
        ("level: 2, language: leen", "language", "no files for a language named `leen`", "did you mean `lean`?"),
        ('level: 2, language: "${CANARY}"', "language", "language named `${CANARY}`", "known: `lean`, `markdown`"),
    ],
)
def test_a_level_or_language_without_effect_is_refused(
    problems_of: Problems, context: str, at: str, message: str, hint: str
) -> None:
    section = "languages: {lean: [lean4/*.md], markdown: [repo/*.md]}"

    [problem] = problems_of(FAULTY.format(section=section, context=context), {"CANARY": "bird"})

    assert (problem.line, problem.path) == (4, f"agents.A.context.{at}")
    assert message in problem.message
    assert hint in problem.hint
    assert "bird" not in str(problem)


def test_a_level_without_any_files_is_refused(problems_of: Problems) -> None:
    [problem] = problems_of("agents: {A: {context: {level: 1}}}")

    assert (problem.path, problem.message) == (
        "agents.A.context.level",
        "`level` has no effect: there are no `context_files`",
    )
    assert "context_files" in problem.hint
