"""route: a command goes by its rules. For any other message one classifier call decides: one agent directly, several by a
plan, or an answer in words.

The route itself calls no model and no tool. The guard checks on every path whether an agent may work for the user; one
that may not gets a row that says why. Decisions are in rows: a resumed route does not ask the classifier again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from registry import AgentSpec
from runner.chat import phrase
from runner.core.history import History
from runner.core.spawn import SpawnRequest
from runner.errors import UNSAFE, Refusal
from runner.record import facts
from runner.result import Outcome, Problem, Result, failed, partial, summarise
from runner.roles import ANSWER, CLASSIFIER, COMPOSER, DIRECT, HANDLERS, PLAN, ROOT
from runner.strategies.child_tracker import ChildTracker
from runner.strategies.compose import wording_of
from runner.strategies.conclusion import Conclusion
from runner.strategies.context import StrategyContext
from runner.strategies.route.classify import Routing, read_routing
from runner.strategies.route.commands.parse import call_in
from runner.strategies.route.commands.run import CommandRun
from runner.strategies.route.requests import classifier_request, direct_request, plan_request, respondent_request
from runner.strategies.staff import Staff
from runner.text import is_raw, tokens_of


class Route:
    """A message on its way to the agent that handles it."""

    def __init__(self, context: StrategyContext) -> None:
        assert isinstance(context.subject, AgentSpec)
        self._context = context
        self._staff = Staff(context.settings, context.subject, context.catalogue, context.task)
        self._tracker = ChildTracker(context, lambda row: row["step_id"])
        self._answer: Result | None = None
        self._conclusion = Conclusion(context)
        self._command: CommandRun | None = None
        try:
            call = context.request.root.command if context.role == ROOT else call_in(context.subject, context.task)
            self._command = CommandRun(context, self._tracker, call) if call is not None else None
        except Refusal as refusal:  # its parent gets the reason; a top-level order is refused before this
            problem = Problem(refusal.kind, str(refusal), recoverable=False, recommendation=refusal.hint)
            self._answer = failed(problem)

    @property
    def partial_output(self) -> str:
        """The output so far of the agent that handles the message."""
        if self._command is not None:
            return self._command.partial_output
        texts = [self._tracker.text_of(step_id) for step_id in (COMPOSER, PLAN, DIRECT, ANSWER)]
        return next((text for text in texts if text), "")

    def restore(self, history: History) -> None:
        """Restore the children from rows."""
        if self._command is not None:
            self._command.restore(history)
        else:
            self._tracker.restore(history)

    async def run(self) -> Result:
        """Decide, hand over, and return the result, once; a later delivery is only stored."""
        if self._answer is None:
            await self._tracker.reapply_wrap_up()
            self._answer = await (self._command.run() if self._command is not None else self._handled())
        await self._tracker.read()
        return self._answer

    async def _handled(self) -> Result:
        """Handle the message; without a catalogue there is nothing to decide."""
        return await self._handle(await self._decide() if self._context.catalogue else Routing())

    async def _decide(self) -> Routing:
        context = self._context
        context.set_activity("choosing an agent")
        end = await self._end_of(CLASSIFIER, classifier_request(self._staff, context.prompt))
        names = [entry.name for entry in context.catalogue]
        decision = read_routing(end.text, names) if end.outcome is not Outcome.FAILED else Routing()
        if HANDLERS.isdisjoint(self._tracker.child_ids):
            told = {"intent": decision.intent, "agents": list(decision.agents), "plan": decision.needs_plan}
            context.recorder.record_nowait(
                facts.Noticed(context.place, "route.decided", {**told, "confidence": decision.confidence})
            )
        return decision

    async def _handle(self, decision: Routing) -> Result:
        if not decision.agents:
            return await self._end_of(ANSWER, respondent_request(self._staff, self._context.prompt))
        at_work = not HANDLERS.isdisjoint(self._tracker.child_ids)  # admitted before a restart
        if not at_work and self._tracker.why_stop is None:
            refusals = [refusal for agent in decision.agents if (refusal := self._refusal(agent)) is not None]
            if len(refusals) == len(decision.agents):
                return await self._denied(decision, refusals)
        if decision.needs_plan:
            self._context.set_activity(f"planning for {', '.join(decision.agents)}")
            return await self._end_of(PLAN, plan_request(self._staff, decision.agents, self._context.prompt))
        return await self._direct(decision.agents[0])

    async def _direct(self, agent: str) -> Result:
        context = self._context
        context.set_activity(f"handing over to {agent}")
        result = await self._end_of(DIRECT, direct_request(self._staff, agent, context.prompt), self._keep_price)
        if result.outcome is Outcome.FAILED or not is_raw(result.text):
            return result
        worded = await self._end_of(COMPOSER, self._composer(agent, result))
        if worded.outcome is not Outcome.FAILED and not is_raw(worded.text):
            return replace(result, summary=worded.summary, output=worded.text)
        context.warnings.append(f"the composer failed: `{agent}` answered with data, which is in its own result")
        text = phrase("count", context.locale, done=int(result.outcome is Outcome.COMPLETED), all=1)
        return replace(result, summary=text, output=text)

    def _keep_price(self) -> None:
        """Keep the price of a composer from the budget left once the agent has been spawned, which comes first."""
        if COMPOSER not in self._tracker.child_ids and self._conclusion.limited:
            self._conclusion.keep(self._staff.composer(self._context.quoted))

    def _composer(self, agent: str, result: Result) -> SpawnRequest:
        """Request a composer that puts data into words; the data is cut to what the budget covers."""
        quoted, budget = self._context.quoted, self._staff.composer_budget
        request = self._staff.composer(wording_of(quoted, agent, result, budget))
        if over := self._conclusion.over(request):
            size = tokens_of(len(result.text.encode()))
            request = self._staff.composer(wording_of(quoted, agent, result, max(0, min(budget, size) - over)))
        self._conclusion.hand_over()
        return request

    def _refusal(self, agent: str) -> Refusal | None:
        try:
            self._context.children.admit(agent)
        except Refusal as refusal:
            return refusal
        return None

    async def _denied(self, decision: Routing, refusals: list[Refusal]) -> Result:
        """Block all chosen agents, none of which may work for the user: a row for each, and an answer that says why.

        Raises Refusal.
        """
        for refusal in refusals:
            if refusal.kind in UNSAFE:
                raise refusal
        step_ids = {f"{DIRECT}.{agent}": agent for agent in decision.agents}
        for (step_id, agent), refusal in zip(step_ids.items(), refusals, strict=True):
            await self._tracker.deny(step_id, direct_request(self._staff, agent, step=step_id), refusal)
        await self._tracker.until_ended(step_ids)
        told = dict.fromkeys(map(self._reason, decision.agents, refusals))
        reasons = "; ".join(told)
        text = phrase("denied", self._context.locale, reasons=reasons)
        problems = [Problem(refusal.kind, str(refusal), recommendation=refusal.hint) for refusal in refusals]
        return Result(Outcome.BLOCKED, summarise(text), text, refusals[0].kind, errors=problems)

    def _reason(self, agent: str, refusal: Refusal) -> str:
        missing, context = refusal.context.get("missing"), refusal.context
        if missing in ("capability", "connection"):
            return phrase(missing, self._context.locale, agent=context["agent"], connection=context["what"])
        return phrase("not_startable", self._context.locale, agent=agent)

    async def _end_of(self, step_id: str, request: SpawnRequest, began: Callable[[], None] = lambda: None) -> Result:
        """Spawn an agent for a step and return its result; no agent is spawned once the route has to conclude."""
        tracker = self._tracker
        if step_id not in tracker.child_ids and tracker.why_stop is not None:
            return partial("", tracker.why_stop)
        await tracker.spawn_step(step_id, request)
        began()
        return await tracker.result_of_step(step_id)
