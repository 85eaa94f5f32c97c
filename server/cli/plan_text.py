"""A plan in words: its versions, its steps in order, and how each ended; and the tasks of an iteration likewise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.cli.messages import one_line
from server.shapes import shape

WIDTH = 100
"""Characters of a text that a line repeats."""


def plan_text(plan: Mapping[str, Any]) -> str:
    """The plan of an execution, as people read it."""
    lines = [f"plan {plan['status']}, version {plan['version']}: {one_line(plan['user_request'], WIDTH)}"]
    if plan["analysis"]:
        lines.append(f"  {one_line(plan['analysis'], WIDTH)}")
    lines += [
        f"  revised: {trigger['type']} in {trigger['step_id']}: {one_line(trigger['reason'], WIDTH)}"
        for trigger in plan["triggers"]
    ]
    return "\n".join([*lines, *(line for step in plan["steps"] for line in _step(step))])


def _step(step: Mapping[str, Any]) -> list[str]:
    mark = shape(step["status"], None if step["success"] or step["status"] != "completed" else "failed")
    after = f" after {', '.join(step['depends_on'])}" if step["depends_on"] else ""
    again = f", {step['retry_count']} more attempts" if step["retry_count"] else ""
    lines = [f"{mark} {step['id']} {step['agent']} ({step['status']}{again}){after}: {one_line(step['task'], WIDTH)}"]
    if step["error"]:
        lines.append(f"    {one_line(step['error'], WIDTH)}")
    return lines


def tasks_text(state: Mapping[str, Any]) -> str:
    """The tasks of an iteration, as people read them."""
    tasks = state["tasks"]
    done = sum(task["status"] == "completed" for task in tasks)
    lines = [f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}, {done} completed"]
    for number, task in enumerate(tasks, 1):
        lines.append(
            f"{shape(task['status'], None)} {number} {task['agent']} ({task['status']}): {one_line(task['task'], WIDTH)}"
        )
        if "error" in task:
            lines.append(f"    {one_line(task['error']['message'], WIDTH)}")
    return "\n".join(lines)
