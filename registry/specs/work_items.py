"""Work items of the configuration, and the board that numbers them.

Owns: the shape of the `work_items` section, its checks and specs. Must not know: how items are stored or worked on.
Invariant: a number is a positive integer, and no item depends on itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from registry.text.entry import Count, Entry, Line
from registry.text.findings import Findings

BOARD = "main"
NOT_STARTED = "not_started"

Complexity = Literal["simple", "moderate", "complex"]

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


class WorkItemEntry(Entry):
    """One entry of `work_items.items` as written."""

    title: Line = Field(description="the work to do")
    language: Line | None = Field(default=None, description="its language, such as `python` or `markdown`")
    complexity: Complexity | None = Field(default=None, description="its complexity")
    status: Line = Field(default=NOT_STARTED, description="its status")
    plan: Line | None = Field(default=None, description="path of its plan, if it has one")
    depends_on: tuple[Count, ...] = Field(default=(), description="numbers of the items it depends on")


class WorkItemsEntry(Entry):
    """`work_items` as written."""

    board: Line = Field(default=BOARD, description="the name of the board; each board of a database has its own numbers")
    items: dict[str, WorkItemEntry] = Field(
        default={}, description="items by number, written into the database unless they exist"
    )


@dataclass(frozen=True, slots=True)
class WorkItemSpec:
    """A configured item."""

    title: str
    language: str | None = None
    complexity: Complexity | None = None
    status: str = NOT_STARTED
    plan: str | None = None
    depends_on: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkItemsSpec:
    """The board, and its initial items."""

    board: str = BOARD
    items: Mapping[int, WorkItemSpec] = field(default_factory=dict)


def check_work_items(findings: Findings, entry: WorkItemsEntry) -> None:
    """Check that keys are numbers, and that no item depends on itself."""
    for key, item in entry.items.items():
        path = ("work_items", "items", key)
        if not _NUMBER.fullmatch(key):
            findings.add(path, f"`{key}` is not a number of a work item", "number items 1, 2, 3 …", key=True)
        elif int(key) in item.depends_on and findings.sound(*path):
            findings.add((*path, "depends_on"), f"item {key} depends on itself", "take it out of the list")


def work_items_spec(entry: WorkItemsEntry) -> WorkItemsSpec:
    """Return the spec of a checked entry."""
    items = {int(key): WorkItemSpec(**item.model_dump()) for key, item in entry.items.items()}
    return WorkItemsSpec(entry.board, MappingProxyType(items))
