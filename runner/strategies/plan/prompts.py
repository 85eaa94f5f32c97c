"""The prompts of a plan: the first messages of its planner and its steps. External text stands in blocks that it cannot
break out of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.strategies.compose import Digest, StepResult
from runner.strategies.plan.check import PlanFault
from runner.strategies.plan.schedule import Trigger
from runner.text import beside, escape_blocks

REVISE = """\
The plan has to be revised. Make a plan for the remaining work, in the same form as before:
keep completed steps and do not repeat them, replace steps that failed or cannot run, add steps if needed, and reach the
goal with what is known now."""

REPAIR = "Your plan cannot run as it is. Make it again, in the same form, without these faults:"

SHOWN_OF_ERROR = 2_000
"""Characters of a step's error that are shown."""


def step_message(task: str, earlier: Digest) -> str:
    """The first message of a step: its task and the results of earlier steps."""
    if not earlier.text:
        return beside(task)
    return beside(task, f"<context_from_previous_steps>\n{earlier.text}\n</context_from_previous_steps>")


def replan_message(request: str, trigger: Trigger, steps: Sequence[StepResult], done: Digest) -> str:
    """The first message of a planner that revises a plan; `done` holds the successful steps. `request` stands beside
    blocks, here and below, so it must be escaped.
    """
    state = "\n".join(f"{each.opening}{escape_blocks(each.step.task)}</step>" for each in steps)
    errors = "\n".join(_error(each.step.id, each.text) for each in steps if each.standing.failed)
    parts = [request, f"<plan>\n{state}\n</plan>"]
    if done.text:
        parts.append(f"<results>\n{done.text}\n</results>")
    if errors:
        parts.append(f"<errors>\n{errors}\n</errors>")
    why = f"Replan needed: {trigger.type} in {trigger.step_id}: <reason>{escape_blocks(trigger.reason)}</reason>"
    return "\n\n".join([*parts, REVISE, why])


def repair_message(first: str, faults: Mapping[str, PlanFault]) -> str:
    """The first message of a planner whose plan has faults."""
    listed = "\n".join(_error(step, fault.message) for step, fault in faults.items())
    return f"{first}\n\n{REPAIR}\n<errors>\n{listed}\n</errors>"


def _error(step: str, message: str) -> str:
    shown = message if len(message) <= SHOWN_OF_ERROR else f"{message[:SHOWN_OF_ERROR]}…"
    return f'<error step="{step}">{escape_blocks(shown)}</error>'
