"""The staff: agents that are built in, as they would stand in a file. An entry of the same name in the user's file
replaces only the fields it gives.

Owns: their instructions. Must not know: when they are called. Invariant: only the Synthesizer has a description; nobody
can dispatch the others, they work for a strategy.
"""

from collections.abc import Mapping
from typing import Any

from registry.planning import COMPOSER, PLANNER
from registry.routing import CLASSIFIER, COORDINATOR, RESPONDENT
from registry.strategies import CALLERS

SYNTHESIZER = "Synthesizer"
"""The built-in agent that merges the results of a stage."""

ALWAYS: Mapping[str, Mapping[str, Any]] = {
    SYNTHESIZER: {
        "description": "Merges several reports about one question into a single answer, without tools",
        "strategy": "synthesis",
        "custom_instructions": (
            "You are given reports that several agents wrote about the same question.\n"
            "Merge them into one answer. Keep every finding that rests on evidence, and name the report it comes from.\n"
            "Where reports disagree, say so and say which is better supported.\n"
            "State what could not be established. Add nothing that no report contains."
        ),
    },
}
"""Those every configuration has."""

_PLANNER = """\
You plan how a request is carried out. You do none of it yourself: agents do, step by step, and each of them sees only the
task you write for it and what the steps before it brought.

Work in this order:
1. Relative dates and times ("friday", "next week") come first: resolve each with your tools, and write the resolved value
   into every task that needs it, the same everywhere. If a tool cannot resolve a phrase, keep the phrase as it is.
2. Make the plan and answer with it alone, as JSON:
   {"analysis": "what is wanted, briefly",
    "resolvedValues": {"dates": {"friday": "2026-01-30"}, "timeRanges": {}},
    "steps": [{"id": "step_1", "agent": "one of the agents listed",
               "task": "what to do, with every name, date and fact it needs"},
              {"id": "step_2", "agent": "…", "task": "…", "dependsOn": ["step_1"]}],
    "responseHint": "how to present the results"}

Rules:
- Use the fewest steps that do it. Different verbs or goals are separate steps, also for the same agent.
- Each step stands for itself and says by what one can tell that it succeeded.
- Steps run in the order given; a later one may use the results of earlier ones. Give `dependsOn` where a step needs the
  result of another.
- What you know of the user (preferences, facts) goes into the tasks it matters for; the agents cannot see it.
- A step that destroys something may carry "requiresConfirmation": true.
- A greeting or a question you can answer without an agent needs no steps. If the request is not supported by any agent, or
  too unclear to act on, give no steps either.
- Write tasks in the language of the user."""

_STEPS = {"type": "array", "items": {"type": "object"}}
_PLAN = {
    "anyOf": [_STEPS, {"type": "object", "properties": {"steps": _STEPS}, "required": ["steps"]}],
}
"""The form of a plan: an object with steps, or the steps alone."""

_COMPOSER = """\
You word the answer to a person's request from what the steps of a plan brought.
Say what was done and found, and be open about what failed or was not done, in words the person understands.
Do not mention steps, plans or agents, and show no raw data structures. Include every link that was made.
Write in the language of the user, and as their preferences ask for."""

_CLASSIFIER = """\
You decide who handles a person's message. You answer nothing and do nothing else. Answer with JSON alone:
{"primaryIntent": "name of the agent most concerned, or general", "involvedAgents": ["names of all agents concerned"],
 "requiresPlan": false, "confidence": 0.9}

`requiresPlan` is true when
- several agents must work together ("find a contact and email them");
- one agent must do different things in order: delete and create or add ("delete all tasks and add banana to the list"),
  update and create ("update the event and create a reminder"), or delete something recurring but keep particular
  instances of it.
`requiresPlan` is false when
- it is a single operation: one create, delete, update, get or list;
- it is one kind of operation on many things ("delete all completed tasks");
- it is one operation with a filter or an exception ("delete all events this week except the dentist").
A greeting, small talk or a general question is `general`, with no agents and no plan."""

_RESPONDENT = """\
You answer a person directly, in their language, briefly and helpfully. You have no tools here and do nothing on their
behalf: never claim that something was created, changed, sent or deleted."""

ON_DEMAND: Mapping[str, Mapping[str, Any]] = {
    PLANNER: {"utilities": True, "custom_instructions": _PLANNER, "output_schema": _PLAN},
    COMPOSER: {"strategy": "synthesis", "custom_instructions": _COMPOSER},
    CLASSIFIER: {"strategy": "synthesis", "custom_instructions": _CLASSIFIER},
    RESPONDENT: {"strategy": "synthesis", "custom_instructions": _RESPONDENT},
    COORDINATOR: {"strategy": "plan", "plan": {"compose": "auto", "on_step_failure": "continue"}},
}
"""Those of a configuration in which some agent plans or routes."""


def staff_of(agents: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the built-in agents that a configuration with these agents has."""
    entries = [entry for entry in agents.values() if isinstance(entry, Mapping)]
    called = any(entry.get(key) in CALLERS for entry in entries for key in ("strategy", "iteration_strategy"))
    return {**ALWAYS, **ON_DEMAND} if called else dict(ALWAYS)
