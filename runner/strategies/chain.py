"""chain: stages run in order, the agents of a stage in parallel; a synthesis merges the results of several agents.

A stage with one agent is not a special case. Agents that a stage's agents dispatch belong to their parent: they count
neither for the success of the stage nor for its synthesis, but reports list them below their parent. Rows record which
child carries out which step and how it ended, so a resumed chain continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from db.status import ExecutionStatus
from registry import AgentSpec, ChainSpec, Settings, StagePlace, StageSpec
from runner.core.guard import permit
from runner.core.history import History
from runner.core.inbox import Item
from runner.core.spawn import SpawnRequest, StepInfo
from runner.errors import Refusal
from runner.prompt.system import first_message
from runner.record import facts
from runner.result import BUDGETS, Outcome, Problem, Result, failed, partial, resting_on, summarise
from runner.strategies.child_tracker import ChildTracker
from runner.strategies.conclusion import Conclusion
from runner.strategies.context import StrategyContext
from runner.text import (
    BYTES_PER_TOKEN,
    EARLIER_BYTES,
    SHOWN_TOGETHER,
    Excerpt,
    escape_blocks,
    excerpt,
    limit_of,
    shares,
    size_in_bytes,
)


class Chain:
    """A running chain. `_outputs` has one entry for every completed stage."""

    def __init__(self, context: StrategyContext) -> None:
        assert isinstance(context.subject, ChainSpec)
        self._context = context
        self._chain = context.subject
        self._outputs: list[tuple[str, Result]] = []
        self._tracker = ChildTracker(context, lambda row: _member_name(row["stage"], row["step_id"]))
        self._ended: Result | None = None
        """The result of a chain that ends before its last stage."""
        self._parts: list[Result] = []
        """Results that the answer is built from."""
        self._conclusion = Conclusion(context)
        """Budget kept for merging the results of the current stage."""

    @property
    def partial_output(self) -> str:
        """The outputs of the completed stages."""
        return "\n\n".join(f"## {name}\n\n{result.text}" for name, result in self._outputs)

    def restore(self, history: History) -> None:
        """Restore the children and messages of the chain from rows."""
        self._tracker.restore(history)

    async def run(self) -> Result:
        """Run the remaining stages."""
        await self._tracker.reapply_wrap_up()
        while self._ended is None and len(self._outputs) < len(self._chain.stages):
            stage = self._chain.stages[len(self._outputs)]
            self._enter(stage)
            await self._run_stage(stage)
        await self._tracker.read()
        return self._ended or resting_on(self._outputs[-1][1], self._parts)

    def _enter(self, stage: StageSpec) -> None:
        """Publish the current stage; the event of its start also carries its number."""
        number, all_of_them = len(self._outputs) + 1, len(self._chain.stages)
        self._context.set_activity(f"stage {number} of {all_of_them}: {stage.name}")
        if not self._begun(len(self._outputs)):
            told = {"action": self._context.state.activity, "stage": stage.name, "number": number, "of": all_of_them}
            self._context.recorder.record_nowait(facts.Noticed(self._context.place, "execution.progress", told))

    async def _run_stage(self, stage: StageSpec) -> None:
        places = list(stage_members(self._chain, stage))
        if (
            len(places) > 1
            and self._conclusion.limited
            and _member_name(stage.name, SYNTHESIS) not in self._tracker.child_ids
        ):
            self._conclusion.keep(self._merging(stage, ()))
        for member in places:
            await self._spawn(_member_name(stage.name, member.step), self._request(member))
        ended = await self._ends_of(stage, [member.step for member in places])
        good = [item for item in ended if _succeeded(item)]
        all_count = stage.success_policy == "all" and not self._tracker.asked  # agents that were not started cannot succeed
        enough = len(good) == len(places) if all_count else bool(good)
        if not enough:
            await self._stop_at(stage, ended)
            return
        answers = [item.answer for item in good if item.answer is not None]
        self._parts += answers
        if len(good) > 1:
            answers = [await self._synthesise(stage, good)]
        self._outputs.append((stage.name, answers[0]))
        if self._tracker.asked and stage is not self._chain.stages[-1] and not self._begun(len(self._outputs)):
            self._ended = partial(self.partial_output, "asked")
            await self._skip_after(stage, "asked to conclude")

    def _begun(self, position: int) -> bool:
        """Whether a stage had started before a restart; if so, it handles the request to conclude itself."""
        stage = self._chain.stages[position]
        names = [
            _member_name(stage.name, step)
            for step in (SYNTHESIS, *(member.step for member in stage_members(self._chain, stage)))
        ]
        taken = [name for name in names if name in self._tracker.child_ids]
        ends = [end.result for name in taken if (end := self._tracker.end_of_step(name)) is not None]
        return len(taken) > sum(end is not None and end.status == ExecutionStatus.SKIPPED for end in ends)

    async def _spawn(self, name: str, request: SpawnRequest) -> None:
        """Spawn a step; an agent that the user may not use gets a blocked row that says why."""
        assert isinstance(request.agent, AgentSpec)
        try:
            permit(request.agent.name, request.agent.requires, self._context.user)
        except Refusal as refusal:
            await self._tracker.deny(name, request, refusal)
        else:
            await self._tracker.spawn_step(name, request)

    def _request(self, member: StageMember) -> SpawnRequest:
        earlier = [(name, excerpt(result.text, EARLIER_BYTES, _handle(result))) for name, result in self._outputs]
        return stage_request(
            self._context.settings, member, StageBriefing(self._context.task, self._context.input, earlier)
        )

    async def _ends_of(self, stage: StageSpec, steps: Sequence[str]) -> list[Item]:
        names = [_member_name(stage.name, step) for step in steps]
        await self._tracker.repeat_messages()
        await self._tracker.until_ended(names)
        return [end for name in names if (end := self._tracker.end_of_step(name)) is not None]

    async def _synthesise(self, stage: StageSpec, items: Sequence[Item]) -> Result:
        context = self._context
        answers = [(item.result.agent, item.answer) for item in items if item.answer and item.result]
        limit = shares([answer.text for _, answer in answers], SHOWN_TOGETHER)
        reports = [(agent, report_with_children(answer, limit)) for agent, answer in answers]
        number = len(self._outputs) + 1
        context.set_activity(f"stage {number} of {len(self._chain.stages)}: {stage.name}, merging {len(reports)} results")
        request = self._merging(stage, reports)
        if over := self._conclusion.over(request):
            request = self._merging(stage, _shortened(reports, over * BYTES_PER_TOKEN))
        self._conclusion.hand_over()
        await self._spawn(_member_name(stage.name, SYNTHESIS), request)
        merged = [item.answer for item in await self._ends_of(stage, [SYNTHESIS]) if _succeeded(item)]
        if not merged or merged[0] is None:
            # The synthesis failed: concatenate the reports, so no finding is lost.
            text = "\n\n".join(f"## {agent}\n\n{report_with_children(answer)}" for agent, answer in answers)
            return Result(Outcome.PARTIAL, summarise(text), text, "synthesis_failed")
        return merged[0]

    def _merging(self, stage: StageSpec, reports: Sequence[tuple[str, str]]) -> SpawnRequest:
        return synthesis_request(
            self._context.settings, stage, StageBriefing(self._context.task, self._context.input, reports)
        )

    async def _stop_at(self, stage: StageSpec, ended: Sequence[Item]) -> None:
        problems = [each for item in ended if item.answer is not None for each in item.answer.errors]
        message = f"stage `{stage.name}` failed: {', '.join(_how(item) for item in ended)}"
        problem = Problem("stage_failed", message, severity="high").because_of(next(iter(problems), None))
        problem = replace(problem, recoverable=any(each.recoverable for each in problems))
        found = "\n\n".join([self.partial_output, *(item.answer.text for item in ended if item.answer is not None)]).strip()
        unpaid = [item.answer.reason for item in ended if item.answer is not None and item.answer.reason in BUDGETS]
        why = self._tracker.unpaid or next(iter(unpaid), None)
        self._ended = failed(problem, found) if why is None or not found else partial(found, why, (problem,))
        await self._skip_after(stage, f"stage `{stage.name}` failed")

    async def _skip_after(self, stage: StageSpec, reason: str) -> None:
        position = self._chain.stages.index(stage)
        for later in self._chain.stages[position + 1 :]:
            first_of_each = [member for member in stage_members(self._chain, later) if member.replica in (None, 1)]
            for member in first_of_each:
                await self._skip(later, member, reason)

    async def _skip(self, stage: StageSpec, member: StageMember, reason: str) -> None:
        try:
            skipped = self._request(member).starting(status="skipped", reason=reason)
            await self._tracker.spawn_step(_member_name(stage.name, member.step), skipped)
        except Refusal:
            return


def _member_name(stage: str, step: str) -> str:
    return f"{stage}/{step}"


def _how(item: Item) -> str:
    """How an agent of a stage ended; for a failure also why."""
    assert item.result is not None
    why = item.answer.errors[0].message if item.answer is not None and item.answer.errors else ""
    return f"{item.result.agent} {item.result.status}" + (f": {why}" if why and not _succeeded(item) else "")


def _shortened(reports: Sequence[tuple[str, str]], over: int) -> list[tuple[str, str]]:
    """The reports, with the longest ones cut until all together are `over` bytes shorter."""
    lengths = [size_in_bytes(text) for _, text in reports]
    most = limit_of(lengths, over)
    return [(name, excerpt(text, most, None)) for name, text in reports]


def _succeeded(item: Item) -> bool:
    return item.answer is not None and item.result is not None and item.result.status == "completed"


def report_with_children(answer: Result, limit: int | None = None) -> str:
    """A result of at most `limit` bytes, followed by its descendants: agent, status and task of each, at any depth."""
    said = answer.text if limit is None else excerpt(answer.text, limit, None)
    lines = [said, *_children(answer.metadata.get("dispatched", ()), 0)]
    return Excerpt("\n".join(map(escape_blocks, lines))) if isinstance(said, Excerpt) else "\n".join(lines)


def _handle(result: Result) -> str | None:
    """The id of the execution that holds the full text."""
    handle: str | None = result.metadata.get("execution_id")
    return handle


def _children(children: Sequence[dict[str, object]], level: int) -> list[str]:
    lines = []
    for child in children:
        lines.append(f"{'  ' * level}- {child['agent']} ({child['status']}): {child['task']}")
        below = child.get("dispatched", ())
        lines += _children(below if isinstance(below, list) else [], level + 1)
    return lines


SYNTHESIS = "synthesis"
"""The id of the step that merges the results of a stage."""
SYNTHESIS_TASK = "Merge these reports about one task into a single answer.\n\nThe task was:\n{task}"


@dataclass(frozen=True, slots=True)
class StageMember:
    """One agent of a stage."""

    place: StagePlace
    step: str
    """Its number in the stage, from 1."""
    replica: int | None
    """Its number among the replicas of one agent; None for a single one."""


def stage_members(chain: ChainSpec, stage: StageSpec) -> Iterator[StageMember]:
    """The agents of a stage, in order."""
    number = 0
    for agent in stage.agents:
        for replica in range(1, agent.replicas + 1):
            number += 1
            yield StageMember(StagePlace(chain, stage, agent), str(number), replica if agent.replicas > 1 else None)


@dataclass(frozen=True, slots=True)
class StageBriefing:
    """The task, input and earlier outputs for an agent of a stage."""

    task: str
    input: Any
    earlier: Sequence[tuple[str, str]] = ()
    """The outputs of earlier stages, by name."""


def stage_request(settings: Settings, member: StageMember, brief: StageBriefing) -> SpawnRequest:
    """Build the request for an agent of a stage."""
    agent = settings.stage_agent(member.place)
    label = f"{agent.name}-{member.replica}" if member.replica is not None else None
    return SpawnRequest(
        agent=agent,
        task=brief.task,
        limits=settings.limits_for(settings.agent(member.place.agent.name), member.place),
        role="stage",
        catalogue=settings.catalogue(agent, member.place),
        input=brief.input,
        prompt=first_message(brief.task, brief.input, brief.earlier),
        step=StepInfo(member.step, member.place.stage.name, label=label),
    )


def synthesis_request(settings: Settings, stage: StageSpec, brief: StageBriefing) -> SpawnRequest:
    """Build the request for the agent that merges the results of a stage; `brief.earlier` holds its reports."""
    agent, task = settings.agent(stage.synthesis), SYNTHESIS_TASK.format(task=brief.task)
    return SpawnRequest(
        agent=agent,
        task=task,
        limits=settings.limits_for(agent),
        role="synthesis",
        input=brief.input,
        prompt=first_message(task, None, brief.earlier),
        step=StepInfo(SYNTHESIS, stage.name),
    )
