"""A decision on what is done next, read from what a planner of tasks answered. Pure.

Owns the forms that are accepted: one task or several, in camel case or with underscores, texts or objects that hold one.
Invariant: whatever an answer holds, what comes out can be stored, and is no longer than what one turn may bring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runner.messages import clean
from runner.text import folded_keys, read_json

MOST_TASKS = 100
"""Of one turn; the planner is asked again anyway."""
LONGEST_REASONING = 2_000


class NoDecision(ValueError):
    """An answer that says neither what is next nor that nothing is."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done next; no tasks when nothing is left to do."""

    tasks: tuple[str, ...] = ()
    parallel: bool = False
    reasoning: str = ""
    dropped: int = 0
    """Tasks beyond what one turn may bring."""

    def told(self) -> dict[str, Any]:
        """What an event says of it."""
        told: dict[str, Any] = {"tasks": list(self.tasks), "finished": not self.tasks}
        told |= {"parallel": True} if self.parallel else {}
        told |= {"dropped": self.dropped} if self.dropped else {}
        return {**told, "reasoning": self.reasoning} if self.reasoning else told


def read_decision(answer: str) -> Decision:
    """Read a planner's answer; one that says it is finished, or names no task, is. Raises NoDecision for no object."""
    value = read_json(answer, lambda value: isinstance(value, dict))
    if not isinstance(value, dict):
        raise NoDecision("it is no JSON object")
    fields = folded_keys(value)
    given = fields.get("reasoning")
    reasoning = clean(given).strip()[:LONGEST_REASONING] if isinstance(given, str) else ""
    if fields.get("finished") is True or str(fields.get("finished")).lower() == "true":
        return Decision(reasoning=reasoning)
    together = fields.get("paralleltasks")
    listed = [*_tasks(fields.get("nexttask")), *_tasks(fields.get("nexttasks")), *_tasks(together)]
    tasks = tuple(dict.fromkeys(listed))
    parallel = together is True or str(together).lower() == "true" or isinstance(together, list)
    kept = tasks[:MOST_TASKS]
    return Decision(kept, parallel and len(kept) > 1, reasoning, len(tasks) - len(kept))


def _tasks(value: Any) -> Iterator[str]:
    """The tasks that a value holds: a text, an object with one, or a list of either."""
    if isinstance(value, str) and (task := clean(value).strip()):
        yield task
    elif isinstance(value, dict):
        fields = folded_keys(value)
        yield from _tasks(next((fields[key] for key in ("task", "description") if key in fields), None))
    elif isinstance(value, list):
        for each in value:
            if not isinstance(each, list):
                yield from _tasks(each)
