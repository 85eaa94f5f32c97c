"""Runs a command: its work items one after another, for each the agents that its rule names, then the board.

Owns the order. It asks no model. Rows hold what was decided and done: a resumed command goes on where it was, and the
results of an earlier, unfinished call of the same command count as long as its rules still name the same agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio.to_thread
from pydantic_core import from_json

from db.rows.reads import Record
from registry import AgentSpec, PhaseSpec, Template, TooMuch, UnreadableFile
from runner.core.delegation import KEY, Delegation
from runner.core.history import History, end_of, name_of
from runner.core.spawn import SpawnRequest
from runner.errors import ItemRefused, Refusal
from runner.record.facts import Refused
from runner.result import Outcome, Problem, Result, failed, summarise
from runner.roles import ROOT
from runner.strategies.child_tracker import ChildTracker
from runner.strategies.context import StrategyContext
from runner.strategies.route.commands.parse import CommandCall
from runner.strategies.route.commands.report import Phase, Report, not_begun, plan_in, told, united
from runner.strategies.route.commands.task import (
    RULE,
    CommandTask,
    RuleQuery,
    complexity_of,
    is_command_task,
    is_whole,
    language_of,
    number_of,
    plan_text,
    rule_for,
    shown_item,
    task_request,
)
from runner.text import EARLIER_BYTES, excerpt
from runner.work_items.board import Board, WorkItem


class CommandRun:
    """A running call."""

    def __init__(self, context: StrategyContext, tracker: ChildTracker, call: CommandCall) -> None:
        self._context, self._tracker, self._call = context, tracker, call
        self._board: Board = context.lookups.board()
        self._judged: dict[int | None, Mapping[str, Any]] = {}
        """The assessment of each work item, as the input of its first agent's row has it."""
        self._before: dict[str, Record] = {}
        """Children by step id from an earlier, unfinished call of the same command."""
        self._refusals: list[tuple[str, Refusal]] = []
        """Agents that could not be spawned, and why."""

    def restore(self, history: History) -> None:
        """Restore children, assessments and the progress of an earlier call from rows."""
        own: list[Record] = []
        for row in history.children:
            if row["parent_execution_id"] not in history.earlier:
                own.append(row)
                if is_command_task(row):
                    self._judged[number_of(row["step_id"])] = from_json(row["input"])
            elif is_command_task(row):
                self._before[row["step_id"]] = row
        self._tracker.restore(replace(history, children=own))

    @property
    def partial_output(self) -> str:
        """The results of the agents that have ended."""
        texts = (self._tracker.text_of(step_id) for step_id in self._tracker.child_ids)
        return "\n\n".join(text for text in texts if text)

    async def run(self) -> Result:
        """Run all work items; a failed one does not stop the others."""
        if self._context.role == ROOT and self._context.input:
            self._context.warnings.append("a command takes its arguments from its line: the separate input was ignored")
        if self._call.command.answer is not None:
            return listing(self._call, self._call.command.answer, await self._board.all())
        reports = [await self._report(number) for number in self._call.numbers or (None,)]
        result = told(self._call, reports)
        await self._record(result)
        return result

    async def _report(self, number: int | None) -> Report:
        why = self._tracker.why_stop
        if why is not None and number not in self._judged:
            return Report(number, not_begun(why))
        try:
            command_task = await self._errand(number)
        except Refusal as refusal:
            return Report(number, _refused(refusal))
        result = await self._carried_out(command_task)
        return Report(number, result, await self._noted(command_task, result))

    async def _errand(self, number: int | None) -> CommandTask:
        """Build the task of a work item, with its assessment; raises Refusal."""
        item = await self._board.find(number) if number is not None else None
        if number is not None and item is None:
            raise no_item(number)
        plan = await self._plan_of(item)
        judged = self._judged.get(number)
        if judged is not None:
            context = judged[KEY]["task_context"]
            return CommandTask(self._call, number, item, context["language"], context["complexity"], judged[RULE], plan)
        command = self._call.command
        language, complexity = language_of(item, plan), complexity_of(command, item, len(self._call.numbers))
        rule = rule_for(command, RuleQuery(language, item is not None and item.plan is not None, complexity))
        if rule is None:
            message = f"no rule of `/{command.name}` matches language `{language}` and complexity `{complexity}`"
            raise Refusal("not_in_catalogue", message, "add a rule without `when` to its `agents`")
        return CommandTask(self._call, number, item, language, complexity, rule, plan)

    async def _plan_of(self, item: WorkItem | None) -> str:
        """The text of a work item's plan; empty if it has none or it cannot be read."""
        if item is None or item.plan is None:
            return ""
        assert isinstance(self._context.subject, AgentSpec)
        read = partial(plan_text, self._context.settings, self._context.subject, item.plan)
        try:
            return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
        except UnreadableFile as fault:
            self._context.warnings.append(f"the plan of work item {item.number}, `{item.plan}`, could not be read: {fault}")
            return ""

    async def _carried_out(self, command_task: CommandTask) -> Result:
        """Run the phases of the matching rule in order, until a critical one does not succeed."""
        phases: list[Phase] = []
        fresh = False
        """Whether a phase was run again: then all later ones are, too."""
        for number, spec in enumerate(command_task.phases, start=1):
            row = None if fresh else self._same_before(command_task.step_id(number), spec)
            fresh = row is None or not self._takes_up(command_task.step_id(number), row)
            try:
                result = await self._end_of(command_task, number, phases, row)
            except Refusal as refusal:
                self._refusals.append((spec.agent, refusal))
                result = _refused(refusal)
            phases.append(Phase(spec.agent, result, spec.critical))
            if not phases[-1].holds:
                break
        return united(phases, command_task.command.artifact)

    def _same_before(self, step_id: str, spec: PhaseSpec) -> Record | None:
        """The earlier child of a step, if it has the same agent."""
        row = self._before.get(step_id)
        return row if row is not None and name_of(row) == spec.agent else None

    def _takes_up(self, step_id: str, row: Record) -> bool:
        """Take over an earlier result, if it is complete; then the step does not run again."""
        done = is_whole(row)
        if done and step_id not in self._tracker.child_ids:
            self._tracker.child_ids[step_id], self._tracker.ends[row["id"]] = row["id"], end_of(row)
        return done

    async def _end_of(
        self, command_task: CommandTask, number: int, phases: Sequence[Phase], before: Record | None
    ) -> Result:
        """Run one phase and return its result; raises Refusal."""
        step_id, spec, context = command_task.step_id(number), command_task.phases[number - 1], self._context
        if step_id in self._tracker.child_ids:
            return await self._tracker.result_of_step(step_id)
        if (why := self._tracker.why_stop) is not None:
            return not_begun(why)
        context.children.admit(spec.agent)
        context.set_activity(f"/{command_task.command.name}: handing over to {spec.agent}")
        earlier = [(phase.agent, excerpt(phase.result.text, EARLIER_BYTES, None)) for phase in phases]
        request = task_request(context.settings, command_task, number, self._delegation(command_task, spec), earlier)
        await self._tracker.spawn_step(step_id, _going_on(request, before))
        return await self._tracker.result_of_step(step_id)

    def _delegation(self, command_task: CommandTask, spec: PhaseSpec) -> Delegation:
        context, command = self._context, command_task.command
        return Delegation(
            command=command.name,
            session_id=context.session,
            depth=context.node.depth + 1,
            path=(*context.node.delegation_path, command.name, spec.agent),
            timeout=self._time(),
            caller=context.name,
            task_number=command_task.number,
            language=command_task.language,
            complexity=command_task.complexity,
        )

    def _time(self) -> float:
        """The timeout of an agent: the command's, or the time left if that is less or if the call was given more."""
        allowance, own = self._context.allowance, self._call.command.timeout
        left = round(allowance.seconds_before_wrap_up, 3)
        usual = self._call.seconds(self._context.limits.wrap_up_reserve)
        given = self._context.role == ROOT and len(self._call.numbers) < 2 and allowance.timeout > usual
        return left if given or left < own else own

    async def _noted(self, command_task: CommandTask, result: Result) -> tuple[str, ...]:
        """Record the result of a work item on the board, unless it is there already; returns the changes in words."""
        item, wanted = command_task.item, command_task.command.sets if result.outcome is Outcome.COMPLETED else None
        if item is None or (wanted is None and not result.artifacts):
            return ()
        plan = plan_in(result)
        try:
            if not _says(await self._board.find(item.number), wanted, plan, result.artifacts):
                await self._board.update(item.number, status=wanted, plan=plan, artifacts=result.artifacts)
        except ItemRefused as refused:
            return (f"Task {item.number} was not updated: {refused}",)
        marked = [f"marked [{wanted.upper()}]"] if wanted is not None else []
        count = len(result.artifacts)
        linked = [f"linked to {count} artifact{'s' if count > 1 else ''}"] if count else []
        return (f"Task {item.number} {' and '.join([*marked, *linked])}.",)

    async def _record(self, result: Result) -> None:
        """Record the agents that could not be spawned; if that failed the command, its end reports the first one."""
        context, failed_by_it = self._context, result.outcome is Outcome.FAILED
        for agent, refusal in self._refusals[failed_by_it:]:
            fact = Refused(context.place, context.name, agent, refusal.kind, str(refusal), refusal.context)
            await context.recorder.record(fact)


