"""The decision about a message, parsed from a classifier's answer: its agents, and whether it needs a plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry import fold
from runner.messages import clean
from runner.text import folded_keys, read_json

GENERAL = "general"
_SEVERAL = {"multitask", "multiagent", "multi"}
"""Intents that mean several agents when the classifier names none."""
LONGEST_INTENT = 100


@dataclass(frozen=True, slots=True)
class Routing:
    """The agents that handle a message; without agents it is answered in words."""

    intent: str = GENERAL
    agents: tuple[str, ...] = ()
    plan: bool = False
    confidence: float | None = None

    @property
    def needs_plan(self) -> bool:
        """Whether the message needs several agents, or several operations of one."""
        return self.plan or len(self.agents) > 1


def read_routing(answer: str, agents: Sequence[str]) -> Routing:
    """Parse a classifier's answer; without a known agent in it, the message is answered in words."""
    value = read_json(answer, lambda value: isinstance(value, dict))
    if not isinstance(value, dict):
        return Routing()
    fields = folded_keys(value)
    known = {fold(name): name for name in agents}
    given = fields.get("primaryintent", fields.get("intent"))
    intent = clean(given).strip()[:LONGEST_INTENT] if isinstance(given, str) else ""
    if fold(intent) == GENERAL and GENERAL not in known:
        return Routing(confidence=_confidence(fields.get("confidence")))
    named = _named(fields.get("involvedagents", fields.get("agents")), known)
    plan = fields.get("requiresplan") is True or str(fields.get("requiresplan")).lower() == "true"
    if not named and fold(intent) in known:
        named = (known[fold(intent)],)
    if not named and fold(intent).replace("_", "").replace(" ", "") in _SEVERAL:
        named, plan = tuple(agents), True
    return Routing(intent if named else GENERAL, named, plan and bool(named), _confidence(fields.get("confidence")))


def _named(value: Any, known: Mapping[str, str]) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(dict.fromkeys(known[fold(each)] for each in items if isinstance(each, str) and fold(each) in known))


def _confidence(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(min(1, max(0, value))) if number else None
