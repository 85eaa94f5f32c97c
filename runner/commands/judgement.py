"""The judgement of a work item: which language it is about, how complex the request is, how much context that calls for.

Pure. `language` is the domain of a task, not the language people speak. Rules decide, no model is asked.
"""

from __future__ import annotations

import re

from registry import CommandSpec, Complexity
from runner.board import WorkItem

GENERAL = "general"
"""The language of what says none."""

LEVELS: dict[Complexity, int] = {"simple": 1, "moderate": 2, "complex": 3}
"""Which context files are shown."""

MANY = 5
"""Work items of one call, or others an item waits for: from here on it is complex."""

_METADATA = re.compile(r"^[\s>*_-]*language[\s*_]*:[\s*_`\"']*([A-Za-z0-9][\w+#.-]*)", re.IGNORECASE | re.MULTILINE)
_METADATA_LINES = 40
"""Of a plan: what stands further below is its text."""


def language_of(item: WorkItem | None, plan: str) -> str:
    """The language of a work item: its own, else that of its plan's metadata, else general."""
    if item is not None and item.language:
        return item.language
    found = _METADATA.search("\n".join(plan.splitlines()[:_METADATA_LINES]))
    return found[1].rstrip(".").lower() if found is not None else GENERAL


def complexity_of(command: CommandSpec, item: WorkItem | None, count: int) -> Complexity:
    """How complex a request is: as its command or its item says, else by how many items it is about and waits for."""
    if command.complexity is not None:
        return command.complexity
    if item is not None and item.complexity is not None:
        return item.complexity
    waits_for = len(item.depends_on) if item is not None else 0
    most = max(count, waits_for)
    return "complex" if most >= MANY else "moderate" if count > 1 or waits_for else "simple"
