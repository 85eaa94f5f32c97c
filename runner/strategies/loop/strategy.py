"""loop: model and tools, turn by turn, until there is an answer. With agents to dispatch it orchestrates, without a special
case: dispatching is one more tool, and results arrive through the inbox.
"""

from __future__ import annotations

from runner.budget.budget import REASONS
from runner.core.history import Past
from runner.core.views import reports_of
from runner.record import facts
from runner.result import Result, completed, partial
from runner.strategies.context import Work
from runner.strategies.loop.conversation import Conversation
from runner.strategies.loop.notes import GO_ON, SAY_SOMETHING
from runner.strategies.loop.step import (
    AskAgain,
    AskModel,
    Conclude,
    Continue,
    Drain,
    Finish,
    Mail,
    RunTools,
    SettleChildren,
    Wait,
    step,
)

NO_CONCLUSION = "There was no conclusion ({reason})."
WRITTEN, REPORTED = "It wrote {paths}.", "Its agents reported:"


class Loop:
    """One agent's loop."""

    __slots__ = ("_opened", "_reason", "_talk", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work
        self._talk = Conversation(work)
        self._opened = False
        self._reason: str | None = None

    @property
    def partial_output(self) -> str:
        """Its reported result, or the newest text of its model."""
        return self._work.state.final.text if self._work.state.final is not None else self._talk.transcript.last_text

    def restore(self, past: Past) -> None:
        """Restore the transcript, and whether a conclusion was asked for."""
        self._reason = self._talk.restore(past)
        for unpaid in REASONS.values():
            if self._reason == unpaid:
                self._work.allowance.ask_to_wrap_up(unpaid)
        if any(row["kind"] == "wrap_up" and row["consumed_at"] is not None for row in past.own.deliveries):
            self._work.allowance.ask_to_wrap_up()

    async def run(self) -> Result:
        """Take one action after another. Ordinary work ends when the wrap-up begins."""
        work, talk = self._work, self._talk
        if not self._opened:
            with work.allowance.before_wrap_up():
                await talk.open()
            self._opened = True
        while True:
            talk.transcript.final = work.state.final
            inbox = work.inbox
            mail = Mail(inbox.arrived, inbox.pending, inbox.ready, inbox.spoken)
            cancel_on_finish = work.limits.on_finish == "cancel"
            action = step(talk.transcript, mail, work.allowance.wrap_up, cancel_on_finish=cancel_on_finish)
            if not isinstance(action, Finish):
                await self._carry_out(action)
            elif (accepted := await talk.accepted(self._result())) is not None:
                return accepted

    async def _carry_out(self, action: object) -> None:
        work, talk = self._work, self._talk
        match action:
            case AskModel():
                await self._ask()
            case RunTools():
                with work.allowance.before_wrap_up():
                    await talk.run_tools()
            case Drain():
                if self._stands:
                    work.state.final = self._result()
                await talk.drain()
            case Wait():
                await self._wait()
            case AskAgain() | Continue():
                await talk.remark(SAY_SOMETHING if isinstance(action, AskAgain) else GO_ON)
                await self._ask()
            case SettleChildren(cancel):
                work.set_activity("settling its agents")
                if cancel and work.state.final is None:
                    # The answer counts, whatever its agents still report.
                    work.state.final = completed(talk.transcript.last_text)
                await work.children.settle(cancel=cancel)
            case Conclude(reason):
                self._reason = reason
                await talk.ask_to_conclude(reason)
                await talk.conclude()

    async def _ask(self) -> None:
        """Call the model, or wait for agents that return the rest of their budgets when they end."""
        if not await self._talk.ask() and self._work.allowance.wrap_up is None:
            await self._wait()

    @property
    def _stands(self) -> bool:
        """Whether there is an answer, and nothing arrived but the request to conclude."""
        inbox, transcript = self._work.inbox, self._talk.transcript
        answered = transcript.resting and not transcript.empty_answers and not inbox.pending
        return answered and all(item.kind == "wrap_up" for item in inbox.waiting)

    async def _wait(self) -> None:
        work = self._work
        work.set_activity(f"waiting for {work.inbox.pending} agents" if work.inbox.pending > 1 else "waiting for an agent")
        work.recorder.record_nowait(facts.Waiting(work.place, "children"))
        with work.allowance.before_wrap_up():
            await work.inbox.until_ready()
        work.recorder.record_nowait(facts.Waiting(work.place, None))

    def _result(self) -> Result:
        if self._work.state.final is not None:
            return self._work.state.final
        reason = self._reason or self._talk.transcript.shortfall
        if reason is not None:
            return partial(self._left(reason), reason)
        return completed(self._talk.transcript.last_text)

    def _left(self, reason: str) -> str:
        """The text of an incomplete answer: its own last text, and, if the model could not use them, the files it wrote and
        the reports of its agents.
        """
        transcript = self._talk.transcript
        if transcript.last_text and not transcript.exhausted and not transcript.empty_answers:
            return transcript.last_text
        reports = reports_of(self._work.children.ended.values())
        paths = ", ".join(f"`{each['path']}`" for each in self._work.state.artifacts)
        heading = NO_CONCLUSION.format(reason=reason) if reports or paths else ""
        heading += f" {WRITTEN.format(paths=paths)}" if paths else ""
        heading += f" {REPORTED}" if reports else ""
        return "\n\n".join(filter(None, (transcript.last_text, heading, reports)))
