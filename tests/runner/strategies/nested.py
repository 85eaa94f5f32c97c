"""A nested tree for tests: a route that plans, a step of the plan that iterates, a worker of the iteration that dispatches.

Owns: the configuration, what everybody in it says, small questions to the rows. Must not know: what a test expects.
Invariant: everybody answers by what they are asked alone, so that whoever is asked again after a restart says the same.
"""

from __future__ import annotations

import json
import re
from typing import Any

from runner.llm.protocol import Request
from tests.runner.strategies.iterate.iterated import done, finished, first, task, tasks
from tests.runner.strategies.plan.planned import plan, step
from tests.runner.strategies.route.routed import decide
from tests.support.models import Script, Turn, say
from tests.support.reading import delivered, dispatch
from tests.support.service import Bench

LEVELS = ("Front", "Coordinator", "Survey", "Lead", "Scout")
"""Who works at which depth: it routes, plans, iterates, dispatches, looks."""
ANSWER = "the coast is clear: east, west, north"


def config(limits: str = "max_depth: 4", front: str = "", more: str = "") -> str:
    """The configuration, with these limits of everybody and settings of whoever is at the top."""
    return f"""
defaults: {{limits: {{{limits}}}}}
agents:
  Front: {{strategy: route, description: takes messages, sub_agents: [Notes, Survey], {front}}}
  Notes: {{description: knows what was written down}}
  Survey: {{strategy: iterate, description: surveys, iterate: {{worker: Lead}}}}
  Lead: {{description: leads, sub_agents: [Scout]}}
  Scout: {{description: looks}}
{more}"""


def scripts(**more: Script) -> dict[str, Script]:
    """What everybody says, but for these."""
    said: dict[str, Script] = {
        "Classifier": lambda _: decide("Survey", "Notes", plan=True),
        "Planner": lambda _: plan(step("step_1", "Notes", "recall"), step("step_2", "Survey", "survey the coast")),
        "Notes": lambda _: say("the harbour lies in the east"),
        "TaskPlanner": planner,
        "Lead": lead,
        "Scout": lambda request: say(f"{first(request)} is clear"),
        "Completer": lambda request: say(f"the coast is clear: {', '.join(found(first(request)))}"),
        "Composer": lambda request: say(f"the coast is clear: {', '.join(found(first(request)))}"),
    }
    return said | more


def planner(request: Request) -> Turn:
    """The east, then west and north together."""
    known = found(first(request))
    if not known:
        return task("the east", reasoning="the harbour lies there")
    return finished() if len(known) == 3 else tasks("the west", "the north", parallel=True)


def lead(request: Request) -> Turn:
    """Sends a scout to where its task is, and reports what that one saw."""
    where = re.search(r"<task>\nthe (\w+)\n", first(request))
    ends = delivered(request)
    if not ends:
        return dispatch("Scout", where[1] if where else "?") if len(request.messages) == 1 else say("I wait")
    return done(ends[0].text) if ends[0].status == "completed" else say(json.dumps({"success": False}))


def found(text: str) -> list[str]:
    """The directions that are said to be clear, in order."""
    told = re.findall(r"clear: ((?:\w+, )*\w+)", text) + re.findall(r"(east|west|north) is clear", text)
    return list(dict.fromkeys(", ".join(told).split(", "))) if told else []


def tree(service: Bench) -> list[dict[str, Any]]:
    """The whole tree, as the view has it, by path."""
    return service.sql("select * from execution_tree order by depth, path")


def everybody(service: Bench, *names: str) -> list[dict[str, Any]]:
    """The rows of these agents, or of all, in order of birth."""
    rows = service.sql("select * from executions order by id")
    return [row for row in rows if not names or row["agent"] in names]
