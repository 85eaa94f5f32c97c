"""The model calls of one conversation: each is paid for before it is made, bounded in time, and streamed.

Owns the way to the model and back, the budget permit of each call, its `model_calls` row, and the wait between two attempts
of a call: the row says that it waits, no reservation but that of the conclusion is kept, and a shutdown or a request to
wrap up ends it. Invariants: a call is made at most once, a call that never came back is not charged, and a charge without a
provider's count says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from db.clock import loop_time, stamp
from db.ids import new_id
from db.rows.transcript import ModelCall
from registry import Cost, ModelSpec, Price, Settings, Tokens, cost_of
from runner.budget.accounts import NOTHING, Account, Amount
from runner.budget.budget import REASONS, Budget, CallPermit
from runner.budget.estimate import Tariff
from runner.compaction.policy import TokenCount
from runner.compaction.shorten import shorten
from runner.llm.protocol import ModelError, Reply, Request, RetryWait, Usage
from runner.messages import Message
from runner.provider_error import PROVIDER
from runner.record import facts, turn_facts
from runner.record.streaming import TextStream
from runner.strategies.context import StrategyContext
from runner.strategies.loop.rebuild import LOST
from runner.text import BYTES_PER_TOKEN

WRITING_SECONDS = 0.5
"""Time kept before the deadline for storing results, if no conclusion is possible."""


@dataclass(frozen=True, slots=True)
class CallUsage:
    """The usage and cost of one call."""

    call: ModelCall
    used: Amount


Keep = Callable[[Reply, CallUsage], Awaitable[None]]
"""Stores a reply and its usage."""


class WrapUpWanted(Exception):
    """A conclusion was asked for during the wait for the next attempt of a call."""


class _Unpaid(Exception):
    """Other calls used the budget of a call during the wait for its next attempt."""


class ModelCalls:
    """The model calls of one conversation."""

    __slots__ = ("_asked", "_concluding", "_context", "_leave", "_model", "_spec", "_spending", "_waited", "lost", "voice")

    def __init__(self, context: StrategyContext, spec: ModelSpec, measure: TokenCount) -> None:
        assert context.model is not None
        self._context, self._model, self._spec = context, context.model, spec
        self._spending = call_budget(context, spec, measure)
        self._leave: CallPermit | None = None
        """The permit of the call in flight."""
        self._waited: RetryWait | None = None
        """The last wait of that call, if an attempt failed."""
        self._asked: tuple[Request, Request] | None = None
        """The request of that call, and the whole conversation's."""
        self._concluding = False
        self.voice = TextStream(context.recorder.streams, context.place, self._ended_early)
        self.lost = False
        """Whether a model call was in flight when the previous owner process died."""

    def _ended_early(self, identifier: str, status: str) -> None:
        """Record that a call ended without a reply. If its process ends, the next process records it."""
        if not self._context.lookups.resumes_elsewhere():
            self._context.recorder.record_nowait(turn_facts.CallBroken(self._context.place, identifier, status))

    @property
    def limited(self) -> bool:
        return self._spending is not None

    def keep(self, request: Request) -> None:
        """Keep the price of a conclusion, if there is a budget."""
        if self._spending is not None:
            self._spending.keep(request)

    async def ask(self, whole: Request, keep: Keep, sent: Request | None = None) -> bool:
        """Make a call: `whole` is the request of the conversation, `sent` another one about it. False if not affordable."""
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
        """Make the last call; the newest messages are cut if that makes it affordable. False if it does not."""
        if self._spending is None:
            await self._call(request, keep, concluding=True)
            return True
        leave = self._spending.leave_to_conclude(request, messages)
        if leave is None:
            return False
        await self._paid_call(leave, request, keep, concluding=True)
        return True

    async def _paid_call(
        self, leave: CallPermit, whole: Request, keep: Keep, sent: Request | None = None, *, concluding: bool = False
    ) -> None:
        """Make a call with a permit. A call that fails or is cancelled is not charged, as its usage is unknown."""
        assert self._spending is not None
        self._leave = leave
        try:
            await self._call((sent or whole).up_to(leave.answer), keep, whole, concluding=concluding)
        finally:
            if self._leave is not None:
                self._spending.settle(self._leave, whole)
            self._leave = None

    async def _call(self, request: Request, keep: Keep, whole: Request | None = None, *, concluding: bool = False) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()  # a cancelled execution starts nothing
        await self._context.pause()  # nor does a stopping service; checked last, after any wait for the permit
        context, started, self._waited = self._context, stamp(), None
        self._asked, self._concluding = (request, whole or request), concluding
        limit = loop_time() + context.limits.model_timeout
        reply: Reply | None = None
        wrap_up_wanted = False
        with context.shutdown, self.voice:
            with anyio.CancelScope(deadline=limit) if concluding else context.allowance.before_wrap_up(limit):
                context.state.asking = True
                try:
                    reply = await self._model.complete(request, self.voice.heard)
                except WrapUpWanted:
                    wrap_up_wanted = True
            context.state.asking = False
            if reply is not None:
                await keep(reply, _usage_of_reply(context, self._spec, reply, self.voice.id, started))
            elif wrap_up_wanted or (not concluding and loop_time() >= context.allowance.wrap_up_at):
                await self._wait_over()
                self.voice.break_off("cancelled")
            else:
                raise self._out_of_time()

    def _out_of_time(self) -> ModelError:
        """The timeout error of a call; after several attempts it names the last failure."""
        seconds, hint = f"no answer within {self._context.limits.model_timeout:g} s", "raise `model_timeout`"
        if self._waited is None:
            return ModelError("timeout", seconds, hint, recoverable=True)
        last = self._waited.error
        return ModelError(last.kind, f"{last}; {seconds}", hint, recoverable=True, provider=last.provider)

    # -- between two attempts ------------------------------------------------------------------------------------------

    async def pause(self, wait: RetryWait) -> None:
        """Wait for the next attempt of the call in flight."""
        await (self._wait_to_conclude(wait) if self._concluding else self._wait_to_ask(wait))

    async def _wait_to_ask(self, wait: RetryWait) -> None:
        """Wait for the next attempt of an ordinary call; its reservation is released meanwhile."""
        context, spending = self._context, self._spending
        assert self._asked is not None
        request, whole = self._asked
        if spending is not None and self._leave is not None:
            self._leave.over()
            self._leave = None
        with context.shutdown.at_rest():
            await self._wait_told(wait)
            with anyio.move_on_after(wait.seconds):
                await context.inbox.until_asked_to_wrap_up()
                raise WrapUpWanted
        await context.pause()
        if spending is not None:
            self._leave = await spending.leave_again(whole, request.max_tokens)
        await self._wait_over()
        if spending is not None and self._leave is None:
            raise _Unpaid

    async def _wait_to_conclude(self, wait: RetryWait) -> None:
        """Wait for the next attempt of a conclusion, unless its time would run out before."""
        if loop_time() + wait.seconds > self._context.allowance.deadline - WRITING_SECONDS:
            raise wait.error
        with self._context.shutdown.at_rest():
            await self._wait_told(wait)
            await anyio.sleep(wait.seconds)
        await self._context.pause()
        await self._wait_over()

    async def _wait_told(self, wait: RetryWait) -> None:
        """Record and publish that, and why, the model call waits; nothing is in flight then."""
        context, self._waited = self._context, wait
        context.state.asking, context.state.activity = False, str(wait)
        told = {
            "action": context.state.activity,
            "model": wait.model,
            "error": str(wait.error),
            "retry_in_seconds": round(wait.seconds, 3),
            "gives_up_in_seconds": round(wait.left, 3),
        }
        if wait.error.provider is not None:
            told[PROVIDER] = wait.error.provider.shown
        await context.recorder.record(facts.Waiting(context.place, "model", told))

    async def _wait_over(self) -> None:
        """Clear the wait before the next attempt: from here on a call that a crash cuts may have cost something."""
        if self._waited is not None:
            await self._context.recorder.record(facts.Waiting(self._context.place, None))
            self._context.state.asking = True

    async def lose(self, request: Request) -> None:
        """Record and charge the call that was in flight when another process died; it is repeated now."""
        if not self.lost:
            return
        self.lost = False
        context = self._context
        prompt, worst = self._spending.lost(request) if self._spending is not None else (0, NOTHING)
        bill = _usage_of_lost(context, self._spec, prompt, worst, stamp())
        await context.recorder.record_fenced(
            turn_facts.CallLost(context.place, context.epoch, bill.call), context.place.id, shielded=True
        )
        context.allowance.charge(bill.used)

    def attempting(self, model: str, number: int) -> None:
        """Publish every attempt after the first: the one before failed, and its streamed text is void."""
        if number > 1:
            self.voice.again(number)
            self._context.set_activity(f"asking {model} (attempt {number})")
            attempt = {"model": model, "attempt": number}
            self._context.recorder.record_nowait(facts.Noticed(self._context.place, "model.attempt", attempt))


