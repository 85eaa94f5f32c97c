"""The model calls of one conversation: each paid for before it is made, within its time, heard while it is answered.

Owns the way to the model and back. What becomes of a reply is the conversation's: it is called with the reply while that
still counts as being asked. Invariant: a call is made at most once, and one that never came back is not charged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from db.clock import stamp
from registry import ModelSpec
from runner import facts
from runner.bill import bill_of_lost
from runner.budget import Leave
from runner.errors import Fenced
from runner.llm.protocol import ModelError, Reply, Request
from runner.measure import Measure
from runner.purse import NOTHING
from runner.speech import Voice
from runner.spending import spending_of
from runner.transcript import Message
from runner.work import Work

Keep = Callable[[Reply, str], Awaitable[None]]
"""Stores a reply; told when it was asked for."""


class Calls:
    """The calls of one conversation."""

    __slots__ = ("_model", "_spec", "_spending", "_work", "lost", "voice")

    def __init__(self, work: Work, spec: ModelSpec, measure: Measure) -> None:
        assert work.model is not None
        self._work, self._model, self._spec = work, work.model, spec
        self._spending = spending_of(work, spec, measure)
        self.voice = Voice(work.recorder.speech, work.place, self._ended_early)
        self.lost = False
        """Whether the model was being asked when another process went that ran this execution."""

    def _ended_early(self, identifier: str, status: str) -> None:
        """A call ends without an answer. One that is cut by the end of its process is lost; the next process says so."""
        if not self._work.goes_on_elsewhere():
            self._work.recorder.post(facts.CallBroken(self._work.place, identifier, status))

    @property
    def limited(self) -> bool:
        """Whether there is a budget."""
        return self._spending is not None

    def keep(self, request: Request) -> None:
        """Keep what a conclusion of the conversation costs, if there is a budget."""
        if self._spending is not None:
            self._spending.keep(request)

    async def ask(self, whole: Request, keep: Keep, sent: Request | None = None) -> bool:
        """Ask what a conversation asks as a whole, or something else about it. False when it could not be paid."""
        if self._spending is None:
            await self._call(sent or whole, keep)
            return True
        leave = await self._spending.leave_to_ask(whole)
        if leave is None:
            return False
        await self._paid_call(leave, whole, keep, sent)
        return True

    async def conclude(self, request: Request, messages: list[Message], keep: Keep) -> bool:
        """Ask for the last time; what the messages brought last is cut, if that makes it affordable. False when not."""
        if self._spending is None:
            await self._call(request, keep, concluding=True)
            return True
        leave = self._spending.leave_to_conclude(request, messages)
        if leave is None:
            return False
        await self._paid_call(leave, request, keep, concluding=True)
        return True

    async def _paid_call(
        self, leave: Leave, whole: Request, keep: Keep, sent: Request | None = None, *, concluding: bool = False
    ) -> None:
        """A call with leave. One that fails, is cut off or cancelled is not charged: nobody told us what it cost."""
        assert self._spending is not None
        try:
            await self._call((sent or whole).up_to(leave.answer), keep, concluding=concluding)
        finally:
            self._spending.settle(leave, whole)

    async def _call(self, request: Request, keep: Keep, *, concluding: bool = False) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()  # whatever is asked to stop begins nothing
        await self._work.pause()  # nor does a service that stops; last, because leave to pay may have been waited for
        work, started = self._work, stamp()
        limit = anyio.current_time() + work.limits.model_timeout
        reply: Reply | None = None
        with work.draining, self.voice:
            with anyio.CancelScope(deadline=limit) if concluding else work.allowance.before_wrap_up(limit):
                work.asking = True
                reply = await self._model.complete(request, self.voice.heard)
            work.asking = False
            if reply is not None:
                await keep(reply, started)
            elif concluding or anyio.current_time() < work.allowance.wrap_up_at:
                seconds = f"{work.limits.model_timeout:g} s"
                raise ModelError("timeout", f"no answer within {seconds}", "raise `model_timeout`", recoverable=True)
            else:
                self.voice.break_off("cancelled")

    async def lose(self, request: Request) -> None:
        """Write down the call, if there was one, that was cut by the end of another process; it is made once more now."""
        if not self.lost:
            return
        self.lost = False
        work = self._work
        prompt, worst = self._spending.lost(request) if self._spending is not None else (0, NOTHING)
        bill = bill_of_lost(work, self._spec, prompt, worst, stamp())
        if not (await work.recorder.record(facts.CallLost(work.place, work.attempt, bill.call), shielded=True)).held:
            raise Fenced(work.place.id)
        work.allowance.charge(bill.used)

    def attempting(self, model: str, number: int) -> None:
        """Attempts after the first are worth an event: something did not answer, and what it had said is void."""
        if number > 1:
            self.voice.again(number)
            self._work.now(f"asking {model} (attempt {number})")
            attempt = {"model": model, "attempt": number}
            self._work.recorder.post(facts.Noticed(self._work.place, "model.attempt", attempt))
