"""The model calls of one conversation: each paid for before it is made, within its time, heard while it is answered.

Owns the way to the model and back, and how an execution waits between two attempts of a call: its row says so, no money
but that of a conclusion is held, a service that stops does not wait for it, and a wish for a conclusion ends it. What
becomes of a reply is the conversation's: it is called with the reply while that still counts as being asked. Invariant: a
call is made at most once, and one that never came back is not charged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import anyio
import anyio.lowlevel

from db.clock import stamp
from registry import ModelSpec
from runner import facts, turn_facts
from runner.bill import bill_of_lost
from runner.budget import Leave
from runner.llm.protocol import ModelError, Reply, Request, RetryWait
from runner.measure import Measure
from runner.provider_error import PROVIDER
from runner.purse import NOTHING
from runner.speech import Voice
from runner.spending import spending_of
from runner.transcript import Message
from runner.work import Work

WRITING_SECONDS = 0.5
"""Kept before the deadline for writing down what there is, when a conclusion cannot be had."""

Keep = Callable[[Reply, str], Awaitable[None]]
"""Stores a reply; told when it was asked for."""


class _WrapUpWanted(Exception):
    """A conclusion was asked for while the next attempt of a call was waited for."""


class _Unpaid(Exception):
    """The money for a call was used by others while its next attempt was waited for."""


class Calls:
    """The calls of one conversation."""

    __slots__ = ("_leave", "_model", "_spec", "_spending", "_waited", "_work", "lost", "voice")

    def __init__(self, work: Work, spec: ModelSpec, measure: Measure) -> None:
        assert work.model is not None
        self._work, self._model, self._spec = work, work.model, spec
        self._spending = spending_of(work, spec, measure)
        self._leave: Leave | None = None
        """Of the call that is being made."""
        self._waited: RetryWait | None = None
        """The last wait of that call, if it failed before."""
        self.voice = Voice(work.recorder.speech, work.place, self._ended_early)
        self.lost = False
        """Whether the model was being asked when another process went that ran this execution."""

    def _ended_early(self, identifier: str, status: str) -> None:
        """A call ends without an answer. One that is cut by the end of its process is lost; the next process says so."""
        if not self._work.goes_on_elsewhere():
            self._work.recorder.record_nowait(turn_facts.CallBroken(self._work.place, identifier, status))

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
        try:
            await self._paid_call(leave, whole, keep, sent)
        except _Unpaid:
            return False
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
        self._leave = leave
        try:
            await self._call((sent or whole).up_to(leave.answer), keep, whole, concluding=concluding)
        finally:
            if self._leave is not None:
                self._spending.settle(self._leave, whole)
            self._leave = None

    async def _call(self, request: Request, keep: Keep, whole: Request | None = None, *, concluding: bool = False) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()  # whatever is asked to stop begins nothing
        await self._work.pause()  # nor does a service that stops; last, because leave to pay may have been waited for
        work, started, self._waited = self._work, stamp(), None
        limit = anyio.current_time() + work.limits.model_timeout
        pause = self._wait_to_conclude if concluding else partial(self._wait_to_ask, request, whole or request)
        request = replace(request, pause=pause)
        reply: Reply | None = None
        wrap_up_wanted = False
        with work.draining, self.voice:
            with anyio.CancelScope(deadline=limit) if concluding else work.allowance.before_wrap_up(limit):
                work.asking = True
                try:
                    reply = await self._model.complete(request, self.voice.heard)
                except _WrapUpWanted:
                    wrap_up_wanted = True
            work.asking = False
            if reply is not None:
                await keep(reply, started)
            elif wrap_up_wanted or (not concluding and anyio.current_time() >= work.allowance.wrap_up_at):
                await self._wait_over()
                self.voice.break_off("cancelled")
            else:
                raise self._out_of_time()

    def _out_of_time(self) -> ModelError:
        """The error of a call whose time ran out, which says what it failed of if it had been made several times."""
        seconds, hint = f"no answer within {self._work.limits.model_timeout:g} s", "raise `model_timeout`"
        if self._waited is None:
            return ModelError("timeout", seconds, hint, recoverable=True)
        last = self._waited.error
        return ModelError(last.kind, f"{last}; {seconds}", hint, recoverable=True, provider=last.provider)

    # -- between two attempts ------------------------------------------------------------------------------------------

    async def _wait_to_ask(self, request: Request, whole: Request, wait: RetryWait) -> None:
        """Wait for the next attempt of an ordinary call; what it would cost is free for others meanwhile."""
        work, spending = self._work, self._spending
        if spending is not None and self._leave is not None:
            self._leave.over()
            self._leave = None
        with work.draining.at_rest():
            await self._wait_told(wait)
            with anyio.move_on_after(wait.seconds):
                await work.inbox.until_asked_to_wrap_up()
                raise _WrapUpWanted
        await work.pause()
        if spending is not None:
            self._leave = await spending.leave_again(whole, request.max_tokens)
        await self._wait_over()
        if spending is not None and self._leave is None:
            raise _Unpaid

    async def _wait_to_conclude(self, wait: RetryWait) -> None:
        """Wait for the next attempt of a conclusion, unless the time for it would be over: then it has to do without."""
        if anyio.current_time() + wait.seconds > self._work.allowance.deadline - WRITING_SECONDS:
            raise wait.error
        with self._work.draining.at_rest():
            await self._wait_told(wait)
            await anyio.sleep(wait.seconds)
        await self._work.pause()
        await self._wait_over()

    async def _wait_told(self, wait: RetryWait) -> None:
        """Say in the row, and to all who watch, that and why the model is waited for: nothing is in flight then."""
        work, self._waited = self._work, wait
        work.asking, work.activity = False, str(wait)
        told = {
            "action": work.activity,
            "model": wait.model,
            "error": str(wait.error),
            "retry_in_seconds": round(wait.seconds, 3),
            "gives_up_in_seconds": round(wait.left, 3),
        }
        if wait.error.provider is not None:
            told[PROVIDER] = wait.error.provider.shown
        await work.recorder.record(facts.Waiting(work.place, "model", told))

    async def _wait_over(self) -> None:
        """Take it back before the model is asked: a call that a crash cuts from here on may have cost something."""
        if self._waited is not None:
            await self._work.recorder.record(facts.Waiting(self._work.place, None))
            self._work.asking = True

    async def lose(self, request: Request) -> None:
        """Write down the call, if there was one, that was cut by the end of another process; it is made once more now."""
        if not self.lost:
            return
        self.lost = False
        work = self._work
        prompt, worst = self._spending.lost(request) if self._spending is not None else (0, NOTHING)
        bill = bill_of_lost(work, self._spec, prompt, worst, stamp())
        await work.recorder.record_fenced(
            turn_facts.CallLost(work.place, work.attempt, bill.call), work.place.id, shielded=True
        )
        work.allowance.charge(bill.used)

    def attempting(self, model: str, number: int) -> None:
        """Attempts after the first are worth an event: something did not answer, and what it had said is void."""
        if number > 1:
            self.voice.again(number)
            self._work.now(f"asking {model} (attempt {number})")
            attempt = {"model": model, "attempt": number}
            self._work.recorder.record_nowait(facts.Noticed(self._work.place, "model.attempt", attempt))