class CallBudget:
    """The budget of one conversation's calls."""

    __slots__ = ("_budget", "_context", "_prompt", "_tariff")

    def __init__(self, context: StrategyContext, budget: Budget, tariff: Tariff, measure: TokenCount) -> None:
        self._context, self._budget, self._tariff = context, budget, tariff
        self._prompt = measure.tokens

    async def leave_to_ask(self, request: Request) -> CallPermit | None:
        """Reserve budget for an ordinary call. Calls in flight may cost less than they reserved, so it waits for them.

        None if it cannot be reserved: then it has to wrap up, or to wait for agents that hold budgets of their own.
        """
        prompt = self._prompt(request)
        while (leave := self._budget.reserve(self._tariff, prompt)) is None:
            short = self._budget.short_of(self._tariff, prompt)
            if idle := [account for account in short if not account.calls]:
                self._give_up(idle)
                return None
            self._context.set_activity("waiting for budget reserved by other calls")
            with self._context.allowance.before_wrap_up() as scope:
                await short[0].until_freed()
            if scope.cancelled_caught:
                return None
        return leave

    async def leave_again(self, request: Request, answer: int | None) -> CallPermit | None:
        """Reserve budget for another attempt of a call; None if it no longer covers an `answer` of that many tokens."""
        leave = await self.leave_to_ask(request)
        if leave is not None and answer is not None and leave.answer < answer:
            leave.over()
            return None
        return leave

    def _give_up(self, short: Sequence[Account]) -> None:
        """Wrap up if no call in flight can free budget, and no agent can return the rest of its own when it ends."""
        if not self._budget.grants or any(account.unit == "tokens" for account in short):
            self._wrap_up(short)

    def _wrap_up(self, short: Sequence[Account]) -> None:
        self._context.allowance.ask_to_wrap_up(REASONS[short[0].unit])

    def leave_to_conclude(self, request: Request, messages: list[Message]) -> CallPermit | None:
        """Reserve budget for the last call; the newest messages are cut to make it affordable. None if that fails."""
        prompt = self._prompt(request)
        too_long = prompt - int(self._budget.longest_prompt(self._tariff, prompt))
        if too_long > 0:
            shorten(messages, too_long * BYTES_PER_TOKEN)
            prompt = self._prompt(request)
        leave = self._budget.reserve(self._tariff, prompt, concluding=True)
        if leave is None:
            self._wrap_up(self._budget.short_of(self._tariff, prompt, concluding=True))
        return leave

    def keep(self, request: Request) -> None:
        """Keep the price of a conclusion of the conversation as it is now."""
        self._budget.keep_for_conclusion(self._tariff, self._prompt(request))

    def lost(self, request: Request) -> tuple[int, Amount]:
        """The prompt tokens of a call cut by a crash, and the most it may have used: what it could reserve now."""
        prompt = self._prompt(request)
        leave = self._budget.reserve(self._tariff, prompt, concluding=not request.tools)
        if leave is None:
            return prompt, NOTHING
        leave.over()
        return prompt, self._tariff.worst(prompt, leave.answer)

    def settle(self, leave: CallPermit, request: Request) -> None:
        """Release a permit after its call, and keep the price of a conclusion of the conversation as it is now."""
        leave.over()
        self.keep(request)


