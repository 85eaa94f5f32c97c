"""Roles: as what an execution works in its tree. What one is shown and how it is begun again depend on it."""

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
"""At the top of a tree of its own, after an answer: it keeps facts about the user."""

HANDLERS = frozenset({DIRECT, PLAN, ANSWER})
"""Those who handle what a route passes on."""
SENT = frozenset({SUB_AGENT, STEP})
"""Those whom another agent sends with a task of its own."""
STAFF = frozenset({PLANNER, COMPOSER, CLASSIFIER, ANSWER, COMPLETER})
"""Those who work for a strategy, and with it for the user."""
CONCLUDING = frozenset({COMPOSER, COMPLETER})
"""Those who answer from what others brought: they have the time that is kept back for a conclusion."""
COMMISSIONED = frozenset({PLAN, STEP, DIRECT, SUB_AGENT, PLANNER, COMPLETER})
"""Those whose own input their rows keep, for the request to be made again from them; that of a stage is its chain's."""
STEADY = frozenset({PLANNER, CLASSIFIER})
"""Those who decide what is done: like requests should get like decisions."""
ORCHESTRATORS = STAFF | {ROOT}
"""Those who may answer for the whole."""


def answers_for_the_whole(role: str, above: Iterable[str]) -> bool:
    """Whether somebody sees memory and conversation: the top and its staff, not the staff of a step or of an agent that was
    sent. `above` are the roles of its callers, upwards.
    """
    return role in ORCHESTRATORS and all(each in (ROOT, PLAN) for each in above)
