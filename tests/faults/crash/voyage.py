"""The nested tree that is killed: an Admiral routes a message to a Helm, whose plan has a Scout look and a Voyage sail; the
Voyage iterates, and its workers are Captains, who lead their squads. Five levels.

Owns: the agents of it, what those say who only decide and word, who has which label, and what is said in the end. Must not
know: processes and rows. Invariant: as for the brigade, what is said depends on what was returned, and on nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.faults.crash.expedition import composed

ADMIRAL = "Admiral"
LEVELS = ("Admiral", "Helm", "Voyage", "Captain", "Scout")
"""Who works at which depth."""

NAMES = ("Pilot", "Chart", "Log", "Compass", "Herald")
"""Who decides and words: of the route, of the plan, and of the iteration."""
AGENTS = """\
  Pilot: {model: Pilot, strategy: synthesis}
  Chart: {model: Chart}
  Log: {model: Log, strategy: synthesis}
  Compass: {model: Compass}
  Herald: {model: Herald, strategy: synthesis}
  Helm: {strategy: plan, plan: {planner: Chart, composer: Log, compose: always}}
  Voyage: {strategy: iterate, description: sails, iterate: {planner: Compass, worker: Captain, completer: Herald}}
  Admiral: {description: sends, strategy: route, sub_agents: [Scout, Voyage], route: {classifier: Pilot, planner: Helm}}
"""

HAPPENINGS = 46
"""Requests and tool calls of an undisturbed voyage."""
TASKS = ("root.v.1", "root.v.2", "root.v.3")
"""What the Captains are told to do: the first alone, then two together."""

_DECISIONS: tuple[dict[str, Any], ...] = (
    {"nextTask": TASKS[0]},
    {"nextTasks": TASKS[1:], "parallelTasks": True},
    {"finished": True},
)
_STEPS = (
    {"id": "a", "agent": "Scout", "task": "root.a"},
    {"id": "v", "agent": "Voyage", "task": "root.v", "dependsOn": ["a"]},
)
_FINDING = re.compile(r"root(?:\.\w+)+ (?:look|strike|unknown)")
_TASK = re.compile(r"<task>\n(\S+)\n</task>")
_ENTRY = re.compile(r"^- task: ", re.M)


def seat_of(agent: str, first: str) -> str | None:
    """What somebody who asks is called below the root, given the first message; None for who is called by its task."""
    if agent == "Captain" and (told := _TASK.search(first)) is not None:
        return told[1].removeprefix("root.")
    return {"Pilot": "classifier", "Chart": "plan.1", "Log": "composer", "Herald": "herald"}.get(
        agent, f"compass.{_turn(first)}" if agent == "Compass" else None
    )


def seat_of_row(agent: str, step: str) -> str | None:
    """The same of those whose place in the plan or iteration does not say it, from their rows."""
    if agent == "Compass":
        return step.replace("plan", "compass")
    return "herald" if agent == "Herald" else None


def _turn(first: str) -> int:
    """How often the Compass was asked: by the tasks it is shown."""
    return {0: 1, 1: 2, 3: 3}.get(len(_ENTRY.findall(first)), 0)


def staff_says(agent: str, first: str) -> str:
    """The only answer of somebody who decides or words."""
    if agent == "Pilot":
        return json.dumps({"primaryIntent": "Voyage", "involvedAgents": ["Scout", "Voyage"], "requiresPlan": True})
    if agent == "Chart":
        return json.dumps({"steps": _STEPS})
    if agent == "Compass":
        return json.dumps(_DECISIONS[_turn(first) - 1])
    return composed(_FINDING.findall(" ".join(first.split())))


def last_word(of_agent: Callable[[str, str], str]) -> str:
    """What is said in the end, given what agents say in the end, by name and label."""
    said = [of_agent("Scout", "root.a"), *(of_agent("Captain", task) for task in TASKS)]
    return composed(_FINDING.findall(" ".join(said)))
