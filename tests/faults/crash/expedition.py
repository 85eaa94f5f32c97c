"""The plan that is killed: a Marshal routes a message to it, and its first draft has to be repaired. A Scout looks while a
Novice sends one, fails and tries again; a Seeker finds nothing, so the plan is revised; then a Captain leads a squad, and a
person is asked whether a Striker may strike.

Owns: the agents of it, what its staff says, what must have become of its steps, and what a user hears in the end. Must not
know: processes and rows. Invariant: as for the brigade, what is said depends on what was returned, and on nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from runner.strategies.plan.prompts import REPAIR

MARSHAL, COURIER = "Marshal", "Courier"
"""The same route: dispatched, or told what a user says."""
USER = "alex"
STRENGTH = ("Scout", "Striker", "Captain", "Novice", "Seeker")
CAUTIOUS = "root.f"
"""What a person has to allow."""

NAMES = ("Classifier", "Planner", "Composer", "Novice", "Seeker")
AGENTS = """\
  Classifier: {model: Classifier}
  Planner: {model: Planner}
  Composer: {model: Composer}
  Coordinator: {plan: {max_concurrent: 3}}
  Novice: {description: sends a scout once more, model: Novice, sub_agents: [Scout]}
  Seeker: {description: looks and finds nothing, model: Seeker, mcp_servers: [field]}
  Marshal: {description: plans expeditions, strategy: route, sub_agents: [Scout, Striker, Captain, Novice, Seeker]}
chat: {agent: Marshal}
users: {alex: {name: Alex}}
"""

HAPPENINGS, UNANSWERED = 41, 34
"""Requests and tool calls of an undisturbed plan, and of one whose question nobody answers."""
VERSIONS = ((1, "replanning"), (2, "completed"))
"""The versions of the plan, and how far each must have come."""
STATUSES = {"d": "skipped"} | dict.fromkeys("abcefg", "completed")
"""What must have become of each step."""


def _step(name: str, agent: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "agent": agent, "task": f"root.{name}", "dependsOn": after, **more}


_VERSIONS = (
    (_step("a", "Scout"), _step("b", "Novice"), _step("c", "Seeker", "a"), _step("d", "Striker", "b", "c")),
    (_step("e", "Captain"), _step("f", "Striker", requiresConfirmation=True), _step("g", "Scout", "e", "f", "a")),
)
_DRAFT = (*_VERSIONS[0], _step("x", "Ghost"))
_FAILED = re.compile(r"failed in turn (\d+)")
_FINDING = re.compile(r"root(?:\.\w+)+ (?:look|strike|unknown)")


def seat_of(agent: str, first: str) -> str | None:
    """Which of the staff asks, given the first message; None for who is none of it."""
    return {"Classifier": "classifier", "Planner": _draft_of(first), "Composer": "composer"}.get(agent)


def _draft_of(first: str) -> str:
    if "Replan needed: missing_data in c" in first:
        return "plan.2"
    return "plan.1.repair" if REPAIR in first else "plan.1"


def staff_says(agent: str, first: str) -> str:
    """The only answer of somebody of the staff."""
    if agent == "Classifier":
        return json.dumps({"primaryIntent": "Captain", "involvedAgents": STRENGTH, "requiresPlan": True})
    if agent == "Planner":
        drafts = {"plan.1": _DRAFT, "plan.1.repair": _VERSIONS[0], "plan.2": _VERSIONS[1]}
        return json.dumps({"steps": drafts[_draft_of(first)]})
    return composed(_FINDING.findall(first))


def turns_before(first: str) -> int:
    """How many turns an attempt had taken that failed before this one; 0 when this is the first."""
    failed = _FAILED.search(first)
    return int(failed[1]) if failed is not None else 0


def report_of(agent: str, found: str, attempt: int, turn: int) -> dict[str, Any] | None:
    """What somebody of the field reports by `finish`; None for who just says it."""
    if agent == "Novice" and attempt == 1:
        return {"status": "failed", "summary": f"failed in turn {turn}"}
    return {"status": "completed", "summary": found, "is_empty": True} if agent == "Seeker" else None


def composed(findings: Collection[str]) -> str:
    """What a user hears of the findings."""
    return f"composed({', '.join(sorted(set(findings)))})"


def last_word(of_agent: Callable[[str, str], str]) -> str:
    """What a user hears in the end, given what agents say in the end, by name and label."""
    took_part = [step for version in _VERSIONS for step in version if STATUSES[step["id"]] == "completed"]
    return composed(_FINDING.findall(" ".join(_said_by(of_agent, step["agent"], step["task"]) for step in took_part)))


def _said_by(of_agent: Callable[[str, str], str], agent: str, task: str) -> str:
    """What a step comes to; of a Novice the second scout is heard."""
    return of_agent("Scout" if agent in ("Novice", "Seeker") else agent, f"{task}.2" if agent == "Novice" else task)
