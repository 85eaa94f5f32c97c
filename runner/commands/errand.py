"""An errand: one work item of a call as it was judged, and what the agents who work on it are born from.

Pure, as `runner/requests.py`. What was judged stands in the input of each agent's row, so that whoever goes on after a
crash judges nothing anew. Invariant: a request made again from a row is the one the row was made from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from db.rows.reads import Record
from db.status import ExecutionStatus
from registry import ARGUMENTS, AgentSpec, CommandSpec, Complexity, PhaseSpec, Settings
from runner.board import WorkItem
from runner.commands.call import Call
from runner.commands.judgement import LEVELS
from runner.context import first_message
from runner.delegation import KEY, Delegation
from runner.excerpt import excerpt
from runner.inputs import accepted_input
from runner.personal import view_of
from runner.result import Outcome
from runner.roles import DIRECT
from runner.tariff import BYTES_PER_TOKEN
from runner.work import SpawnRequest

RULE = "rule"
"""Where the number of the rule that held stands in the input of an execution."""


@dataclass(frozen=True, slots=True)
class Errand:
    """What is to be done for one work item, or for none."""

    call: Call
    number: int | None
    item: WorkItem | None
    language: str
    complexity: Complexity
    rule: int
    plan: str = ""
    """The text of the item's plan, where it can be read."""

    @property
    def command(self) -> CommandSpec:
        """The command."""
        return self.call.command

    @property
    def phases(self) -> Sequence[PhaseSpec]:
        """Who works, one after the other."""
        return self.command.rules[self.rule].phases

    def seat(self, phase: int) -> str:
        """The seat of who works in a phase, counted from 1."""
        return seat_of(self.number, phase)

    @property
    def task(self) -> str:
        """What its agents are told: the text of the command, with what was written behind its name put in as it stands."""
        prompt = self.command.prompt
        if prompt is None:
            return self.call.about(self.number)
        return prompt.replace(ARGUMENTS, self.call.about(self.number).partition(" ")[2])

    def input(self, phase: PhaseSpec, agent: AgentSpec, delegation: Delegation) -> dict[str, Any]:
        """What an agent's row keeps: the arguments by their names, the item, its mode, the delegation, the rule.

        Raises Refusal where the arguments are not what the agent takes.
        """
        values = dict(self.call.values)
        numbered = self.command.item_argument
        if numbered is not None:
            values[numbered.name] = self.number
        taken = {name: value for name, value in values.items() if value is not None}
        given = accepted_input(agent, taken) or {}
        item = {"item": shown_item(self.item)} if self.item is not None else {}
        mode = {"mode": phase.mode} if phase.mode is not None else {}
        return {**given, **item, **mode, KEY: delegation.context(), RULE: self.rule}


def seat_of(number: int | None, phase: int) -> str:
    """The seat of who works on an item in a phase."""
    return f"{number}/{phase}" if number is not None else str(phase)


def number_of(seat: str) -> int | None:
    """The item whose seat it is."""
    number, slash, _ = seat.partition("/")
    return int(number) if slash else None


def commissioned(
    settings: Settings, errand: Errand, phase: int, delegation: Delegation, earlier: Sequence[tuple[str, str]]
) -> SpawnRequest:
    """Somebody who works in a phase, counted from 1; `earlier` is what those before brought, by their names.

    Raises Refusal.
    """
    spec = errand.phases[phase - 1]
    given = errand.input(spec, settings.agent(spec.agent), delegation)
    made = _request(settings, spec.agent, errand.seat(phase), errand.task, given)
    assert isinstance(made.agent, AgentSpec)
    plan = [(f"plan {errand.item.plan}", errand.plan)] if errand.item is not None and errand.plan else []
    shown = {name: value for name, value in given.items() if name != RULE}
    brought = _fitted([*plan, *earlier], view_of(made.agent, DIRECT).budget)
    return replace(made, timeout=delegation.timeout, prompt=first_message(errand.task, shown, brought))


def commissioned_again(settings: Settings, row: Record, name: str) -> SpawnRequest:
    """The request a row of an errand was made from."""
    return _request(settings, name, row["step_id"], row["task"] or "", from_json(row["input"]))


def is_errand(row: Record) -> bool:
    """Whether a row was made for a command."""
    return row["role"] == DIRECT and row["input"] is not None and KEY in from_json(row["input"])


def is_whole(row: Record) -> bool:
    """Whether all was done that a row was made for."""
    return bool(row["status"] == ExecutionStatus.COMPLETED and row["outcome"] == Outcome.COMPLETED)


def shown_item(item: WorkItem) -> dict[str, Any]:
    """A work item as agents and templates see it."""
    return {
        "number": item.number,
        "title": item.title,
        "status": item.status,
        "language": item.language,
        "complexity": item.complexity,
        "plan": item.plan,
        "depends_on": list(item.depends_on),
        "artifacts": [dict(each) for each in item.artifacts],
    }


def _request(settings: Settings, name: str, seat: str, task: str, given: Mapping[str, Any]) -> SpawnRequest:
    told = given[KEY]["task_context"]
    agent = _informed(settings, settings.agent(name), told["complexity"], told["language"])
    return SpawnRequest(
        agent=agent,
        task=task,
        limits=settings.limits_for(agent),
        role=DIRECT,
        catalogue=settings.catalogue(agent),
        step=seat,
        input=given,
    )


def _informed(settings: Settings, agent: AgentSpec, complexity: Complexity, language: str) -> AgentSpec:
    """The agent, shown as many context files as the complexity of a request calls for; where there are any."""
    files = settings.context_files
    if not (files.common or files.languages or files.full):
        return agent
    return replace(agent, context=replace(agent.context, level=LEVELS[complexity], language=language))


def _fitted(texts: Sequence[tuple[str, str]], budget: int) -> list[tuple[str, str]]:
    """What others brought, each cut to its share of so many tokens."""
    most = budget * BYTES_PER_TOKEN // max(1, len(texts))
    return [(name, excerpt(text, most, None)) for name, text in texts]
