"""Roles: the function of an execution in its tree. It determines what the execution is shown and how it is restored."""

from __future__ import annotations

from collections.abc import Iterable

from db.rows.users import EXTRACTOR as _EXTRACTOR

ROOT, STAGE, SYNTHESIS, SUB_AGENT = "root", "stage", "synthesis", "sub_agent"

PLANNER, STEP, COMPOSER = "planner", "step", "composer"
"""In a plan."""

CLASSIFIER, DIRECT, PLAN, ANSWER = "classifier", "direct", "plan", "answer"
"""In a route."""

WORKER, COMPLETER = "worker", "completer"
"""In an iteration, besides its planner."""

EXTRACTOR = _EXTRACTOR
"""The root of a tree of its own, started after an answer: it stores facts about the user."""

HANDLERS = frozenset({DIRECT, PLAN, ANSWER})
"""Handle the messages of a route."""
SENT = frozenset({SUB_AGENT, STEP})
"""Work on a task written by another agent."""
STAFF = frozenset({PLANNER, COMPOSER, CLASSIFIER, ANSWER, COMPLETER})
"""Work for a strategy, and through it for the user."""
CONCLUDING = frozenset({COMPOSER, COMPLETER})
"""Answer from the results of others; they may use the time reserved for a conclusion."""
COMMISSIONED = frozenset({PLAN, STEP, DIRECT, SUB_AGENT, PLANNER, COMPLETER})
"""Their rows store their own input, so that the request can be rebuilt; a stage has the input of its chain."""
STEADY = frozenset({PLANNER, CLASSIFIER})
"""Make decisions; equal requests should get equal decisions."""
ORCHESTRATORS = STAFF | {ROOT}
"""May answer for the whole tree."""


def answers_for_the_whole(role: str, above: Iterable[str]) -> bool:
    """Whether a role sees memory and conversation: the root and its staff do, the staff of a step or of a dispatched agent
    does not. `above` are the roles of its ancestors, nearest first.
    """
    return role in ORCHESTRATORS and all(each in (ROOT, PLAN) for each in above)