def no_item(number: int) -> Refusal:
    """The refusal of a command about an unknown work item."""
    return Refusal("usage", f"there is no work item {number}", "see the board for existing work items", {"item": number})


def _going_on(request: SpawnRequest, before: Record | None) -> SpawnRequest:
    """Continue the earlier child of a step; a function, or a child that never started, starts afresh."""
    assert isinstance(request.agent, AgentSpec)
    if before is None or before["started_at"] is None or request.agent.strategy == "function":
        return request
    return replace(request, continues=before["id"], prompt=None)


def _says(item: WorkItem | None, status: str | None, plan: str | None, artifacts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the board has these values already."""
    if item is None:
        return False
    linked = all(each in item.artifacts for each in artifacts)
    return status in (None, item.status) and plan in (None, item.plan) and linked


def _refused(refusal: Refusal) -> Result:
    problem = Problem(
        refusal.kind, str(refusal), severity="high", recoverable=False, recommendation=refusal.hint, context=refusal.context
    )
    made = failed(problem)
    return replace(made, outcome=Outcome.BLOCKED) if refusal.kind == "permission_denied" else made


def listing(call: CommandCall, template: Template, items: Sequence[WorkItem]) -> Result:
    """Render the command's template with all work items and the arguments of the call."""
    values = {**call.values, "items": [shown_item(each) for each in items]}
    try:
        text = template.render(values, str).strip()
    except TooMuch as fault:
        return failed(
            Problem("answer", f"rendering the answer of `/{call.command.name}` failed: {fault}", recoverable=False)
        )
    return Result(Outcome.COMPLETED, summarise(text) or "the answer is empty", text)
