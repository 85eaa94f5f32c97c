"""Sources: a text stands in the configuration or in a file beside it, and means the same."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from registry import restore
from registry.text.sources import Source, SourceEntry, Texts
from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement


def read(written: object, texts: Texts) -> SourceEntry:
    """Read a source as a configuration does."""
    return TypeAdapter(Source).validate_python(written, context=texts)


@requirement("S3-CF-2")
def test_three_ways_to_give_a_text_give_the_same(tmp_path: Path) -> None:
    tmp_path.joinpath("text.md").write_text("Look {{ closely }}, ${HOME}.", encoding="utf-8")
    texts = Texts(tmp_path)

    given = [
        read(written, texts).text
        for written in ("Look {{ closely }}, ${HOME}.", {"content": "Look {{ closely }}, ${HOME}."}, {"url": "./text.md"})
    ]

    assert given == ["Look {{ closely }}, ${HOME}."] * 3
    assert texts.read == {"text.md": "Look {{ closely }}, ${HOME}."}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "expected either `url` or `content`"),
        ({"url": "a.md", "content": "b"}, "expected either `url` or `content`"),
        ({"url": "gone.md"}, "`gone.md` cannot be used: there is no such file"),
        ({"url": "../a.md"}, "leads out of the folder"),
        ({"url": "C:/a.md"}, "leads out of the folder"),
        ({"url": "https://example.test/a.md"}, "leads out of the folder"),
        ({"url": "data.bin"}, "`data.bin` cannot be used: it is not UTF-8 text"),
    ],
)
def test_what_gives_no_text_says_why(written: object, message: str, tmp_path: Path) -> None:
    tmp_path.joinpath("data.bin").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ValidationError) as caught:
        read(written, Texts(tmp_path))

    [error] = caught.value.errors()
    assert message in error["msg"]


def test_kept_texts_stand_for_files_that_have_changed(tmp_path: Path) -> None:
    tmp_path.joinpath("text.md").write_text("new", encoding="utf-8")
    kept = Texts(tmp_path, {"text.md": "old"})

    assert read({"url": "text.md"}, kept).text == "old"
    with pytest.raises(ValidationError, match="it did not exist when the configuration was first loaded"):
        read({"url": "another.md"}, kept)


ITERATION = "agents: {A: {strategy: iterate, iterate: {objective: %s}}}"


@requirement("S3-CF-2")
def test_a_missing_file_is_told_with_the_place_that_names_it(problems_of: Problems) -> None:
    [problem] = problems_of(ITERATION % "{url: texts/gone.md}")

    assert (problem.file, problem.line, problem.path) == ("config.yaml", 1, "agents.A.iterate.objective.url")
    assert problem.message == "`texts/gone.md` cannot be used: there is no such file"


def test_faults_of_templates_are_told_at_their_own_lines_all_of_them(problems_of: Problems, tmp_path: Path) -> None:
    tmp_path.joinpath("o.md").write_text("fine\n{{ f() }}\n{% include 'part.md' %}\n{{ x | yamle }}", encoding="utf-8")
    tmp_path.joinpath("part.md").write_text("{% set x = 1 %}", encoding="utf-8")

    problems = problems_of("""
        agents:
          A: {strategy: iterate, iterate: {objective: {url: o.md}}}
          B: {strategy: iterate, iterate: {objective: {url: o.md}}}
          C:
            strategy: iterate
            iterate:
              worker:
                instructions: |
                  fine
                  {% macro m() %}{% endmacro %}
    """)

    assert [(each.file, each.line, each.message) for each in problems] == [
        ("config.yaml", 9, "a macro is not allowed in a template (line 2 of the text)"),
        ("o.md", 2, "a call is not allowed in a template"),
        ("o.md", 4, "no filter named `yamle`"),
        ("part.md", 1, "an assignment is not allowed in a template"),
    ]
    assert problems[2].hint.startswith("did you mean `yaml`? Known: `yaml`, ")


@pytest.mark.parametrize("written", ["'Look at ${WHERE}'", "{content: 'Look at ${WHERE}'}", "{url: '${WHERE}.md'}"])
def test_a_variable_in_a_source_is_kept_as_it_is_written(load_yaml: Load, tmp_path: Path, written: str) -> None:
    tmp_path.joinpath("cellar.md").write_text("Look at cellar", encoding="utf-8")

    settings = load_yaml(ITERATION % written, {"WHERE": "cellar"})

    objective = settings.agent("A").iterate.objective
    assert objective is not None
    assert objective.text == "Look at cellar"
    assert "${WHERE}" in settings.snapshot
    assert restore(settings.snapshot, {"WHERE": "cellar"}).agent("A").iterate == settings.agent("A").iterate


@pytest.mark.parametrize(
    ("written", "message"),
    [("7", "a text, or a mapping with `url` or `content`, is expected, not a number"), ("{}", "either `url` or `content`")],
)
def test_what_is_no_source_is_refused(problems_of: Problems, written: str, message: str) -> None:
    [problem] = problems_of(ITERATION % written)

    assert problem.path == "agents.A.iterate.objective"
    assert message in problem.message
