import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry import ConfigError, Settings, load
from tests.registry.conftest import Load, Problems


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("agents:\n  A: {description: x\n", 3, 1),
        ("agents:\n\tA: {}\n", 2, 1),
        ("agents: {A: {}}\n  x: y\n", 2, 3),
        ("agents: {A: 'open}\n", 2, 1),
        ("agents: {A: {timeout: ${T:-30s}}}\n", 1, 24),
    ],
)
def test_broken_yaml_is_reported_at_its_position(problems_of: Problems, text: str, line: int, column: int) -> None:
    [problem] = problems_of(text)

    assert (problem.line, problem.column) == (line, column)
    assert problem.message.startswith("broken YAML")
    assert ("needs quotes" in problem.hint) == ("${" in text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agents: {1.5: {}}", "a key must be a text"),
        ("agents: {true: {}}", "a key must be a text"),
        ("agents: {[a]: {}}", "a key must be a text"),
        ("agents: {? {a: b} : {}}", "a key must be a text"),
        ("x: &x {description: d}\nagents: {A: {<<: *x}}", "merge keys"),
        ("agents: {A: {description: !!binary aGk=}}", "the tag `!!binary` is not supported"),
        ("agents: {A: {description: !mine x}}", "the tag `!mine` is not supported"),
        ("agents: &a {A: *a}", "an alias repeats too much, or contains itself"),
        ("- a", "the file must be a mapping"),
        ("just a text", "the file must be a mapping"),
    ],
)
def test_what_yaml_allows_but_a_configuration_does_not_need_is_refused(
    problems_of: Problems, text: str, message: str
) -> None:
    messages = [problem.message for problem in problems_of(text)]

    assert any(message in each for each in messages)


def test_a_file_that_grows_by_aliases_is_refused_quickly(problems_of: Problems) -> None:
    lines = ["agents:", "  a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"  {name}: &{name} [{', '.join([f'*{before}'] * 10)}]" for before, name in zip("abcdefg", "bcdefgh", strict=True)
    ]

    assert any("alias" in problem.message for problem in problems_of("\n".join(lines)))


def test_deep_nesting_is_an_error_and_not_a_crash(problems_of: Problems) -> None:
    [problem] = problems_of("a: " + "[" * 2000)

    assert "nested too deeply" in problem.message


def test_an_alias_stands_for_what_it_names(load_yaml: Load) -> None:
    loaded = load_yaml("""
        agents:
          A: &shared {description: d, custom_instructions: text}
          B: *shared
    """)

    assert loaded.agent("B").custom_instructions == "text"


def test_words_that_other_readers_take_for_something_else_stay_text(load_yaml: Load) -> None:
    loaded = load_yaml("""
        agents: {NO: {description: no}, B: {description: 12:30:00}, C: {description: 2026-01-01}, D: {description: !!str 5}}
    """)

    assert [loaded.agent(name).description for name in ("no", "b", "c", "d")] == ["no", "12:30:00", "2026-01-01", "5"]


def test_half_a_character_is_refused_and_both_halves_are_one(problems_of: Problems, load_yaml: Load) -> None:
    for escape in (r"\ud800", r"\udc00\ud800", r"\u0000"):
        [problem] = problems_of(f'agents:\n  A: {{description: "a {escape} b"}}')
        assert (problem.line, problem.message) == (2, "an escape in it is not a character")
    assert load_yaml(r'agents: {A: {description: "a \ud83d\ude00 b"}}').agent("A").description == "a 😀 b"


def test_bytes_that_are_not_text_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("bytes") / "config.yaml"
    file.write_bytes(b"agents: {A: {description: \xff\xfe\x00}}")

    with pytest.raises(ConfigError, match="not YAML"):
        load(file, {})


SECTIONS = ["defaults", "models", "mcp_servers", "agents", "agent_chains"]
WORDS = """
    A b name model limits stages agents sub_agents mcp_servers description timeout command url env tools allow strategy
    type synthesis fallback price alert_types
"""
KEYS = st.sampled_from(WORDS.split())
SCALARS = st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["A", "b", "${X}", "5m", "", "loop"])
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(SECTIONS), st.dictionaries(KEYS, TREES, max_size=3) | TREES))
def test_any_tree_is_loaded_or_refused_with_problems(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object]
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(json.dumps(tree), encoding="utf-8")
    outcome: Settings | ConfigError

    try:
        outcome = load(file, {"X": "x"})
    except ConfigError as error:
        outcome = error

    assert isinstance(outcome, Settings) or all(problem.message for problem in outcome.problems)
