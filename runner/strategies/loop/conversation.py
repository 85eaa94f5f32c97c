"""The conversation of one execution with its model: every turn is stored before anything follows from it.

Owns the transcript and its rows. `runner/strategies/loop/tool_calls.py` runs tool calls;
`runner/strategies/loop/step.py` decides what comes next.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic_core import to_json

from db.ids import new_id
from db.rows.transcript import MessageDraft
from registry import AgentSpec
from runner.compaction.apply import Compaction, view_of
from runner.compaction.policy import Headroom, Measure
from runner.compaction.summary import Kept
from runner.core.history import Past
from runner.errors import Refusal, ServerMissing
from runner.llm.protocol import ModelError, Reply, Request
from runner.messages import FULL, Block, Message, Tool, ToolCall, clean, distinct, tool_results
from runner.prompt.deliveries import delivery_message
from runner.prompt.system import PromptParts, system_prompt
from runner.prompt.user_parts import Personal
from runner.record import facts, turn_facts
from runner.record.facts import Failed
from runner.record.old_messages import data_of
from runner.result import TOOL_UNAVAILABLE, Result
from runner.roles import STEADY
from runner.strategies.context import Work
from runner.strategies.loop.acceptance import judge
from runner.strategies.loop.model_calls import Calls, bill_of
from runner.strategies.loop.notes import LOW, Countdown, conclude_note, countdown_note
from runner.strategies.loop.rebuild import recall, written_before
from runner.strategies.loop.required_servers import RequiredServers
from runner.strategies.loop.tool_calls import Errands
from runner.strategies.loop.transcript import Transcript
from runner.text import inert
from runner.tools.upstream.content import within_turn

log = logging.getLogger("outrider.conversation")

EXHAUSTED = {"time_budget": "seconds", "max_iterations": "turns", "token_budget": "tokens", "cost_budget": "usd"}
"""The exhausted resource, by the reason of a conclusion."""


class Conversation:
    """The transcript of one execution and the calls that extend it."""

    __slots__ = (
        "_agent", "_calls", "_countdown", "_errands", "_files", "_headroom", "_instructions", "_model", "_personal",
        "_positions", "_required", "_spec", "_system", "_tools", "transcript", "work",
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
        self._files = ""
        self._tools: Sequence[Tool] = ()
        self._positions = 0
        self._required = RequiredServers(work.name, work.settings.required_servers(self._agent))
        self._errands = Errands(work, self._agent.mcp_servers, self._required)
        self._countdown = Countdown(work.allowance)
        measure = Measure()
        self._calls = Calls(work, self._spec, measure)
        models = (self._spec, *(work.settings.models[name] for name in self._spec.fallback))
        self._headroom = Headroom(self._agent.context.compact_at, models, measure)

    def restore(self, past: Past) -> str | None:
        """Restore the transcript from rows; returns the reason if a conclusion had been asked for."""
        recalled = recall(past, self._agent.mcp_servers)
        self.transcript, self._positions = recalled.transcript, recalled.positions
        self.work.state.final, self.work.state.rehearsed = recalled.final, recalled.rehearsed
        self.work.state.artifacts = written_before(past)
        self._required.restore(past.own.tool_calls)
        self._headroom.restore(recalled.counted, recalled.limit)
        self._calls.lost = recalled.was_asking and self.work.epoch > 1 and not past.waited
        notes = [data_of(row) for row in past.own.messages if row["kind"] == "note"]
        self._countdown.told(what for note in notes for what in note.get(LOW, ()))
        return recalled.concluding

    async def open(self) -> None:
        """List the tools; the first message is stored already."""
        work = self.work
        if not self.transcript.messages:
            self._positions = 1
            self.transcript.append(Message.of_text("user", work.prompt, "task"))
        if work.toolbox is not None:
            work.set_activity("loading its tools")
            self._tools = await work.toolbox.tools.list_tools()
            self._need(self._required.listed(self._tools, work.toolbox.unavailable))
            self._instructions = await work.sources.server_instructions()
        self._personal = await work.sources.personal()
        if self._agent.context.level is not None:
            self._files = await work.sources.files(self._personal)
        if self._calls.limited:
            self._calls.keep(self._request(()))

    def _need(self, missing: ServerMissing | None) -> None:
        """Refuse to start without a required server; an execution that has started continues with a warning."""
        work = self.work
        if missing is None:
            return
        if work.allowance.own.turns == work.allowance.earlier_turns:
            raise missing
        work.warnings.append(str(missing))
        where = {"session_id": work.session, "subagent": work.name, "server": missing.server}
        work.recorder.record_nowait(Failed(work.place, work.name, TOOL_UNAVAILABLE, str(missing), "medium", where))

    def _scene(self) -> str:
        """The system prompt; rendered at the first call, when tools and instructions are known."""
        if not self._system:
            work = self.work
            unavailable = work.toolbox.unavailable if work.toolbox is not None else {}
            parts = PromptParts(
                agent=self._agent,
                name=work.name,
                role=work.role,
                catalogue=work.catalogue,
                roster=work.briefing.roster,
                brief=work.briefing.instructions,
                personal=self._personal,
                files=self._files,
                workspaces=self._agent.workspaces if work.toolbox is not None else (),
                server_instructions=self._instructions,
                unavailable=unavailable,
                session=work.session,
            )
            text = work.sources.mask(system_prompt(parts))
            self._system = sys.intern(text)  # a thousand agents of one kind share one text
        return self._system

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def ask(self) -> bool:
        """Make one model call with tools; on return its reply, usage and tool calls are committed.

        The call ends without a reply when the wrap-up begins. False if the budget did not cover it and it was not made.
        """
        await self._errands.stored()
        await self._count_down()
        self.work.set_activity("asking the model")
        request = self._request(self._tools)
        await self._calls.lose(request)
        if self._headroom.short(request) and (wanted := await self._make_room(request)) is not None:
            return await self._summarise(request, wanted)  # a turn of its own: the loop decides again after it
        try:
            return await self._calls.ask(request, self._keep)
        except ModelError as error:
            if not self._headroom.overflows(error, self.transcript.messages):
                raise
        return True  # the request was too long: the next one is compacted

    async def conclude(self) -> None:
        """Make one last model call without tools; none if the budget does not cover it."""
        await self._errands.stored()
        self.work.set_activity("concluding")
        await self._calls.lose(self._request(()))
        if not await self._conclude():
            await self._conclude()

    async def _conclude(self) -> bool:
        """False if the conversation was too long and a second try is compacted further."""
        request, messages = self._request(()), self.transcript.messages
        if self._headroom.short(request):
            await self._make_room(request, alone=True)
        try:
            if not await self._calls.conclude(request, messages, self._keep_conclusion):
                self.transcript.unpaid = self.work.allowance.wrap_up
                return True
        except ModelError as error:
            if not self._headroom.overflows(error, messages):
                raise
        return not self._headroom.tried

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
            caller=work.node.path[-2] if len(work.node.path) > 1 else "",
            session=work.session,
            waits=bool(work.catalogue),
            steady=work.role in STEADY,
            max_tokens=self._agent.max_tokens,
            on_attempt=self._calls.attempting,
        )

    async def _count_down(self) -> None:
        """Tell the model which limits run low, once each; not within a reply that the provider wants back."""
        if self.transcript.messages[-1].role == "user" and (low := self._countdown.news()):
            for each in low:
                told = {"what": each.what, "left": round(each.left, 6), "limit": each.limit}
                self.work.recorder.record_nowait(facts.Noticed(self.work.place, "budget.low", told))
            await self._say(countdown_note(low))

    async def _keep_conclusion(self, reply: Reply, started: str) -> None:
        await self._keep(reply, started, may_call=False)

    async def _keep(self, reply: Reply, started: str, *, may_call: bool = True) -> None:
        work, bill = self.work, bill_of(self.work, self._spec, reply, self._calls.voice.id, started)
        refused, full = reply.stop_reason == "refusal", reply.stop_reason == FULL
        carries_out = may_call and not refused and not full
        void = full and self._headroom.overflow(self.transcript.messages)  # it is asked for again after compaction
        content = distinct(reply.content, self.transcript.call_ids)
        if not carries_out:  # a call without a result must not be sent back
            content = [block for block in content if block["type"] != "tool_use"]
        kind = "refusal" if refused else "overflow" if void else "reply"
        message = Message("assistant", content, kind, model=reply.model)
        draft = self._draft(message)
        calls = [replace(each, row=new_id()) for each in message.calls(reply.stop_reason)]
        starts = [self._errands.start_of(each, draft.id, position) for position, each in enumerate(calls)]
        fact = turn_facts.Replied(work.place, work.name, work.epoch, bill.call, draft, message.text, starts)
        in_time = await self._store(fact, calls)
        self._calls.voice.kept()
        work.state.rehearsed = work.state.rehearsed or reply.rehearsed
        work.allowance.settle_call(bill.used)
        if refused:
            hint = "reword the task, or give it to an agent with another model"
            raise ModelError("refused", f"`{reply.model}` declined to answer", hint)
        if not void:
            self.transcript.append(message, reply.stop_reason)
            self._headroom.replied(bill.used.tokens, len(self.transcript.messages))
        if not in_time:
            raise _stopping()
        self.transcript.unanswered = calls

    async def _store(self, reply: turn_facts.Replied, calls: Sequence[ToolCall]) -> bool:
        """Commit a reply. A reply that was paid for is never dropped; False if it came too late to be acted on."""
        work = self.work
        if (await work.recorder.record(reply, shielded=True)).held:
            return True
        outcomes = [await self._errands.too_late(call) for call in calls]
        await work.recorder.record_fenced(turn_facts.RepliedLate(reply, outcomes), work.place.id, shielded=True)
        return False

    # -- compaction ----------------------------------------------------------------------------------------------------

    async def _make_room(self, request: Request, *, alone: bool = False) -> Compaction | None:
        """Compact until the request fits; returns the compaction if it needs a summary first, unless `alone`."""
        self.work.set_activity("compacting its conversation")
        while (wanted := self._headroom.next(request)) is not None:
            if wanted.stage != "summary":
                await self._compact(wanted)
            elif alone or self._model.rehearses:
                await self._compact(*self._headroom.summary(request, wanted, "", await self._kept()))
            else:
                return wanted
        return None

    async def _summarise(self, request: Request, wanted: Compaction) -> bool:
        """Ask for a summary; if that fails, code writes an outline. False if the budget did not cover the call."""
        question = self._headroom.question(request, wanted)
        try:
            if question is not None:
                return await self._calls.ask(request, partial(self._keep_summary, wanted), question)
        except ModelError as error:
            log.warning("execution %s got no summary: %s", self.work.place.id, error)
        await self._compact(*self._headroom.summary(request, wanted, "", await self._kept()))
        return True

    async def _keep_summary(self, wanted: Compaction, reply: Reply, started: str) -> None:
        work, bill = self.work, bill_of(self.work, self._spec, reply, self._calls.voice.id, started)
        notes = Message("assistant", reply.content).text if reply.stop_reason not in ("refusal", FULL) else ""
        compaction, words = self._headroom.summary(self._request(()), wanted, notes, await self._kept())
        draft = self._draft(Message("assistant", [*words, compaction.block], "summary"))
        fact = turn_facts.Replied(work.place, work.name, work.epoch, bill.call, draft, notes, (), compaction.told)
        in_time = await self._store(fact, ())
        self._calls.voice.kept()
        work.allowance.settle_call(bill.used)
        self._shorten(compaction, words)
        if not in_time:
            raise _stopping()

    async def _compact(self, compaction: Compaction, words: Sequence[Block] = ()) -> None:
        """Store a compaction, then apply it."""
        await self._tell(Message("user", [*words, compaction.block], "compaction"), compacted=compaction.told)
        self._shorten(compaction, words)

    def _shorten(self, compaction: Compaction, words: Sequence[Block]) -> None:
        messages = self.transcript.messages
        messages[:] = view_of(messages, compaction, words, self.work.place.id)
        self._headroom.compacted(compaction, messages)

    async def _kept(self) -> Kept:
        unread = frozenset(item.result.execution_id for item in self.work.inbox.waiting if item.result is not None)
        return Kept(await self.work.children.children(), unread)

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def run_tools(self) -> None:
        """Run all open calls in parallel. Whatever happens, each has exactly one result afterwards."""
        calls, answers = self.transcript.unanswered, dict(self.transcript.answers)
        asked = self.transcript.messages[-1].tool_calls
        try:
            await self._errands.run(calls, answers)
        finally:
            self.transcript.append(tool_results(within_turn([answers[call.id] for call in asked])))

    # -- messages to the model -----------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Show all deliveries; each is consumed in the transaction that stores the message."""
        items = self.work.inbox.waiting
        if any(item.kind == "wrap_up" for item in items):
            self.work.allowance.ask_to_wrap_up()
        message = delivery_message(items, self.work.inbox.pending)
        consumed = [item.id for item in items]
        await self._say(message, consumed)
        if self.work.inbox.spoken and not self.transcript.exhausted:
            self.work.state.final = None  # it has to answer again, with this message
        self.work.inbox.took(*consumed)

    async def remark(self, text: str) -> None:
        """Add a note to the model."""
        await self._say(Message.of_text("user", text, "note"))

    async def ask_to_conclude(self, reason: str) -> None:
        """Ask for a conclusion."""
        if reason in EXHAUSTED:
            self.work.recorder.record_nowait(
                facts.Noticed(self.work.place, "budget.exhausted", {"what": EXHAUSTED[reason]})
            )
        await self._say(conclude_note(reason, in_form=self._agent.in_form))

    async def accepted(self, answer: Result) -> Result | None:
        """Judge an answer; None if the model was told of a fault and has to answer again."""
        self.transcript.called = {name for name in self.transcript.called if self._errands.knows(name)}
        judged = judge(self._agent, answer, self.transcript, self.work.allowance.wrap_up, self.work.session)
        if isinstance(judged, Result):
            for warning in judged.metadata.get("warnings", ()):
                self._unmet(warning)
            return self._required.judged(judged)
        self._unmet(f"{judged.problem.message}; asked again")
        await self._say(Message.of_text("user", inert(judged.text), judged.kind))
        self.work.state.final = None
        return None

    def _unmet(self, message: str) -> None:
        self.work.recorder.record_nowait(facts.Noticed(self.work.place, "answer.unmet", {"message": message}))

    async def _say(self, message: Message, consumed: Sequence[str] = ()) -> None:
        await self._tell(message, consumed)
        self.transcript.append(message)

    async def _tell(
        self, message: Message, consumed: Sequence[str] = (), compacted: Mapping[str, Any] | None = None
    ) -> None:
        fact = turn_facts.Said(self.work.place, self.work.epoch, self._draft(message), consumed, compacted)
        await self.work.recorder.record_fenced(fact, self.work.place.id, shielded=True)  # shown and consumed together

    def _draft(self, message: Message) -> MessageDraft:
        draft = MessageDraft(
            id=new_id(),
            execution_id=self.work.place.id,
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
