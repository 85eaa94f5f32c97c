"""Rebuilds a transcript from rows, wherever it was cut.

Owns the way back from rows to what a model is shown. Invariant: whatever prefix of an execution's writes was committed, the
Messages API accepts the transcript once its open calls have run. Each call is answered exactly once. A call with an
unknown outcome is shown as unknown, never as safe to repeat.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import from_json

from db.rows.reads import Record
from runner.compaction.apply import Compaction, view_of
from runner.core.history import History, TranscriptRows
from runner.core.views import TOKENS
from runner.messages import CORRECTION, REMINDER, Answer, Message, Role, ToolCall, tool_results
from runner.record.old_messages import data_of, summary_record
from runner.result import WRITING, Artifact, Result, file_artifact
from runner.strategies.loop.notes import REASON
from runner.strategies.loop.transcript import Transcript
from runner.tools.builtin import SERVER
from runner.tools.effects import NOT_BEGUN, cut_short, may_repeat
from runner.tools.finish import NAME as FINISH
from runner.tools.finish import reported
from runner.tools.upstream.content import within_turn

LOST = "lost"
"""The pricing of a model call whose reply was never received."""

NOT_CARRIED_OUT = "error: this call was not carried out"


@dataclass(slots=True)
class Rebuilt:
    """The restored state of a conversation."""

    transcript: Transcript = field(default_factory=Transcript)
    positions: int = 0
    """The number of its own stored messages."""
    final: Result | None = None
    """The report of `finish`."""
    concluding: str | None = None
    """Why a conclusion was asked for, if it was."""
    rehearsed: bool = False
    counted: tuple[int, int] = (0, 0)
    """Tokens of the conversation up to its newest reply, and the number of messages that includes."""
    limit: int | None = None
    """The compaction threshold in tokens, if the conversation was compacted."""

    @property
    def was_asking(self) -> bool:
        """Whether a model call may have been in flight, as far as rows tell."""
        return not self.transcript.unanswered and not self.transcript.resting


def rebuild(history: History, citable: Container[str]) -> Rebuilt:
    """Rebuild the conversation from rows; results of `citable` servers can be cited."""
    rebuilt = Rebuilt()
    for chapter in history.transcripts:
        rebuilt.final = rebuilt.concluding = rebuilt.limit = None  # these belong to the execution before
        _Reading(rebuilt, history, chapter, citable).read()
    rebuilt.positions = max((row["position"] for row in history.own.messages), default=-1) + 1
    rebuilt.transcript.final = rebuilt.final
    return rebuilt


class _Reading:
    """Reads the rows of one execution into a transcript."""

    def __init__(self, rebuilt: Rebuilt, history: History, chapter: TranscriptRows, citable: Container[str]) -> None:
        self._rebuilt, self._past, self._chapter, self._citable = rebuilt, history, chapter, citable
        self._transcript = rebuilt.transcript
        self._replies = iter([row for row in chapter.model_calls if row["pricing"] != LOST])
        self._shown: dict[str, list[Record]] = {}
        for row in chapter.deliveries:
            self._shown.setdefault(row["consumed_by"] or "", []).append(row)
        self._calls: dict[str, dict[str, Record]] = {}
        for row in chapter.tool_calls:
            self._calls.setdefault(row["message_id"], {})[row["call_id"]] = row

    def read(self) -> None:
        for row in self._chapter.messages:
            if row["kind"] in ("compaction", "summary"):
                self._compacted(row)
            elif row["role"] == "assistant":
                self._reply(row)
            else:
                self._said(row)

    def _said(self, row: Record) -> None:
        if row["kind"] == "task" and row["position"] > 0:
            self._begin_again()
        told = [self._past.item(each) for each in self._shown.get(row["id"], ())]
        content = from_json(row["content"])
        reports = [item.result for item in told if item.result is not None]
        data = data_of(row)
        self._transcript.append(Message("user", content, row["kind"], reports, data=data))
        spoken = any(item.kind == "message" for item in told) and not self._transcript.exhausted
        if spoken or row["kind"] in (REMINDER, CORRECTION):
            self._rebuilt.final = self._transcript.final = None  # it has to answer again, with this message
        if row["kind"] == "conclude":
            self._rebuilt.concluding = data.get(REASON, "asked")

    def _begin_again(self) -> None:
        """Start another attempt: nothing of the one before is shown."""
        self._rebuilt.transcript = self._transcript = Transcript()
        self._rebuilt.final = self._rebuilt.concluding = None
        self._rebuilt.counted, self._rebuilt.limit = (0, 0), None

    def _compacted(self, row: Record) -> None:
        """Apply a stored compaction."""
        if row["kind"] == "summary":
            next(self._replies, None)
        *words, decided = from_json(row["content"])
        compaction, messages = Compaction.of_block(decided), self._transcript.messages
        if compaction.stage in ("summary", "outline") and not compaction.record:
            compaction = replace(compaction, record=summary_record([block["text"] for block in words]))
        messages[:] = view_of(messages, compaction, words, self._chapter.execution)
        self._rebuilt.counted, self._rebuilt.limit = (compaction.after_tokens, len(messages)), compaction.limit

    def _reply(self, row: Record) -> None:
        call: Mapping[str, Any] = next(self._replies, {"stop_reason": "end_turn", "model": None, "rehearsed": 0})
        self._rebuilt.rehearsed = self._rebuilt.rehearsed or bool(call["rehearsed"])
        if row["kind"] in ("refusal", "overflow"):
            return
        role: Role = "assistant"
        message = Message(role, from_json(row["content"]), "reply", model=call["model"])
        self._transcript.append(message, call["stop_reason"] or "end_turn")
        self._rebuilt.counted = sum(call.get(name, 0) for name in TOKENS), len(self._transcript.messages)
        asked = message.read_calls(call["stop_reason"] or "")
        self._transcript.call_ids.update(each.id for each in asked)
        self._answer(asked, self._calls.get(row["id"], {}))

    def _answer(self, asked: Sequence[ToolCall], rows: Mapping[str, Record]) -> None:
        """Pair each call with its result. An unfinished call stays open in the last reply of this execution; one of an
        earlier execution gets an error, because nothing settles it any more.
        """
        answers: dict[str, Answer] = {}
        open_: list[ToolCall] = []
        for each in asked:
            row = rows.get(each.id)
            if row is None:
                answers[each.id] = Answer(each, NOT_CARRIED_OUT, is_error=True)
            elif row["finished_at"] is not None:
                answers[each.id] = Answer(each, row["result"] or "", bool(row["is_error"]), row["server"] in self._citable)
                self._finish(row)
            elif self._chapter is not self._past.own:
                cut = NOT_BEGUN if row["status"] == "waiting" else cut_short(row["effect"])
                answers[each.id] = Answer(each, cut.text, is_error=True)
            else:
                open_.append(_left_open(each, row))
        self._transcript.unanswered, self._transcript.answers = open_, answers
        if asked and not open_:
            self._transcript.append(tool_results(within_turn(list(answers.values()))))

    def _finish(self, row: Record) -> None:
        if row["tool"] == FINISH and row["server"] == SERVER and not row["is_error"]:
            self._rebuilt.final = self._transcript.final = reported(from_json(row["arguments"]))


def _left_open(call: ToolCall, row: Record) -> ToolCall:
    """A call without a result, marked with how resuming settles it."""
    begun = row["status"] == "started" and not may_repeat(row["effect"])
    held = "gate" if row["status"] == "waiting" else "repeat" if begun and row["effect"] == "ask" else ""
    return replace(call, row=row["id"], lost=begun and not held, held=held)


def written_before(history: History) -> list[Artifact]:
    """The files that were written, by rows, by this execution and those that it continues."""
    return [
        file_artifact(from_json(row["result"])["written"])
        for chapter in history.transcripts
        for row in chapter.tool_calls
        if row["tool"] in WRITING and row["server"] == SERVER and row["status"] == "completed"
    ]
