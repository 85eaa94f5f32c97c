"""The next tasks, parsed from a planner's answer. Pure.

Owns the accepted forms: one task or several, camel case or snake case, texts or objects that hold a task. Invariant:
whatever an answer holds, the parsed decision can be stored and has at most `MOST_TASKS` tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runner.messages import clean
from runner.text import folded_keys, read_json

MOST_TASKS = 100
"""Tasks of one turn; the planner is asked again after it anyway."""
LONGEST_REASONING = 2_000


class NoDecision(ValueError):
    """An answer that holds no decision."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The next tasks; without tasks the planner has finished."""

    tasks: tuple[str, ...] = ()
    parallel: bool = False
    reasoning: str = ""
    dropped: int = 0
    """The number of tasks beyond `MOST_TASKS`."""

    def told(self) -> dict[str, Any]:
        """The data of its event."""
        told: dict[str, Any] = {"tasks": list(self.tasks), "finished": not self.tasks}
        told |= {"parallel": True} if self.parallel else {}
        told |= {"dropped": self.dropped} if self.dropped else {}
        return {**told, "reasoning": self.reasoning} if self.reasoning else told


def read_decision(answer: str) -> Decision:
    """Parse a planner's answer; one without tasks means finished. Raises NoDecision if it holds no JSON object."""
    value = read_json(answer, lambda value: isinstance(value, dict))
    if not isinstance(value, dict):
        raise NoDecision("it is not a JSON object")
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
    """The tasks in a value: a text, an object with a task, or a list of either."""
    if isinstance(value, str) and (task := clean(value).strip()):
        yield task
    elif isinstance(value, dict):
        fields = folded_keys(value)
        yield from _tasks(next((fields[key] for key in ("task", "description") if key in fields), None))
    elif isinstance(value, list):
        for each in value:
            if not isinstance(each, list):
                yield from _tasks(each)
