"""Plans for tests: a configuration with an assistant and three agents, and what a planner says.

Owns: the configuration, the form of a planner's answer, small questions to the rows. Must not know: what a test expects.
"""

from __future__ import annotations

import json
from typing import Any

from tests.support.models import Turn, say
from tests.support.service import Bench

CONFIG = """
agents:
  Assistant: {{strategy: plan, description: plans, sub_agents: [A, B, C], plan: {{{plan}}}}}
  A: {{description: does a}}
  B: {{description: does b}}
  C: {{description: does c}}
"""


def config(plan: str = "") -> str:
    """The configuration, with these settings of the plan."""
    return CONFIG.format(plan=plan)


def step(name: str, agent: str, task: str = "do it", **more: Any) -> dict[str, Any]:
    """One step as a planner writes it."""
    return {"id": name, "agent": agent, "task": task, **more}


def plan(*steps: dict[str, Any], **more: Any) -> Turn:
    """A planner's answer."""
    return say(json.dumps({"analysis": "as wanted", "steps": list(steps), **more}))


A, B, C = step("step_1", "A"), step("step_2", "B"), step("step_3", "C")


def steps(service: Bench) -> dict[str, str]:
    """The status of every step, by its id."""
    rows = service.sql("select step_id, status from executions where role = 'step' order by created_at, position")
    return {row["step_id"]: row["status"] for row in rows}


def roles(service: Bench) -> list[str]:
    """The roles of everybody who was started, in order."""
    return [row["role"] for row in service.sql("select role from executions order by created_at, position")]


def plan_events(service: Bench) -> list[str]:
    """What happened to the plan, in order."""
    return [row["type"] for row in service.sql("select type from events where type like 'plan.%' order by seq")]
