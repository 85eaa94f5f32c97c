"""No unit of work costs more than its limit: calls, kept memory and imported modules are counted, and nothing is timed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.costs import limits
from tests.costs.commands import COMMANDS, figures, imported, ready
from tests.costs.limits import Limit, NoReason, complaint, rewritten
from tests.costs.measure import GROUPS, Measured, in_own_process

PYTHON = sys.version_info[:2]

KEPT_OUT = {
    "--help": "mcp anthropic rich pydantic sqlalchemy anyio asyncio yaml registry runner db",
    "ps": "mcp anthropic aiohttp httpx2 registry",
    "sql": "mcp anthropic aiohttp httpx2 sqlalchemy anyio registry",
    "agents": "mcp anthropic aiohttp httpx2 sqlalchemy anyio",
    "serve": "anthropic sqlalchemy registry",
    "run": "mcp anthropic aiohttp httpx2",
}
"""What a command never imports: each takes long, or brings much with it."""

DEARER_TURN = """
import sys

if "tests.costs.measure" in sys.orig_argv:
    import anyio

    from runner.llm.anthropic import AnthropicModel

    complete = AnthropicModel.complete

    async def in_a_scope(*arguments):
        with anyio.CancelScope():
            return await complete(*arguments)

    AnthropicModel.complete = in_a_scope
"""
"""A `sitecustomize.py` that adds a cancel scope to each model call."""

DEARER_COMMAND = """
import sys

class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == "server.cli.agents":
            import anthropic

sys.meta_path.insert(0, Finder)
"""
"""A `sitecustomize.py` that imports the SDK beside a command."""


def complaints(found: Measured) -> list[str]:
    """What is wrong with the figures of a group."""
    allowed = limits.read()
    told = (complaint(name, count, allowed, found.functions.get(name, {}), PYTHON) for name, count in found.figures.items())
    return [each for each in told if each is not None]


@pytest.mark.parametrize("group", GROUPS)
def test_no_unit_of_work_costs_more_than_its_limit(group: str) -> None:
    found = complaints(in_own_process(group))
    assert not found, "\n\n".join(found)


def test_no_command_imports_more_modules_than_its_limit_or_what_it_can_do_without(tmp_path: Path) -> None:
    shell = ready(tmp_path)
    modules = {command: imported(command, shell) for command in COMMANDS}

    found = complaints(figures(modules))
    assert not found, "\n\n".join(found)
    too_much = {command: sorted(set(KEPT_OUT[command].split()) & names) for command, names in modules.items()}
    assert not any(too_much.values()), too_much


def test_a_cancel_scope_more_in_every_turn_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(DEARER_TURN, encoding="utf-8")

    [told] = [each for each in complaints(in_own_process("turn", tmp_path)) if each.startswith("`turn: calls`")]

    assert f": the limit is {limits.read()['turn: calls'].limit}\nits most frequent calls:\n" in told
    assert "\nhint: find what was added" in told


def test_the_sdk_in_a_command_that_only_looks_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(DEARER_COMMAND, encoding="utf-8")

    modules = imported("agents", ready(tmp_path), tmp_path)

    [told] = complaints(figures({"agents": modules}))
    assert "anthropic" in modules
    assert told.startswith(f"`outrider agents: modules` is {len(modules)}: the limit is ")


def test_a_count_far_below_its_limit_asks_for_a_lower_one_on_the_reference_version_alone() -> None:
    allowed = {"turn: calls": Limit(1000)}
    told = complaint("turn: calls", 900, allowed, {}, limits.REFERENCE)

    assert told is not None
    assert told.endswith("hint: lower the limit to 905: `python -m tests.costs --write`")
    assert complaint("turn: calls", 945, allowed, {}, limits.REFERENCE) is None
    assert complaint("turn: calls", 900, allowed, {}, (3, 13)) is None
    assert complaint("turn: calls", 1001, allowed, {}, (3, 13)) is not None


def test_a_limit_is_lowered_freely_and_raised_only_with_a_reason() -> None:
    before = {"turn: calls": Limit(1000, "streams"), "dispatch: calls": Limit(500)}

    lowered = rewritten({"turn: calls": 800, "dispatch: calls": 499}, before)
    with pytest.raises(NoReason, match=r"`dispatch: calls`$") as refused:
        rewritten({"turn: calls": 1000, "dispatch: calls": 600}, before)
    raised = rewritten({"turn: calls": 1000, "dispatch: calls": 600}, before, "each child has a deadline")

    assert '"turn: calls" = { limit = 804, reason = "streams" }' in lowered
    assert '"dispatch: calls" = { limit = 500, reason = "" }' in lowered
    assert "--reason" in refused.value.hint
    assert '"turn: calls" = { limit = 1000, reason = "streams" }' in raised
    assert '"dispatch: calls" = { limit = 603, reason = "each child has a deadline" }' in raised
