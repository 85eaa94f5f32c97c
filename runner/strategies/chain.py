"""chain: stages one after another, the agents of a stage at the same time, their results merged where there are several.

One agent is not a special case. Agents that a stage's agents dispatch are theirs: they count neither for the success of
the stage nor for its synthesis, but whoever reads the results sees them below their parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from registry import ChainSpec, Place, StageAgent, StageSpec
from runner import facts
from runner.context import first_message
from runner.errors import Refusal
from runner.inbox import Item
from runner.notebook import Notebook
from runner.result import Outcome, Problem, Result, failed, partial, summarise
from runner.work import SpawnRequest, Work

SYNTHESIS_TASK = "Merge these reports about one task into a single answer.\n\nThe task was:\n{task}"


class Chain:
    """A chain at work. `_outputs` has one entry for every stage that is done."""

    def __init__(self, work: Work) -> None:
        assert isinstance(work.subject, ChainSpec)
        self._work = work
        self._chain = work.subject
        self._outputs: list[tuple[str, Result]] = []
        self._ended: Result | None = None
        """How it ends before its last stage."""
        self._notebook = Notebook(work)
        self._said: list[Item] = []
        """Messages to the chain: they are meant for whoever works for it, now and in later stages."""
        self._asked = False
        """Whether somebody wants a conclusion: then no further stage begins."""

    @property
    def found(self) -> str:
        """The outputs of the stages that are done."""
        return "\n\n".join(f"## {name}\n\n{result.text}" for name, result in self._outputs)

    async def run(self) -> Result:
        """Run the stages that are not done yet."""
        while self._ended is None and len(self._outputs) < len(self._chain.stages):
            stage = self._chain.stages[len(self._outputs)]
            self._work.now(f"stage {stage.name}")
            await self._run_stage(stage)
        await self._notebook.read()
        return self._ended or self._outputs[-1][1]

    async def _run_stage(self, stage: StageSpec) -> None:
        names = await self._start_agents(stage)
        ended = await self._collect()
        good = [
            item
            for item in ended
            if item.answer is not None and item.result is not None and item.result.status == "completed"
        ]
        all_count = stage.success_policy == "all" and not self._asked  # who did not come to begin cannot succeed
        enough = len(good) == names if all_count else bool(good)
        if not enough:
            await self._stop_at(stage, ended)
            return
        answers = [item.answer for item in good if item.answer is not None]
        if len(good) > 1:
            answers = [await self._synthesise(stage, good)]
        self._outputs.append((stage.name, answers[0]))
        if self._asked and stage is not self._chain.stages[-1]:
            self._ended = partial(self.found, "asked")
            await self._skip_after(stage, "asked to conclude")

    async def _start_agents(self, stage: StageSpec) -> int:
        number = 0
        for stage_agent in stage.agents:
            for replica in range(1, stage_agent.replicas + 1):
                await self._start(stage, stage_agent, replica)
                number += 1
        await self._repeat_what_was_said()
        return number

    def _request(self, stage: StageSpec, stage_agent: StageAgent, replica: int) -> SpawnRequest:
        work, place = self._work, Place(self._chain, stage, stage_agent)
        agent = work.settings.stage_agent(place)
        earlier = [(name, result.text) for name, result in self._outputs]
        return SpawnRequest(
            agent=agent,
            task=work.task,
            limits=work.settings.limits_for(work.settings.agent(stage_agent.name), place),
            role="stage",
            catalogue=work.settings.catalogue(agent, place),
            input=work.input,
            stage=stage.name,
            name=f"{agent.name}-{replica}" if stage_agent.replicas > 1 else None,
            prompt=first_message(work.task, work.input, earlier),
        )

    async def _start(self, stage: StageSpec, stage_agent: StageAgent, replica: int) -> None:
        await self._work.spawn(self._request(stage, stage_agent, replica))

    async def _collect(self) -> list[Item]:
        """Wait until every agent of the stage has ended, and read what they returned. What comes meanwhile is passed on."""
        work, ended = self._work, list[Item]()
        work.recorder.post(facts.Waiting(work.place, "children"))
        while True:
            await work.inbox.until_ready()
            items = await self._notebook.read()
            ended += [item for item in items if item.result is not None]
            for item in items:
                await self._heed(item)
            if not work.inbox.pending and not work.inbox.arrived:
                break
        work.recorder.post(facts.Waiting(work.place, None))
        return ended

    async def _heed(self, item: Item) -> None:
        if item.kind == "message":
            self._said.append(item)
            await self._work.pass_on(item)
        elif item.kind == "wrap_up" and not self._asked:
            self._asked = True
            await self._work.settle_children(cancel=False)

    async def _repeat_what_was_said(self) -> None:
        for item in self._said:
            await self._work.pass_on(item)

    async def _synthesise(self, stage: StageSpec, items: Sequence[Item]) -> Result:
        work = self._work
        agent = work.settings.agent(stage.synthesis)
        reports = [(item.result.agent, report_with_children(item.answer)) for item in items if item.answer and item.result]
        request = SpawnRequest(
            agent=agent,
            task=SYNTHESIS_TASK.format(task=work.task),
            limits=work.settings.limits_for(agent),
            role="synthesis",
            stage=stage.name,
            input=work.input,
            prompt=first_message(SYNTHESIS_TASK.format(task=work.task), None, reports),
        )
        work.now(f"merging {len(reports)} results")
        await work.spawn(request)
        await self._repeat_what_was_said()
        ended = await self._collect()
        item = next((item for item in ended if item.result is not None and item.result.status == "completed"), None)
        if item is None or item.answer is None:
            # The findings are there, only nobody merged them: hand them on side by side.
            text = "\n\n".join(f"## {name}\n\n{report}" for name, report in reports)
            return Result(Outcome.PARTIAL, summarise(text), text, "synthesis_failed")
        return item.answer

    async def _stop_at(self, stage: StageSpec, ended: Sequence[Item]) -> None:
        failures = ", ".join(f"{item.result.agent} {item.result.status}" for item in ended if item.result is not None)
        problem = Problem("stage_failed", f"stage `{stage.name}` failed: {failures}", severity="high")
        found = "\n\n".join([self.found, *(item.answer.text for item in ended if item.answer is not None)]).strip()
        self._ended = failed(problem, found)
        await self._skip_after(stage, f"stage `{stage.name}` failed")

    async def _skip_after(self, stage: StageSpec, reason: str) -> None:
        position = self._chain.stages.index(stage)
        for later in self._chain.stages[position + 1 :]:
            for stage_agent in later.agents:
                await self._skip(later, stage_agent, reason)

    async def _skip(self, stage: StageSpec, stage_agent: StageAgent, reason: str) -> None:
        try:
            await self._work.spawn(replace(self._request(stage, stage_agent, 1), status="skipped", reason=reason))
        except Refusal:
            return


def report_with_children(answer: Result) -> str:
    """A result with the agents it rests on below it, each with its task, at any depth."""
    lines = [answer.text]
    lines += _children(answer.metadata.get("dispatched", ()), 0)
    return "\n".join(lines)


def _children(children: Sequence[dict[str, object]], level: int) -> list[str]:
    lines = []
    for child in children:
        lines.append(f"{'  ' * level}- {child['agent']} ({child['status']}): {child['task']}")
        below = child.get("dispatched", ())
        lines += _children(below if isinstance(below, list) else [], level + 1)
    return lines
