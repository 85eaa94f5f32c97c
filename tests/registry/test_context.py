import pytest

from registry import ContextSpec
from tests.registry.conftest import Load, Problems


def test_an_agent_and_its_model_say_how_much_of_a_window_may_be_filled(load_yaml: Load) -> None:
    settings = load_yaml("""
        models: {m: {model: m, context_window: 32768, max_tokens: 2048}}
        agents: {A: {context: {compact_at: 0.5}}, B: {}}
    """)

    assert settings.models["m"].context_window == 32768
    assert [settings.agents[name].context.compact_at for name in "AB"] == [0.5, 0.8]


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("agents: {A: {context: {compact_at: 0}}}", "agents.A.context.compact_at", "must be more than 0, not `0`"),
        ("agents: {A: {context: {compact_at: 80}}}", "agents.A.context.compact_at", "must be at most 1, not `80`"),
        (
            "models: {m: {model: m, context_window: 8192}}",
            "models.m.context_window",
            "`max_tokens` 8192 does not fit into a context window of 8192",
        ),
        (
            "models: {m: {model: m, max_tokens: 200000}}",
            "models.m.max_tokens",
            "`max_tokens` 200000 does not fit into a context window of 200000",
        ),
    ],
)
def test_a_share_is_a_part_and_an_answer_fits(problems_of: Problems, text: str, path: str, message: str) -> None:
    [problem] = problems_of(text)

    assert (problem.path, problem.message) == (path, message)
    assert problem.hint


def test_context_settings_left_open_are_inherited_from_the_caller() -> None:
    own, other = ContextSpec(memory="none", compact_at=0.5), ContextSpec("full", 3, 900, "stable", 2, "lean", 0.6)

    assert own.over(other) == ContextSpec("none", 3, 900, "stable", 2, "lean", 0.5)
    assert ContextSpec(level=1).over(other).level == 1
