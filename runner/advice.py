"""What a result says of its errors: a code for programs, where each arose, and what people do next.

Pure. Owns the next steps that are known for a type of error. What an agent says itself is never replaced, and of an error
that comes up through several executions the first that told it tells where it arose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runner.codes import code_of
from runner.result import Problem, Result

NEXT_STEPS: Mapping[str, str] = {
    "delegation_cycle": "refactor: let no agent need one that is already at work above it",
    "max_depth_exceeded": "simplify the workflow, or split it into several commands",
    "timeout": "resume it, or give the same command again, to go on from what is there",
    "validation_failed": "report this: the sub-agent does not keep to the standard return and has to be fixed",
}


def explained(result: Result, session: str | None, agent: str) -> Result:
    """The result, with what is to be known of each of its errors."""
    if not result.errors:
        return result
    where = {"session_id": session, "subagent": agent}
    known = NEXT_STEPS.get(result.errors[0].type)
    return replace(
        result,
        errors=tuple(_told(each, where) for each in result.errors),
        next_steps=result.next_steps or ((known,) if known is not None else ()),
    )


def _told(problem: Problem, where: Mapping[str, Any]) -> Problem:
    return replace(problem, code=code_of(problem), context={**where, **problem.context})
