"""The conversation of one execution with its model: every turn is stored before anything follows from it.

Owns the transcript and its rows. Tool calls are run by `runner/errands.py`, and what comes next is decided in
`runner/step.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import anyio
import anyio.lowlevel
from pydantic_core import from_json, to_json

from db.clock import stamp
from db.ids import new_id
from db.turns import MessageDraft
from registry import AgentSpec
from runner import facts
from runner.acceptance import judge
from runner.bill import bill_of, bill_of_lost
from runner.budget import Leave
from runner.context import PromptParts, system_prompt
from runner.countdown import Countdown
from runner.delivery import delivery_message
from runner.errands import Errands
from runner.errors import Fenced, Refusal
from runner.llm.protocol import ModelError, Reply, Request
from runner.past import Past
from runner.personal import Personal
from runner.purse import NOTHING
from runner.recall import recall
from runner.remarks import conclude_note, countdown_note, counted_down
from runner.result import Result
from runner.speech import Voice
from runner.spending import Spending, spending_of
from runner.transcript import Message, Tool, ToolCall, Transcript, clean, distinct, tool_results
from runner.work import Work

EXHAUSTED = {"time_budget": "seconds", "max_iterations": "turns", "token_budget": "tokens", "cost_budget": "usd"}
"""What has run out, by the reason of a conclusion."""


class Conversation:
    """What an execution and its model say to each other."""

    __slots__ = (
        "_agent", "_countdown", "_errands", "_instructions", "_lost", "_model", "_personal", "_positions", "_spec",
        "_spending", "_system", "_tools", "_voice", "transcript", "work",
    )  # fmt: skip

    def __init__(self, work: Work) -> None:
        assert isinstance(work.subject, AgentSpec)
        assert work.model is not None
        self.work = work
        self.transcript = Transcript()
        self._agent = work.subject
        self._model = work.model
        self._spec = work.settings.model_of(work.subject)
        self._system = ""
        self._instructions: Mapping[str, str] = {}
        self._personal = Personal()
        self._tools: Sequence[Tool] = ()
        self._positions = 0
        self._errands = Errands(work, self._agent.mcp_servers)
        self._lost = False
        """Whether the model was being asked when another process went that ran this execution."""
        self._voice = Voice(work.recorder.speech, work.place)
        self._countdown = Countdown(work.allowance)
        self._spending = spending_of(work, self._spec)

    def recall(self, past: Past) -> str | None:
        """Know again what was said, from rows. Returns the last question for a conclusion, if one had been put."""
        recalled = recall(past, self._agent.mcp_servers)
        self.transcript, self._positions = recalled.transcript, recalled.positions
        self.work.final, self.work.rehearsed = recalled.final, recalled.rehearsed
        self._lost = recalled.was_asking and self.work.attempt > 1 and not past.waited
        notes = [row["content"] for row in past.own.messages if row["kind"] == "note"]
        self._countdown.told(what for note in notes for what in counted_down(from_json(note)[0]["text"]))
        return recalled.concluding

    async def open(self) -> None:
        """Get to know the tools; the first message is already stored."""
        work = self.work
        if not self.transcript.messages:
            self._positions = 1
            self.transcript.append(Message.of_text("user", work.prompt, "task"))
        if work.toolbox is not None:
            work.now("getting its tools")
            self._tools = await work.toolbox.tools.list_tools()
            self._instructions = await work.server_instructions()
        self._personal = await work.personal()
        if self._spending is not None:
            self._spending.keep(self._request(()))

    def _scene(self) -> str:
        """The system prompt, made when it is first needed: by then it is known what there is to say."""
        if not self._system:
            work = self.work
            unavailable = work.toolbox.unavailable if work.toolbox is not None else {}
            parts = PromptParts(
                agent=self._agent,
                name=work.name,
                role=work.role,
                catalogue=work.catalogue,
                roster=work.roster,
                brief=work.brief,
                personal=self._personal,
                server_instructions=self._instructions,
                unavailable=unavailable,
            )
            self._system = sys.intern(system_prompt(parts))  # a thousand agents of one kind share one text
        return self._system

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def ask(self) -> bool:
        """One model call, with tools; its reply, usage and tool calls are committed when this returns.

        It ends, without a reply, where the time for a conclusion begins. False when it could not be paid, and was not made.
        """
        await self._errands.stored()
        await self._count_down()
        self.work.now("asking the model")
        request = self._request(self._tools)
        await self._lose(request)
        if self._spending is None:
            await self._call(request)
            return True
        leave = await self._spending.leave_to_ask(request)
        return leave is not None and await self._paid_call(self._spending, leave, request)

    async def conclude(self) -> None:
        """One model call without tools: what was said last is answered. Without money for it nothing more is asked."""
        await self._errands.stored()
        self.work.now("concluding")
        request = self._request(())
        await self._lose(request)
        if self._spending is None:
            await self._call(request, concluding=True)
            return
        leave = self._spending.leave_to_conclude(request, self.transcript.messages)
        if leave is None:
            self.transcript.unpaid = self.work.allowance.wrap_up
        else:
            await self._paid_call(self._spending, leave, request, concluding=True)

    async def _paid_call(self, spending: Spending, leave: Leave, request: Request, *, concluding: bool = False) -> bool:
        """A call with leave. One that fails, is cut off or cancelled is not charged: nobody told us what it cost."""
        try:
            longest = leave.answer if request.max_tokens is None else min(leave.answer, request.max_tokens)
            await self._call(replace(request, max_tokens=longest), concluding=concluding)
        finally:
            spending.settle(leave, request)
        return True

    async def _call(self, request: Request, *, concluding: bool = False) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()  # whatever is asked to stop begins nothing
        await self.work.pause()  # nor does a service that stops; last, because leave to pay may have been waited for
        work, started = self.work, stamp()
        limit = anyio.current_time() + work.limits.model_timeout
        reply: Reply | None = None
        with work.draining, self._voice:
            with anyio.CancelScope(deadline=limit) if concluding else work.allowance.before_wrap_up(limit):
                work.asking = True
                reply = await self._model.complete(request, self._voice.heard)
            work.asking = False
            if reply is not None:
                await self._keep(reply, started, may_call=not concluding)
            elif concluding or anyio.current_time() < work.allowance.wrap_up_at:
                seconds = f"{work.limits.model_timeout:g} s"
                raise ModelError("timeout", f"no answer within {seconds}", "raise `model_timeout`", recoverable=True)
            else:
                self._voice.break_off("cancelled")

    def _request(self, tools: Sequence[Tool]) -> Request:
        work = self.work
        return Request(
            agent=self._agent.name,
            execution_id=work.place.id,
            spec=self._spec,
            system=self._scene(),
            messages=self.transcript.messages,
            tools=tools,
            withheld=self._tools,
            input=work.input,
            waits=bool(work.catalogue),
            max_tokens=self._agent.max_tokens,
            on_attempt=self._attempting,
        )

    async def _lose(self, request: Request) -> None:
        """Write down the call, if there was one, that was cut by the end of another process; it is made once more now."""
        if not self._lost:
            return
        self._lost = False
        work = self.work
        prompt, worst = self._spending.lost(request) if self._spending is not None else (0, NOTHING)
        bill = bill_of_lost(work, self._spec, prompt, worst, stamp())
        if not (await work.recorder.record(facts.CallLost(work.place, work.attempt, bill.call), shielded=True)).held:
            raise Fenced(work.place.id)
        work.allowance.charge(bill.used)

    async def _count_down(self) -> None:
        """Tell the model what runs low, once each; not in the middle of a reply that the provider wants back."""
        if self.transcript.messages[-1].role == "user" and (low := self._countdown.news()):
            for each in low:
                told = {"what": each.what, "left": round(each.left, 6), "limit": each.limit}
                self.work.recorder.post(facts.Noticed(self.work.place, "budget.low", told))
            await self.remark(countdown_note(low))

    def _attempting(self, model: str, number: int) -> None:
        """Attempts after the first are worth an event: something did not answer, and what it had said is void."""
        if number > 1:
            self._voice.again(number)
            self.work.now(f"asking {model} (attempt {number})")
            attempt = {"model": model, "attempt": number}
            self.work.recorder.post(facts.Noticed(self.work.place, "model.attempt", attempt))

    async def _keep(self, reply: Reply, started: str, *, may_call: bool) -> None:
        work, bill = self.work, bill_of(self.work, self._spec, reply, self._voice.id, started)
        refused = reply.stop_reason == "refusal"
        carries_out = may_call and reply.stop_reason not in ("refusal", "model_context_window_exceeded")
        content = distinct(reply.content, self.transcript.call_ids)
        if not carries_out:  # a call that nobody answers must not be sent back
            content = [block for block in content if block["type"] != "tool_use"]
        message = Message("assistant", content, "refusal" if refused else "reply", model=reply.model)
        draft = self._draft(message)
        calls = [replace(each, row=new_id()) for each in message.calls(reply.stop_reason)]
        starts = [self._errands.start_of(each, draft.id, position) for position, each in enumerate(calls)]
        fact = facts.Replied(work.place, work.name, work.attempt, bill.call, draft, message.text, starts)
        in_time = await self._store(fact, calls)
        self._voice.kept()
        work.rehearsed = work.rehearsed or reply.rehearsed
        work.allowance.settle_call(bill.used, len(calls))
        if refused:
            hint = "put the task differently, or give it to an agent with another model"
            raise ModelError("refused", f"`{reply.model}` declined to answer", hint)
        self.transcript.append(message, reply.stop_reason)
        if not in_time:
            raise Refusal("stopping", "asked to stop while its model answered", "look at who asked: `outrider show`")
        self.transcript.unanswered = calls
        if self._spending is not None:
            self._spending.count(bill.used.tokens, len(self.transcript.messages))

    async def _store(self, reply: facts.Replied, calls: Sequence[ToolCall]) -> bool:
        """Commit an answer. One that was paid for is never dropped: False when it came too late for anything to follow."""
        work = self.work
        if (await work.recorder.record(reply, shielded=True)).held:
            return True
        outcomes = [await self._errands.too_late(call) for call in calls]
        if not (await work.recorder.record(facts.RepliedLate(reply, outcomes), shielded=True)).held:
            raise Fenced(work.place.id)
        return False

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def run_tools(self) -> None:
        """Run all open calls at once. Whatever happens, each has exactly one result when this is over."""
        calls, answers = self.transcript.unanswered, dict(self.transcript.answers)
        asked = self.transcript.messages[-1].tool_calls
        try:
            await self._errands.run(calls, answers)
        finally:
            self.transcript.append(tool_results(answers[call.id] for call in asked))

    # -- what we say ---------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Show everything that arrived; it leaves the inbox in the transaction that stores the message."""
        items = self.work.inbox.waiting
        if any(item.kind == "wrap_up" for item in items):
            self.work.allowance.ask_to_wrap_up()
        message = delivery_message(items, self.work.inbox.pending)
        consumed = [item.id for item in items]
        await self._say(message, consumed)
        if self.work.inbox.spoken and not self.transcript.exhausted:
            self.work.final = None  # it is to answer once more, knowing what was said
        self.work.inbox.took(*consumed)

    async def remark(self, text: str) -> None:
        """Add a remark of ours."""
        await self._say(Message.of_text("user", text, "note"))

    async def ask_to_conclude(self, reason: str) -> None:
        """Put the last question."""
        if reason in EXHAUSTED:
            self.work.recorder.post(facts.Noticed(self.work.place, "budget.exhausted", {"what": EXHAUSTED[reason]}))
        note = conclude_note(reason, in_form=self._agent.output_schema is not None)
        await self._say(Message.of_text("user", note, "conclude"))

    async def accepted(self, answer: Result) -> Result | None:
        """What an answer comes to; None when its model has been told what it lacks, and is to answer once more."""
        judged = judge(self._agent, answer, self.transcript, self.work.allowance.wrap_up)
        if isinstance(judged, Result):
            for warning in judged.metadata.get("warnings", ()):
                self._unmet(warning)
            return judged
        self._unmet(f"{judged.problem.message}; asked once more")
        await self._say(Message.of_text("user", judged.text, judged.kind))
        self.work.final = None
        return None

    def _unmet(self, message: str) -> None:
        self.work.recorder.post(facts.Noticed(self.work.place, "answer.unmet", {"message": message}))

    async def _say(self, message: Message, consumed: Sequence[str] = ()) -> None:
        fact = facts.Said(self.work.place, self.work.attempt, self._draft(message), consumed)
        ticket = await self.work.recorder.record(fact, shielded=True)  # shown and consumed are one fact
        if not ticket.held:
            raise Fenced(self.work.place.id)
        self.transcript.append(message)

    def _draft(self, message: Message) -> MessageDraft:
        draft = MessageDraft(
            id=new_id(),
            execution_id=self.work.place.id,
            position=self._positions,
            role=message.role,
            kind=message.kind,
            content=clean(to_json(message.content).decode()),
        )
        self._positions += 1
        return draft
