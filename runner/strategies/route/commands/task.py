"""The task of a command: one work item of a call, the rule of the command that matches it, and the requests for its agents.

Pure, but for reading the file with a work item's plan from a workspace or beside the configuration; nothing outside those
folders is read. `language` is the domain of a task, not a spoken language. Rules decide; no model is asked. The matching
rule stands in the input of each agent's row, so a resumed command does not match again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from db.rows.reads import Record
from db.status import ExecutionStatus
from registry import ARGUMENTS, AgentSpec, CommandSpec, Complexity, Folder, PhaseSpec, Settings, When, fold
from runner.core.delegation import KEY, Delegation
from runner.core.spawn import SpawnRequest, StepInfo
from runner.inputs import accepted_input
from runner.prompt.system import first_message
from runner.prompt.user_parts import view_of
from runner.result import Outcome
from runner.roles import DIRECT
from runner.strategies.route.commands.parse import CommandCall
from runner.text import BYTES_PER_TOKEN, excerpt
from runner.work_items.board import WorkItem

RULE = "rule"
"""The key of the matching rule's number in an execution's input."""


@dataclass(frozen=True, slots=True)
class CommandTask:
    """A command task: the work for one work item, or for a call without any."""

    call: CommandCall
    number: int | None
    item: WorkItem | None
    language: str
    complexity: Complexity
    rule: int
    plan: str = ""
    """The text of the item's plan, if it can be read."""

    @property
    def command(self) -> CommandSpec:
        return self.call.command

    @property
    def phases(self) -> Sequence[PhaseSpec]:
        """The phases of its rule, in order."""
        return self.command.rules[self.rule].phases

    def step_id(self, phase: int) -> str:
        """The step id of a phase, counted from 1."""
        return step_id_of(self.number, phase)

    @property
    def task(self) -> str:
        """The task of its agents: the command's prompt with the arguments inserted as they were written."""
        prompt = self.command.prompt
        if prompt is None:
            return self.call.about(self.number)
        return prompt.replace(ARGUMENTS, self.call.about(self.number).partition(" ")[2])

    def input(self, phase: PhaseSpec, agent: AgentSpec, delegation: Delegation) -> dict[str, Any]:
        """The input of an agent's row: arguments by name, work item, mode, delegation and rule.

        Raises Refusal if the agent does not accept the arguments.
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


def step_id_of(number: int | None, phase: int) -> str:
    """The step id of a work item's phase."""
    return f"{number}/{phase}" if number is not None else str(phase)


def number_of(step_id: str) -> int | None:
    """The work item of a step id."""
    number, slash, _ = step_id.partition("/")
    return int(number) if slash else None


def task_request(
    settings: Settings, command_task: CommandTask, phase: int, delegation: Delegation, earlier: Sequence[tuple[str, str]]
) -> SpawnRequest:
    """Request the agent of a phase, counted from 1; `earlier` holds the results of earlier phases by agent.

    Raises Refusal.
    """
    spec = command_task.phases[phase - 1]
    given = command_task.input(spec, settings.agent(spec.agent), delegation)
    made = _request(settings, spec.agent, command_task.step_id(phase), command_task.task, given)
    assert isinstance(made.agent, AgentSpec)
    plan = (
        [(f"plan {command_task.item.plan}", command_task.plan)]
        if command_task.item is not None and command_task.plan
        else []
    )
    shown = {name: value for name, value in given.items() if name != RULE}
    brought = _fitted([*plan, *earlier], view_of(made.agent, DIRECT).budget)
    return replace(made, timeout=delegation.timeout, prompt=first_message(command_task.task, shown, brought))


def rebuilt_task_request(settings: Settings, row: Record, name: str) -> SpawnRequest:
    """Rebuild the request of a command task from its row."""
    return _request(settings, name, row["step_id"], row["task"] or "", from_json(row["input"]))


def is_command_task(row: Record) -> bool:
    """Whether a row belongs to a command task."""
    return row["role"] == DIRECT and row["input"] is not None and KEY in from_json(row["input"])


def is_whole(row: Record) -> bool:
    """Whether the row's work is complete."""
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


def _request(settings: Settings, name: str, step_id: str, task: str, given: Mapping[str, Any]) -> SpawnRequest:
    told = given[KEY]["task_context"]
    agent = _informed(settings, settings.agent(name), told["complexity"], told["language"])
    return SpawnRequest(
        agent=agent,
        task=task,
        limits=settings.limits_for(agent),
        role=DIRECT,
        catalogue=settings.catalogue(agent),
        input=given,
        step=StepInfo(step_id),
    )


def _informed(settings: Settings, agent: AgentSpec, complexity: Complexity, language: str) -> AgentSpec:
    """The agent with as many context files as the complexity calls for, if any are configured."""
    files = settings.context_files
    if not (files.common or files.languages or files.full):
        return agent
    return replace(agent, context=replace(agent.context, level=LEVELS[complexity], language=language))


def _fitted(texts: Sequence[tuple[str, str]], budget: int) -> list[tuple[str, str]]:
    """Cut each text to its share of a token budget."""
    most = budget * BYTES_PER_TOKEN // max(1, len(texts))
    return [(name, excerpt(text, most, None)) for name, text in texts]


GENERAL = "general"
"""The language of a work item that names none."""

LEVELS: dict[Complexity, int] = {"simple": 1, "moderate": 2, "complex": 3}
"""The level of context files by complexity."""

MANY = 5
"""A task is complex from this number of work items in its call, or of dependencies."""

_METADATA = re.compile(r"^[\s>*_-]*language[\s*_]*:[\s*_`\"']*([A-Za-z0-9][\w+#.-]*)", re.IGNORECASE | re.MULTILINE)
_METADATA_LINES = 40
"""Lines of a plan that may hold metadata; its text follows."""


def language_of(item: WorkItem | None, plan: str) -> str:
    """The language of a work item: its own, else the one in its plan's metadata, else general."""
    if item is not None and item.language:
        return item.language
    found = _METADATA.search("\n".join(plan.splitlines()[:_METADATA_LINES]))
    return found[1].rstrip(".").lower() if found is not None else GENERAL


def complexity_of(command: CommandSpec, item: WorkItem | None, count: int) -> Complexity:
    """The complexity of a task: the command's or the item's own, else by the number of items and dependencies."""
    if command.complexity is not None:
        return command.complexity
    if item is not None and item.complexity is not None:
        return item.complexity
    waits_for = len(item.depends_on) if item is not None else 0
    most = max(count, waits_for)
    return "complex" if most >= MANY else "moderate" if count > 1 or waits_for else "simple"


@dataclass(frozen=True, slots=True)
class RuleQuery:
    """The values that the conditions of a rule are matched against."""

    language: str
    has_plan: bool
    complexity: Complexity


def rule_for(command: CommandSpec, question: RuleQuery) -> int | None:
    """The index of the first matching rule, if any."""
    return next((index for index, rule in enumerate(command.rules) if _holds(rule.when, question)), None)


def _holds(when: When, question: RuleQuery) -> bool:
    return (
        (when.language is None or fold(question.language) in map(fold, when.language))
        and (when.plan is None or when.plan is question.has_plan)
        and (when.complexity is None or question.complexity in when.complexity)
    )


def plan_text(settings: Settings, route: AgentSpec, path: str) -> str:
    """Read a plan, whose path may begin with the name of a workspace; raises Unreadable."""
    workspaces = {each.name: each.path for name in route.route.commanded for each in settings.agent(name).workspaces}
    name, _, rest = path.partition("/")
    if rest and name in workspaces:
        return Folder(workspaces[name]).read(rest)
    return settings.context_files.folder.read(path)