def call_budget(context: StrategyContext, spec: ModelSpec, measure: TokenCount) -> CallBudget | None:
    """The budget of an execution's calls, if there is a limit; warns if a cost limit cannot bind for lack of prices."""
    budget = context.allowance.budget
    if budget is None:
        return None
    tariff = Tariff(spec, context.settings.models, waits=bool(context.catalogue))
    if tariff.unpriced and any(account.unit == "usd" for account in budget.accounts):
        warning = _unpriced(tariff.unpriced)
        context.warnings.append(warning)
        context.recorder.record_nowait(
            facts.Noticed(context.place, "budget.unpriced", {"models": tariff.unpriced, "message": warning})
        )
    return CallBudget(context, budget, tariff, measure)


def _unpriced(models: Mapping[str, Sequence[str]]) -> str:
    named = "; ".join(f"`{model}` has no price for {', '.join(kinds)}" for model, kinds in models.items())
    return f"the budget does not count every cost: {named}"


def _usage_of_reply(context: StrategyContext, spec: ModelSpec, reply: Reply, identifier: str, started: str) -> CallUsage:
    """The bill of a reply: a fallback model has its own price, a rehearsal costs nothing."""
    usage, tokens = reply.usage, _tokens(reply.usage)
    cost = cost_of(tokens, _price(context.settings, spec, reply))
    call = ModelCall(
        id=identifier,
        execution_id=context.place.id,
        turn=context.allowance.own.turns + 1,
        model=reply.model,
        stop_reason=reply.stop_reason,
        request_id=reply.request_id,
        rehearsed=int(reply.rehearsed),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        cost_usd=cost.usd,
        pricing="rehearsed" if reply.rehearsed else cost.completeness,
        started_at=started,
        finished_at=stamp(),
    )
    return CallUsage(call, Amount(tokens.total, cost.usd))


