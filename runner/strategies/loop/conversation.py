"""The conversation of one execution with its model: every turn is stored before anything follows from it.

Owns the transcript and its rows. `runner/strategies/loop/tool_calls.py` lists and runs tools,
`runner/strategies/loop/opening.py` writes the system prompt, and `runner/strategies/loop/step.py` decides what comes next.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pydantic_core import to_json

from db.ids import new_id
from db.rows.transcript import MessageDraft
from registry import AgentSpec
from runner.compaction.apply import Compaction, view_of
from runner.compaction.policy import CompactionPolicy, TokenCount
from runner.compaction.summary import Kept
from runner.core.history import History
from runner.errors import Refusal
from runner.llm.protocol import ModelError, Reply, Request
from runner.messages import FULL, Block, Message, Prefix, Tool, ToolCall, clean, distinct
from runner.prompt.deliveries import delivery_message
from runner.record import facts, turn_facts
from runner.record.old_messages import data_of
from runner.result import Result
from runner.roles import STEADY
from runner.strategies.context import StrategyContext
from runner.strategies.loop.acceptance import judge
from runner.strategies.loop.model_calls import CallUsage, ModelCalls
from runner.strategies.loop.notes import LOW, Countdown, conclude_note, countdown_note
from runner.strategies.loop.opening import Opening
from runner.strategies.loop.rebuild import rebuild, written_before
from runner.strategies.loop.tool_calls import ToolRunner
from runner.strategies.loop.transcript import Transcript
from runner.text import escape_blocks

log = logging.getLogger("outrider.conversation")

EXHAUSTED = {"time_budget": "seconds", "max_iterations": "turns", "token_budget": "tokens", "cost_budget": "usd"}
"""The exhausted resource, by the reason of a conclusion."""


class Conversation:
    """The transcript of one execution and the calls that extend it."""

    __slots__ = (
        "_agent",
        "_calls",
        "_compaction",
        "_countdown",
        "_model",
        "_opening",
        "_positions",
        "_prefix",
        "_spec",
        "_tool_runner",
        "context",
        "transcript",
    )  # fmt: skip

    def __init__(self, context: StrategyContext) -> None:
        assert isinstance(context.subject, AgentSpec)
        assert context.model is not None
        self.context = context
        self.transcript = Transcript()
        self._agent = context.subject
        self._model = context.model
        self._spec = context.settings.model_of(context.subject)
        self._positions = 0
        self._prefix = Prefix()
        self._opening = Opening(context, self._agent)
        self._tool_runner = ToolRunner(context, self._agent)
        self._countdown = Countdown(context.allowance)
        measure = TokenCount()
        self._calls = ModelCalls(context, self._spec, measure)
        models = (self._spec, *(context.settings.models[name] for name in self._spec.fallback))
        self._compaction = CompactionPolicy(self._agent.context.compact_at, models, measure)

    def restore(self, history: History) -> str | None:
        """Restore the transcript from rows; returns the reason if a conclusion had been asked for."""
        rebuilt = rebuild(history, self._agent.mcp_servers)
        self.transcript, self._positions = rebuilt.transcript, rebuilt.positions
        self.context.state.final, self.context.state.rehearsed = rebuilt.final, rebuilt.rehearsed
        self.context.state.artifacts = written_before(history)
        self._tool_runner.restore(history.own.tool_calls)
        self._compaction.restore(rebuilt.counted, rebuilt.limit)
        self._calls.lost = rebuilt.was_asking and self.context.epoch > 1 and not history.waited
        notes = [data_of(row) for row in history.own.messages if row["kind"] == "note"]
        self._countdown.told(what for note in notes for what in note.get(LOW, ()))
        return rebuilt.concluding

    async def open(self) -> None:
        """List the tools and gather the parts of the system prompt; the first message is stored already."""
        if not self.transcript.messages:
            self._positions = 1
            self.transcript.append(Message.of_text("user", self.context.prompt, "task"))
        await self._tool_runner.list_tools()
        await self._opening.gather()
        if self._calls.limited:
            self._calls.keep(self._request(()))

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def ask(self) -> bool:
        """Make one model call with tools; on return its reply, usage and tool calls are committed.

        The call ends without a reply when the wrap-up begins. False if the budget did not cover it and it was not made.
        """
        await self._tool_runner.stored()
        await self._count_down()
        self.context.set_activity("asking the model")
        request = self._request(self._tool_runner.tools)
        await self._calls.lose(request)
        if self._compaction.short(request) and (wanted := await self._make_room(request)) is not None:
            return await self._summarise(request, wanted)  # a turn of its own: the loop decides again after it
        try:
            return await self._calls.ask(request, self._keep)
        except ModelError as error:
            if not self._compaction.overflows(error, self.transcript.messages):
                raise
        return True  # the request was too long: the next one is compacted

    async def conclude(self) -> None:
        """Make one last model call without tools; none if the budget does not cover it."""
        await self._tool_runner.stored()
        self.context.set_activity("concluding")
        await self._calls.lose(self._request(()))
        if not await self._conclude():
            await self._conclude()

    async def _conclude(self) -> bool:
        """False if the conversation was too long and a second try is compacted further."""
        request, messages = self._request(()), self.transcript.messages
        if self._compaction.short(request):
            await self._make_room(request, alone=True)
        try:
            if not await self._calls.conclude(request, messages, self._keep_conclusion):
                self.transcript.unpaid = self.context.allowance.wrap_up
                return True
        except ModelError as error:
            if not self._compaction.overflows(error, messages):
                raise
        return not self._compaction.tried

    def _request(self, tools: Sequence[Tool]) -> Request:
        context = self.context
        return Request(
            agent=self._agent.name,
            execution_id=context.place.id,
            spec=self._spec,
            system=self._opening.system_prompt,
            messages=self.transcript.messages,
            tools=tools,
            withheld=self._tool_runner.tools,
            input=context.input,
            caller=context.node.path[-2] if len(context.node.path) > 1 else "",
            session=context.session,
            waits=bool(context.catalogue),
            steady=context.role in STEADY,
            max_tokens=self._agent.max_tokens,
            on_attempt=self._calls.attempting,
            pause=self._calls.pause,
            prefix=self._prefix,
        )

    async def _count_down(self) -> None:
        """Tell the model which limits run low, once each; not within a reply that the provider wants back."""
        if self.transcript.messages[-1].role == "user" and (low := self._countdown.news()):
            for each in low:
                told = {"what": each.what, "left": round(each.left, 6), "limit": each.limit}
                self.context.recorder.record_nowait(facts.Noticed(self.context.place, "budget.low", told))
            await self._say(countdown_note(low))

    async def _keep_conclusion(self, reply: Reply, bill: CallUsage) -> None:
        await self._keep(reply, bill, may_call=False)

    async def _keep(self, reply: Reply, bill: CallUsage, *, may_call: bool = True) -> None:
        context = self.context
        refused, full = reply.stop_reason == "refusal", reply.stop_reason == FULL
        carries_out = may_call and not refused and not full
        void = full and self._compaction.overflow(self.transcript.messages)  # it is asked for again after compaction
        content = distinct(reply.content, self.transcript.call_ids)
        if not carries_out:  # a call without a result must not be sent back
            content = [block for block in content if block["type"] != "tool_use"]
        kind = "refusal" if refused else "overflow" if void else "reply"
        message = Message("assistant", content, kind, model=reply.model)
        draft = self._draft(message)
        calls = message.read_calls(reply.stop_reason, new_id)
        starts = [self._tool_runner.start_of(each, draft.id, position) for position, each in enumerate(calls)]
        fact = turn_facts.Replied(context.place, context.name, context.epoch, bill.call, draft, message.text, starts)
        in_time = await self._store(fact, calls)
        self._calls.voice.kept()
        context.state.rehearsed = context.state.rehearsed or reply.rehearsed
        context.allowance.settle_call(bill.used)
        if refused:
            hint = "reword the task, or give it to an agent with another model"
            raise ModelError("refused", f"`{reply.model}` declined to answer", hint)
        if not void:
            self.transcript.append(message, reply.stop_reason)
            self._compaction.replied(bill.used.tokens, len(self.transcript.messages))
        if not in_time:
            raise _stopping()
        self.transcript.unanswered = calls

    async def _store(self, reply: turn_facts.Replied, calls: Sequence[ToolCall]) -> bool:
        """Commit a reply. A reply that was paid for is never dropped; False if it came too late to be acted on."""
        context = self.context
        if (await context.recorder.record(reply, shielded=True)).held:
            return True
        outcomes = [await self._tool_runner.too_late(call) for call in calls]
        await context.recorder.record_fenced(turn_facts.RepliedLate(reply, outcomes), context.place.id, shielded=True)
        return False

    # -- compaction ----------------------------------------------------------------------------------------------------

    async def _make_room(self, request: Request, *, alone: bool = False) -> Compaction | None:
        """Compact until the request fits; returns the compaction if it needs a summary first, unless `alone`."""
        self.context.set_activity("compacting its conversation")
        while (wanted := self._compaction.next(request)) is not None:
            if wanted.stage != "summary":
                await self._compact(wanted)
            elif alone or self._model.rehearses:
                await self._compact(*self._compaction.summary(request, wanted, "", await self._kept()))
            else:
                return wanted
        return None

    async def _summarise(self, request: Request, wanted: Compaction) -> bool:
        """Ask for a summary; if that fails, code writes an outline. False if the budget did not cover the call."""
        question = self._compaction.question(request, wanted)
        try:
            if question is not None:
                return await self._calls.ask(request, partial(self._keep_summary, wanted), question)
        except ModelError as error:
            log.warning("execution %s got no summary: %s", self.context.place.id, error)
        await self._compact(*self._compaction.summary(request, wanted, "", await self._kept()))
        return True

    async def _keep_summary(self, wanted: Compaction, reply: Reply, bill: CallUsage) -> None:
        context = self.context
        notes = Message("assistant", reply.content).text if reply.stop_reason not in ("refusal", FULL) else ""
        compaction, words = self._compaction.summary(self._request(()), wanted, notes, await self._kept())
        draft = self._draft(Message("assistant", [*words, compaction.block], "summary"))
        fact = turn_facts.Replied(context.place, context.name, context.epoch, bill.call, draft, notes, (), compaction.told)
        in_time = await self._store(fact, ())
        self._calls.voice.kept()
        context.allowance.settle_call(bill.used)
        self._shorten(compaction, words)
        if not in_time:
            raise _stopping()

    async def _compact(self, compaction: Compaction, words: Sequence[Block] = ()) -> None:
        """Store a compaction, then apply it."""
        await self._tell(Message("user", [*words, compaction.block], "compaction"), compacted=compaction.told)
        self._shorten(compaction, words)

    def _shorten(self, compaction: Compaction, words: Sequence[Block]) -> None:
        messages = self.transcript.messages
        messages[:] = view_of(messages, compaction, words, self.context.place.id)
        self._compaction.compacted(compaction, messages)

    async def _kept(self) -> Kept:
        unread = frozenset(item.result.execution_id for item in self.context.inbox.waiting if item.result is not None)
        return Kept(await self.context.children.children(), unread)

    # -- messages to the model -----------------------------------------------------------------------------------------

    async def run_tools(self) -> None:
        """Run all open calls; each has exactly one result afterwards."""
        await self._tool_runner.run(self.transcript)

    async def drain(self) -> None:
        """Show all deliveries; each is consumed in the transaction that stores the message."""
        items = self.context.inbox.waiting
        if any(item.kind == "wrap_up" for item in items):
            self.context.allowance.ask_to_wrap_up()
        message = delivery_message(items, self.context.inbox.pending)
        consumed = [item.id for item in items]
        await self._say(message, consumed)
        if self.context.inbox.spoken and not self.transcript.exhausted:
            self.context.state.final = None  # it has to answer again, with this message
        self.context.inbox.took(*consumed)

    async def remark(self, text: str) -> None:
        """Add a note to the model."""
        await self._say(Message.of_text("user", text, "note"))

    async def repeat(self, message: Message) -> None:
        """Add a recorded note once more; what it told counts as told."""
        self._countdown.told(message.data.get(LOW, ()))
        await self._say(message)

    async def ask_to_conclude(self, reason: str) -> None:
        """Ask for a conclusion."""
        if reason in EXHAUSTED:
            self.context.recorder.record_nowait(
                facts.Noticed(self.context.place, "budget.exhausted", {"what": EXHAUSTED[reason]})
            )
        await self._say(conclude_note(reason, in_form=self._agent.in_form))

    async def accepted(self, answer: Result) -> Result | None:
        """Judge an answer; None if the model was told of a fault and has to answer again."""
        self.transcript.called = frozenset(filter(self._tool_runner.knows, self.transcript.called))
        judged = judge(self._agent, answer, self.transcript, self.context.allowance.wrap_up, self.context.session)
        if isinstance(judged, Result):
            for warning in judged.metadata.get("warnings", ()):
                self._unmet(warning)
            return self._tool_runner.judged(judged)
        self._unmet(f"{judged.problem.message}; asked again")
        await self._say(Message.of_text("user", escape_blocks(judged.text), judged.kind))
        self.context.state.final = None
        return None

    def _unmet(self, message: str) -> None:
        self.context.recorder.record_nowait(facts.Noticed(self.context.place, "answer.unmet", {"message": message}))

    async def _say(self, message: Message, consumed: Sequence[str] = ()) -> None:
        await self._tell(message, consumed)
        self.transcript.append(message)

    async def _tell(
        self, message: Message, consumed: Sequence[str] = (), compacted: Mapping[str, Any] | None = None
    ) -> None:
        fact = turn_facts.Said(self.context.place, self.context.epoch, self._draft(message), consumed, compacted)
        await self.context.recorder.record_fenced(fact, self.context.place.id, shielded=True)  # shown and consumed together

    def _draft(self, message: Message) -> MessageDraft:
        draft = MessageDraft(
            id=new_id(),
            execution_id=self.context.place.id,
            position=self._positions,
            role=message.role,
            kind=message.kind,
            content=clean(to_json(message.content).decode()),
            data=to_json(message.data).decode() if message.data else None,
        )
        self._positions += 1
        return draft


def _stopping() -> Refusal:
    return Refusal("stopping", "it was stopped while its model answered", "see who stopped it: `outrider show`")
