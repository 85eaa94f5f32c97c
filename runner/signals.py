"""Signals: what a result asks of the plan it is part of, apart from its answer.

Owns their names, and how an answer that is an object gives them: under the names here or in camel case, as models and
programs write them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from runner.fenced import FENCE, json_of
from runner.result import Result, Signals

ReplanReason = Literal["new_information", "intent_clarified", "missing_data"]
"""What speaks for another plan although the step itself succeeded."""


def signals(*, is_empty: bool = False, needs_replan: bool = False, reason: object = None) -> Signals:
    """The signals, without those that are not given; a reason for another plan is the wish for one."""
    known = reason if isinstance(reason, str) and reason in get_args(ReplanReason) else None
    found: dict[str, bool | str] = {"is_empty": True} if is_empty else {}
    if needs_replan or known is not None:
        found["needs_replan"] = True
    return found if known is None else {**found, "replan_reason": known}


def signalled(result: Result) -> Result:
    """The result with the signals that its output gives, besides its own."""
    output = _object(result.output)
    found = signals(
        is_empty=_is_true(output, "is_empty", "isEmpty"),
        needs_replan=_is_true(output, "needs_replan", "needsReplan"),
        reason=output.get("replan_reason", output.get("replanReason")),
    )
    return replace(result, signals={**found, **result.signals}) if found else result


def _object(output: Any) -> Mapping[str, Any]:
    if isinstance(output, str) and output.startswith(("{", FENCE)):  # a report that quotes an object is none
        try:
            output = json_of(output)
        except ValueError:
            return {}
    return output if isinstance(output, Mapping) else {}


def _is_true(output: Mapping[str, Any], *names: str) -> bool:
    return any(output.get(name) is True for name in names)