def _usage_of_lost(context: StrategyContext, spec: ModelSpec, prompt: int, worst: Amount, started: str) -> CallUsage:
    """The bill of a call cut by the end of another process: its usage is unknown, so its worst case is charged."""
    rehearsed = context.model is not None and context.model.rehearses
    used = Amount(worst.tokens, 0.0 if rehearsed else worst.usd)
    call = ModelCall(
        id=new_id(),
        execution_id=context.place.id,
        turn=context.allowance.own.turns + 1,
        model=spec.model,
        stop_reason=LOST,
        request_id=None,
        rehearsed=int(rehearsed),
        input_tokens=min(prompt, used.tokens),
        output_tokens=max(0, used.tokens - prompt),
        cache_read_tokens=0,
        cache_write_tokens=0,
        cost_usd=used.usd,
        pricing=LOST,
        started_at=started,
        finished_at=started,
    )
    return CallUsage(call, used)


def cost_of_reply(settings: Settings, spec: ModelSpec, reply: Reply) -> Cost:
    """The cost of a reply to a call of `spec`, as its bill has it."""
    return cost_of(_tokens(reply.usage), _price(settings, spec, reply))


def _price(settings: Settings, spec: ModelSpec, reply: Reply) -> Price | None:
    """A fallback model has its own price, a rehearsal none."""
    if reply.rehearsed:
        return None
    return next((each for each in (spec, *settings.models.values()) if each.model == reply.model), spec).price


def _tokens(usage: Usage) -> Tokens:
    """The token counts, each token counted once."""
    brief = usage.cache_write_tokens - usage.cache_write_1h_tokens
    return Tokens(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, brief, usage.cache_write_1h_tokens)
