"""The `work_items` section: numbers, what an item may say, and what comes back from a snapshot."""

import pytest

from registry import WorkItemSpec, WorkItemsSpec, restore
from tests.registry.conftest import Load, Problems

ITEMS = """
    agents: {Anyone: {}}
    work_items:
      board: crew
      items:
        195: {title: Prove it, language: lean, plan: plans/195.md, depends_on: [7]}
        "7": {title: Draw it, status: researched, complexity: simple}
"""


def test_items_are_numbered_and_survive_a_snapshot(load_yaml: Load) -> None:
    settings = load_yaml(ITEMS)

    assert settings.work_items.board == "crew"
    assert dict(settings.work_items.items) == {
        195: WorkItemSpec("Prove it", "lean", plan="plans/195.md", depends_on=(7,)),
        7: WorkItemSpec("Draw it", complexity="simple", status="researched"),
    }
    assert restore(settings.snapshot, {}).work_items == settings.work_items
    assert load_yaml("agents: {Anyone: {}}").work_items == WorkItemsSpec("main", {})


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("{zero: {title: x}}", "`zero` is not a number of a work item"),
        ("{0: {title: x}}", "`0` is not a number of a work item"),
        ("{-1: {title: x}}", "a key must be a text"),
        ('{"07": {title: x}}', "`07` is not a number of a work item"),
        ("{3: {title: x, depends_on: [2, 3]}}", "item 3 depends on itself"),
        ("{3: {language: lean}}", "`title` is missing"),
    ],
)
def test_a_faulty_item_is_told_with_its_line(problems_of: Problems, items: str, expected: str) -> None:
    (problem,) = problems_of(f"agents: {{Anyone: {{}}}}\nwork_items:\n  items: {items}\n")

    assert expected in problem.message
    assert problem.line == 3
    assert problem.hint
