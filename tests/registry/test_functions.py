"""Agents that are functions: how a file names one, and what such an agent cannot have."""

import pytest

from registry import restore
from tests.registry.conftest import Load, Problems


@pytest.mark.parametrize("strategy", ["", ", strategy: function", ", iteration_strategy: function"])
def test_naming_a_function_is_enough(load_yaml: Load, strategy: str) -> None:
    settings = load_yaml(f"agents: {{Price: {{function: 'shop.prices:Book.look_up'{strategy}, output_schema: {{}}}}}}")

    agent = settings.agent("price")
    assert (agent.strategy, agent.function) == ("function", "shop.prices:Book.look_up")
    restored = restore(settings.snapshot, {}).agent("price")
    assert (restored.strategy, restored.function) == (agent.strategy, agent.function)


@pytest.mark.parametrize(
    ("entry", "path", "message"),
    [
        ("strategy: function", "agents.Price", "needs a `function`"),
        ("function: 'a:b', strategy: loop", "agents.Price.function", "no effect on an agent with the strategy `loop`"),
        ("function: look_up", "agents.Price.function", "`look_up` is not the name of a function"),
        ("function: 'prices:'", "agents.Price.function", "`prices:` is not the name of a function"),
        ("function: '../prices:look_up'", "agents.Price.function", "is not the name of a function"),
        ("function: 'a:b()'", "agents.Price.function", "is not the name of a function"),
        ("function: 'a:b', model: opus", "agents.Price.model", "`model` has no effect on a function"),
        ("function: 'a:b', mcp_servers: [s]", "agents.Price.mcp_servers", "`mcp_servers` has no effect"),
        ("function: 'a:b', sub_agents: []", "agents.Price.sub_agents", "`sub_agents` has no effect"),
        ("function: 'a:b', custom_instructions: be kind", "agents.Price.custom_instructions", "has no effect"),
        ("function: 'a:b', memory: true", "agents.Price.memory", "`memory` has no effect"),
        ("function: 'a:b', context: {level: 2}", "agents.Price.context", "`context` has no effect"),
    ],
)
def test_what_a_function_cannot_have_is_a_problem(problems_of: Problems, entry: str, path: str, message: str) -> None:
    models = "models: {opus: {model: x}}\nmcp_servers: {s: {command: [x]}}\n"

    [problem] = problems_of(f"{models}agents:\n  Price: {{{entry}}}\n")

    assert problem.path == path
    assert message in problem.message
    assert problem.line == 4
    assert problem.hint
