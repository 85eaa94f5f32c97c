"""The words of a plan: what its planner, its steps and its composer are told. Text from outside stands in blocks it cannot
break out of; what is too long is cut, with a mark that says how to read the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pydantic_core import to_json

from runner.delivery import cut
from runner.inert import inert
from runner.planning.blueprint import PlannedStep
from runner.planning.course import Standing, Trigger
from runner.planning.lint import Fault
from runner.shortening import limit_of
from runner.tariff import BYTES_PER_TOKEN
from runner.transcript import clean

REVISE = """\
The plan has to be revised. Make a plan for what is still to be done, in the same form as before:
keep what is completed and do not repeat it, replace what failed or cannot run, add steps if they are needed, and reach the
goal with what is known now."""

REPAIR = "Your plan cannot be carried out as it is. Make it again, in the same form, without these faults:"

LONGEST_NAME = 100
"""Of an agent that a planner made up."""

STYLES = {
    "chat": "",
    "sms": "The answer is read as a text message: a few short sentences, no headings, no tables.",
    "report": "The answer is read as a report: headings, and details where they matter.",
}


@dataclass(frozen=True, slots=True)
class Brought:
    """What became of a step."""

    step: PlannedStep
    standing: Standing

    @property
    def succeeded(self) -> bool:
        """Whether it did what it was to do."""
        return self.standing.succeeded

    @property
    def status(self) -> str:
        """How it ended, or how far it is, as others are told."""
        return "failed" if self.standing.failed and self.standing.status == "completed" else self.standing.status

    @property
    def text(self) -> str:
        """What it brought, or why it brought nothing."""
        result = self.standing.result
        if result is None:
            return f"({self.status})"
        if result.output is None and result.errors:
            return result.errors[0].message
        return result.text

    def shown(self) -> dict[str, Any]:
        """As data, for whoever wants no words."""
        output = self.standing.result.output if self.standing.result is not None and self.succeeded else None
        shown = {"id": self.step.id, "agent": self.step.agent, "status": self.status, "output": output}
        return shown if self.succeeded else {**shown, "error": self.text}


def step_message(task: str, brought: Sequence[Brought], budget: int) -> str:
    """The first message of a step: its task, and what the steps before it brought, within a budget of tokens."""
    if not brought:
        return task
    return f"{task}\n\n<context_from_previous_steps>\n{_results(brought, budget)}\n</context_from_previous_steps>"


def replan_message(request: str, trigger: Trigger, steps: Sequence[Brought], budget: int) -> str:
    """The first message of a planner that is to revise a plan."""
    state = "\n".join(f"{_opening(each)}{inert(each.step.task)}</step>" for each in steps)
    done = [each for each in steps if each.succeeded]
    errors = "\n".join(f'<error step="{each.step.id}">{inert(each.text)}</error>' for each in steps if each.standing.failed)
    parts = [request, f"<plan>\n{state}\n</plan>"]
    if done:
        parts.append(f"<results>\n{_results(done, budget)}\n</results>")
    if errors:
        parts.append(f"<errors>\n{errors}\n</errors>")
    parts.append(f"{REVISE}\n\nReplan needed: {trigger.type} in {trigger.step_id}: {inert(trigger.reason)}")
    if trigger.new_context is not None:
        parts.append(f"<new_context>\n{inert(_json(trigger.new_context))}\n</new_context>")
    return "\n\n".join(parts)


def repair_message(first: str, faults: Mapping[str, Fault]) -> str:
    """The first message of a planner whose plan cannot be carried out."""
    listed = "\n".join(f'<error step="{step}">{inert(fault.message)}</error>' for step, fault in faults.items())
    return f"{first}\n\n{REPAIR}\n<errors>\n{listed}\n</errors>"


def composer_message(request: str, brought: Sequence[Brought], hint: str, channel: str, budget: int) -> str:
    """The first message of a composer."""
    parts = [request]
    if brought:
        parts.append(f"<results>\n{_results(brought, budget)}\n</results>")
    if hint:
        parts.append(f"<presentation>{inert(hint)}</presentation>")
    return "\n\n".join([*parts, *filter(None, [STYLES[channel]])])


def _results(brought: Sequence[Brought], budget: int) -> str:
    """What steps brought, one element each; the longest are cut so that all of them fit."""
    texts = [inert(each.text) for each in brought]
    lengths = [len(text.encode()) for text in texts]
    over = sum(lengths) - budget * BYTES_PER_TOKEN
    most = limit_of(lengths, over) if over > 0 else max(lengths, default=0)
    return "\n".join(
        f"{_opening(each)}\n{cut(text, each.step.id, most)}\n</step>" for each, text in zip(brought, texts, strict=True)
    )


def _opening(brought: Brought) -> str:
    step = brought.step
    return f'<step id="{step.id}" agent="{escape(clean(step.agent)[:LONGEST_NAME])}" status="{brought.status}">'


def _json(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value, indent=2).decode()
