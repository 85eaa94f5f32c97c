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
from registry import AgentSpec, PhaseSpec, Template, TooMuch, Unreadable
from runner.core.delegation import KEY, Delegation
from runner.core.history import Past, end_of, name_of
from runner.core.spawn import SpawnRequest
from runner.errors import ItemRefused, Refusal
from runner.record.facts import Refused
from runner.result import Outcome, Problem, Result, failed, summarise
from runner.roles import ROOT
from runner.strategies.child_tracker import Seating
from runner.strategies.context import Work
from runner.strategies.route.commands.parse import Call
from runner.strategies.route.commands.report import Phase, Report, not_begun, plan_in, told, united
from runner.strategies.route.commands.task import (
    RULE,
    Errand,
    Question,
    commissioned,
    complexity_of,
    is_errand,
    is_whole,
    language_of,
    number_of,
    plan_text,
    rule_for,
    shown_item,
)
from runner.text import EARLIER_BYTES, excerpt
from runner.work_items.board import Board, WorkItem


class Course:
    """A call on its way."""

    def __init__(self, work: Work, seating: Seating, call: Call) -> None:
        self._work, self._seating, self._call = work, seating, call
        self._board: Board = work.lookups.board()
        self._judged: dict[int | None, Mapping[str, Any]] = {}
        """What was judged of an item, as the input of whoever began to work on it says."""
        self._before: dict[str, Record] = {}
        """Who had a seat when the same command was called before, and was not finished."""
        self._refusals: list[tuple[str, Refusal]] = []
        """Who could not be sent, and why."""

    def restore(self, past: Past) -> None:
        """Know again who works, what was judged, and how far the command had come before."""
        own: list[Record] = []
        for row in past.children:
            if row["parent_execution_id"] not in past.earlier:
                own.append(row)
                if is_errand(row):
                    self._judged[number_of(row["step_id"])] = from_json(row["input"])
            elif is_errand(row):
                self._before[row["step_id"]] = row
        self._seating.restore(replace(past, children=own))

    @property
    def partial_output(self) -> str:
        """What those who have ended brought, so far."""
        texts = (self._seating.text_of(seat) for seat in self._seating.taken)
        return "\n\n".join(text for text in texts if text)

    async def run(self) -> Result:
        """Work through all items; one that fails does not keep the next from its turn."""
        if self._work.role == ROOT and self._work.input:
            self._work.warnings.append("a command takes what stands in its line: the input given beside it was not used")
        if self._call.command.answer is not None:
            return listing(self._call, self._call.command.answer, await self._board.all())
        reports = [await self._report(number) for number in self._call.numbers or (None,)]
        result = told(self._call, reports)
        await self._record(result)
        return result

    async def _report(self, number: int | None) -> Report:
        why = self._seating.why_stop
        if why is not None and number not in self._judged:
            return Report(number, not_begun(why))
        try:
            errand = await self._errand(number)
        except Refusal as refusal:
            return Report(number, _refused(refusal))
        result = await self._carried_out(errand)
        return Report(number, result, await self._noted(errand, result))

    async def _errand(self, number: int | None) -> Errand:
        """An item with what was judged of it; raises Refusal."""
        item = await self._board.find(number) if number is not None else None
        if number is not None and item is None:
            raise no_item(number)
        plan = await self._plan_of(item)
        judged = self._judged.get(number)
        if judged is not None:
            context = judged[KEY]["task_context"]
            return Errand(self._call, number, item, context["language"], context["complexity"], judged[RULE], plan)
        command = self._call.command
        language, complexity = language_of(item, plan), complexity_of(command, item, len(self._call.numbers))
        rule = rule_for(command, Question(language, item is not None and item.plan is not None, complexity))
        if rule is None:
            message = f"nobody carries out `/{command.name}` for {language}, {complexity}"
            raise Refusal("not_in_catalogue", message, "add a rule without `when` to its `agents`")
        return Errand(self._call, number, item, language, complexity, rule, plan)

    async def _plan_of(self, item: WorkItem | None) -> str:
        """The text of an item's plan; nothing where it has none that can be read."""
        if item is None or item.plan is None:
            return ""
        assert isinstance(self._work.subject, AgentSpec)
        read = partial(plan_text, self._work.settings, self._work.subject, item.plan)
        try:
            return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
        except Unreadable as fault:
            self._work.warnings.append(f"the plan of work item {item.number}, `{item.plan}`, is not shown: {fault}")
            return ""

    async def _carried_out(self, errand: Errand) -> Result:
        """Let those work whom the table names, one after the other, until one does not succeed who must."""
        phases: list[Phase] = []
        fresh = False
        """Whether something was done anew: then what follows from it is, too."""
        for number, spec in enumerate(errand.phases, start=1):
            row = None if fresh else self._same_before(errand.seat(number), spec)
            fresh = row is None or not self._takes_up(errand.seat(number), row)
            try:
                result = await self._end_of(errand, number, phases, row)
            except Refusal as refusal:
                self._refusals.append((spec.agent, refusal))
                result = _refused(refusal)
            phases.append(Phase(spec.agent, result, spec.critical))
            if not phases[-1].holds:
                break
        return united(phases, errand.command.artifact)

    def _same_before(self, seat: str, spec: PhaseSpec) -> Record | None:
        """Whoever had the seat before, if it is the same agent."""
        row = self._before.get(seat)
        return row if row is not None and name_of(row) == spec.agent else None

    def _takes_up(self, seat: str, row: Record) -> bool:
        """Whether all was done in a seat before; then it is not done again."""
        done = is_whole(row)
        if done and seat not in self._seating.taken:
            self._seating.taken[seat], self._seating.ends[row["id"]] = row["id"], end_of(row)
        return done

    async def _end_of(self, errand: Errand, number: int, phases: Sequence[Phase], before: Record | None) -> Result:
        """What whoever works in a phase returned; raises Refusal."""
        seat, spec, work = errand.seat(number), errand.phases[number - 1], self._work
        if seat in self._seating.taken:
            return await self._seating.result_in(seat)
        if (why := self._seating.why_stop) is not None:
            return not_begun(why)
        work.children.admit(spec.agent)
        work.set_activity(f"/{errand.command.name}: handing over to {spec.agent}")
        earlier = [(phase.agent, excerpt(phase.result.text, EARLIER_BYTES, None)) for phase in phases]
        request = commissioned(work.settings, errand, number, self._delegation(errand, spec), earlier)
        await self._seating.give(seat, _going_on(request, before))
        return await self._seating.result_in(seat)

    def _delegation(self, errand: Errand, spec: PhaseSpec) -> Delegation:
        work, command = self._work, errand.command
        return Delegation(
            command=command.name,
            session_id=work.session,
            depth=work.node.depth + 1,
            path=(*work.node.delegation_path, command.name, spec.agent),
            timeout=self._time(),
            caller=work.name,
            task_number=errand.number,
            language=errand.language,
            complexity=errand.complexity,
        )

    def _time(self) -> float:
        """Seconds for whoever works: the command's, or what there is if that is less, or if the call gave more."""
        allowance, own = self._work.allowance, self._call.command.timeout
        left = round(allowance.seconds_before_wrap_up, 3)
        usual = self._call.seconds(self._work.limits.wrap_up_reserve)
        given = self._work.role == ROOT and len(self._call.numbers) < 2 and allowance.timeout > usual
        return left if given or left < own else own

    async def _noted(self, errand: Errand, result: Result) -> tuple[str, ...]:
        """Put down on the board what came of an item, unless it says so; what it says now, in words."""
        item, wanted = errand.item, errand.command.sets if result.outcome is Outcome.COMPLETED else None
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
        """Write down who could not be sent; the first of them is told by the end, where that is a failure."""
        work, failed_by_it = self._work, result.outcome is Outcome.FAILED
        for agent, refusal in self._refusals[failed_by_it:]:
            fact = Refused(work.place, work.name, agent, refusal.kind, str(refusal), refusal.context)
            await work.recorder.record(fact)


def no_item(number: int) -> Refusal:
    """The refusal of a command about a work item that is not there."""
    return Refusal("usage", f"there is no work item {number}", "look at the board for those there are", {"item": number})


def _going_on(request: SpawnRequest, before: Record | None) -> SpawnRequest:
    """Somebody who goes on with what they began before; a function knows nothing of it, and who had not begun neither."""
    assert isinstance(request.agent, AgentSpec)
    if before is None or before["started_at"] is None or request.agent.strategy == "function":
        return request
    return replace(request, continues=before["id"], prompt=None)


def _says(item: WorkItem | None, status: str | None, plan: str | None, artifacts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a work item is as it is to become."""
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


def listing(call: Call, template: Template, items: Sequence[WorkItem]) -> Result:
    """The template with all work items in it, and what was written behind the command's name."""
    values = {**call.values, "items": [shown_item(each) for each in items]}
    try:
        text = template.render(values, str).strip()
    except TooMuch as fault:
        return failed(Problem("answer", f"the answer of `/{call.command.name}` cannot be made: {fault}", recoverable=False))
    return Result(Outcome.COMPLETED, summarise(text) or "there is nothing", text)
