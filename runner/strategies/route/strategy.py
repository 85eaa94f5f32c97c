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
from runner.core.history import Past
from runner.core.spawn import SpawnRequest
from runner.errors import UNSAFE, Refusal
from runner.record import facts
from runner.result import Outcome, Problem, Result, failed, partial, summarise
from runner.roles import ANSWER, CLASSIFIER, COMPOSER, DIRECT, HANDLERS, PLAN, ROOT
from runner.strategies.child_tracker import Seating
from runner.strategies.compose import wording_of
from runner.strategies.conclusion import Conclusion
from runner.strategies.context import Work
from runner.strategies.route.classify import Decision, read_decision
from runner.strategies.route.commands.parse import call_in
from runner.strategies.route.commands.run import Course
from runner.strategies.route.requests import classifier_request, direct_request, plan_request, respondent_request
from runner.strategies.staff import Staff
from runner.text import is_raw, tokens_of


class Route:
    """A message on its way to the agent that handles it."""

    def __init__(self, work: Work) -> None:
        assert isinstance(work.subject, AgentSpec)
        self._work = work
        self._staff = Staff(work.settings, work.subject, work.catalogue, work.task)
        self._seating = Seating(work, lambda row: row["step_id"])
        self._answer: Result | None = None
        self._conclusion = Conclusion(work)
        self._course: Course | None = None
        try:
            call = work.request.root.command if work.role == ROOT else call_in(work.subject, work.task)
            self._course = Course(work, self._seating, call) if call is not None else None
        except Refusal as refusal:  # its parent gets the reason; a top-level order is refused before this
            problem = Problem(refusal.kind, str(refusal), recoverable=False, recommendation=refusal.hint)
            self._answer = failed(problem)

    @property
    def partial_output(self) -> str:
        """The output so far of the agent that handles the message."""
        if self._course is not None:
            return self._course.partial_output
        texts = [self._seating.text_of(seat) for seat in (COMPOSER, PLAN, DIRECT, ANSWER)]
        return next((text for text in texts if text), "")

    def restore(self, past: Past) -> None:
        """Restore the children from rows."""
        if self._course is not None:
            self._course.restore(past)
        else:
            self._seating.restore(past)

    async def run(self) -> Result:
        """Decide, hand over, and return the result, once; a later delivery is only stored."""
        if self._answer is None:
            await self._seating.heed_again()
            self._answer = await (self._course.run() if self._course is not None else self._handled())
        await self._seating.read()
        return self._answer

    async def _handled(self) -> Result:
        """Handle the message; without a catalogue there is nothing to decide."""
        return await self._handle(await self._decide() if self._work.catalogue else Decision())

    async def _decide(self) -> Decision:
        work = self._work
        work.set_activity("choosing an agent")
        end = await self._end_of(CLASSIFIER, classifier_request(self._staff, work.prompt))
        names = [entry.name for entry in work.catalogue]
        decision = read_decision(end.text, names) if end.outcome is not Outcome.FAILED else Decision()
        if HANDLERS.isdisjoint(self._seating.taken):
            told = {"intent": decision.intent, "agents": list(decision.agents), "plan": decision.needs_plan}
            work.recorder.record_nowait(
                facts.Noticed(work.place, "route.decided", {**told, "confidence": decision.confidence})
            )
        return decision

    async def _handle(self, decision: Decision) -> Result:
        if not decision.agents:
            return await self._end_of(ANSWER, respondent_request(self._staff, self._work.prompt))
        at_work = not HANDLERS.isdisjoint(self._seating.taken)  # admitted before a restart
        if not at_work and self._seating.why_stop is None:
            refusals = [refusal for agent in decision.agents if (refusal := self._refusal(agent)) is not None]
            if len(refusals) == len(decision.agents):
                return await self._denied(decision, refusals)
        if decision.needs_plan:
            self._work.set_activity(f"planning for {', '.join(decision.agents)}")
            return await self._end_of(PLAN, plan_request(self._staff, decision.agents, self._work.prompt))
        return await self._direct(decision.agents[0])

    async def _direct(self, agent: str) -> Result:
        work = self._work
        work.set_activity(f"handing over to {agent}")
        result = await self._end_of(DIRECT, direct_request(self._staff, agent, work.prompt), self._keep_price)
        if result.outcome is Outcome.FAILED or not is_raw(result.text):
            return result
        worded = await self._end_of(COMPOSER, self._composer(agent, result))
        if worded.outcome is not Outcome.FAILED and not is_raw(worded.text):
            return replace(result, summary=worded.summary, output=worded.text)
        work.warnings.append(f"the composer failed: `{agent}` answered with data, which is in its own result")
        text = phrase("count", work.locale, done=int(result.outcome is Outcome.COMPLETED), all=1)
        return replace(result, summary=text, output=text)

    def _keep_price(self) -> None:
        """Keep the price of a composer from the budget left once the agent has been spawned, which comes first."""
        if COMPOSER not in self._seating.taken and self._conclusion.limited:
            self._conclusion.keep(self._staff.composer(self._work.quoted))

    def _composer(self, agent: str, result: Result) -> SpawnRequest:
        """Request a composer that puts data into words; the data is cut to what the budget covers."""
        quoted, budget = self._work.quoted, self._staff.composer_budget
        request = self._staff.composer(wording_of(quoted, agent, result, budget))
        if over := self._conclusion.over(request):
            size = tokens_of(len(result.text.encode()))
            request = self._staff.composer(wording_of(quoted, agent, result, max(0, min(budget, size) - over)))
        self._conclusion.hand_over()
        return request

    def _refusal(self, agent: str) -> Refusal | None:
        try:
            self._work.children.admit(agent)
        except Refusal as refusal:
            return refusal
        return None

    async def _denied(self, decision: Decision, refusals: list[Refusal]) -> Result:
        """Block all chosen agents, none of which may work for the user: a row for each, and an answer that says why.

        Raises Refusal.
        """
        for refusal in refusals:
            if refusal.kind in UNSAFE:
                raise refusal
        seats = {f"{DIRECT}.{agent}": agent for agent in decision.agents}
        for (seat, agent), refusal in zip(seats.items(), refusals, strict=True):
            await self._seating.deny(seat, direct_request(self._staff, agent, step=seat), refusal)
        await self._seating.until_ended(seats)
        told = dict.fromkeys(map(self._reason, decision.agents, refusals))
        reasons = "; ".join(told)
        text = phrase("denied", self._work.locale, reasons=reasons)
        problems = [Problem(refusal.kind, str(refusal), recommendation=refusal.hint) for refusal in refusals]
        return Result(Outcome.BLOCKED, summarise(text), text, refusals[0].kind, errors=problems)

    def _reason(self, agent: str, refusal: Refusal) -> str:
        missing, context = refusal.context.get("missing"), refusal.context
        if missing in ("capability", "connection"):
            return phrase(missing, self._work.locale, agent=context["agent"], connection=context["what"])
        return phrase("not_startable", self._work.locale, agent=agent)

    async def _end_of(self, seat: str, request: SpawnRequest, began: Callable[[], None] = lambda: None) -> Result:
        """Spawn an agent for a step and return its result; no agent is spawned once the route has to conclude."""
        seating = self._seating
        if seat not in seating.taken and seating.why_stop is not None:
            return partial("", seating.why_stop)
        await seating.give(seat, request)
        began()
        return await seating.result_in(seat)
