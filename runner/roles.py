"""Roles: as what an execution works in its tree. What one is shown and how it is begun again depend on it."""

from __future__ import annotations

ROOT, STAGE, SYNTHESIS, SUB_AGENT = "root", "stage", "synthesis", "sub_agent"

PLANNER, STEP, COMPOSER = "planner", "step", "composer"
"""In a plan."""

CLASSIFIER, DIRECT, PLAN, ANSWER = "classifier", "direct", "plan", "answer"
"""In a route."""

SENT = frozenset({SUB_AGENT, STEP})
"""Those whom another agent sends with a task of its own."""
STAFF = frozenset({PLANNER, COMPOSER, CLASSIFIER, ANSWER})
"""Those who work for a strategy, and with it for the user."""
WHOLE = STAFF | {ROOT}
"""Those who answer for the whole, and see memory and conversation."""
