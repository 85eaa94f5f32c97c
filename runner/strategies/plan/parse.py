"""Parses a planner's answer into steps.

Owns the accepted forms (an object with `steps` or a bare array; `camelCase` and `snake_case`; fenced or within prose) and
the defaults. Whether the steps can run is checked in `runner/strategies/plan/check.py`. Invariant: whatever an answer
holds, parsing ends soon, with steps that can be stored or with NotAPlan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_json

from runner.messages import clean
from runner.strategies.compose import StepTask
from runner.text import folded_keys, read_json

PERFORM = "perform_action"
"""The default intent of a step."""

LONGEST_SECONDS = 1e9

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class NotAPlan(ValueError):
    """An answer that holds no plan."""


@dataclass(frozen=True, slots=True)
class PlannedStep(StepTask):
    """A step as planned."""

    depends_on: tuple[str, ...] = ()
    intent: str = PERFORM
    instruction: str = ""
    """The user's wish for this step, in words; `task` is what its agent is given."""
    notes: str = ""
    confirm: bool = False
    """Whether a person has to approve it."""
    max_retries: int | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A plan as its planner made it."""

    steps: tuple[PlannedStep, ...]
    analysis: str = ""
    resolved: Mapping[str, Any] = field(default_factory=dict)
    response_hint: str = ""
    dropped: int = 0
    """The number of steps without a task."""


def read_plan(answer: str) -> PlanDraft:
    """Parse a planner's answer; raises NotAPlan."""
    value = read_json(answer, lambda value: _planned(value) is not None)
    steps = _planned(value)
    if steps is None:
        is_json = isinstance(read_json(answer), dict | list)
        raise NotAPlan(
            "`steps` is missing or is not a list of objects" if is_json else "the answer is not a JSON object or array"
        )
    fields = folded_keys(value) if isinstance(value, dict) else {}
    read = _steps([folded_keys(each) for each in steps])
    resolved = fields.get("resolvedvalues")
    return PlanDraft(
        steps=read,
        analysis=_text(fields.get("analysis")),
        resolved=resolved if isinstance(resolved, dict) else {},
        response_hint=_text(fields.get("responsehint")),
        dropped=len(steps) - len(read),
    )


def _planned(value: Any) -> list[Any] | None:
    """The raw steps, if a value is a plan."""
    if isinstance(value, dict):
        fields = folded_keys(value)
        value = fields.get("steps", fields.get("actions", fields.get("plan")))
    return value if isinstance(value, list) and all(isinstance(step, dict) for step in value) else None


def _steps(entries: Sequence[Mapping[str, Any]]) -> tuple[PlannedStep, ...]:
    """Build the steps; one without a task is dropped, as a revised plan may repeat finished steps.

    An invalid id is replaced, also in the dependencies of other steps.
    """
    named: dict[str, str] = {}
    read: list[PlannedStep] = []
    for number, fields in enumerate(entries, 1):
        task = _text(fields.get("executionpayload")) or _text(fields.get("task"))
        if task and fields.get("status") != "completed":
            written = _text(fields.get("id"))
            own = written if _SAFE_ID.fullmatch(written) else f"action_{number}"
            named.setdefault(written, own)
            read.append(_step(own, task, fields))
    return tuple(replace(step, depends_on=tuple(named.get(each, each) for each in step.depends_on)) for step in read)


def _step(identifier: str, task: str, fields: Mapping[str, Any]) -> PlannedStep:
    return PlannedStep(
        id=identifier,
        agent=_text(fields.get("agent")),
        task=task,
        depends_on=_names(fields.get("dependson")),
        intent=_text(fields.get("intent")) or PERFORM,
        instruction=_text(fields.get("userinstruction")) or task,
        notes=_text(fields.get("notes")),
        confirm=fields.get("requiresconfirmation") is True,
        max_retries=_count(fields.get("maxretries")),
        timeout=_seconds(fields.get("timeout", fields.get("timeoutseconds"))),
    )


def _text(value: Any) -> str:
    if value is None or value == {} or value == []:
        return ""
    return clean(value.strip() if isinstance(value, str) else to_json(value).decode())


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    items: Sequence[Any] = value if isinstance(value, list) else ()
    return tuple(dict.fromkeys(str(item).strip() for item in items if isinstance(item, str | int)))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _seconds(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 < value < LONGEST_SECONDS else None
