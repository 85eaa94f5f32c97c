"""Transcripts and timelines: what was said and called in one execution, and where its time went.

Owns how rows of messages, calls and events become answers. Must not know: who asks. Invariant: a page reads the calls of
its own messages only.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from db.errors import UnknownExecution
from db.rows.reads import Reads
from server.views.records import (
    StreamEvent,
    Timeline,
    TranscriptCall,
    TranscriptMessage,
    TranscriptModelCall,
    TranscriptPage,
)
from server.views.times import spans_of, with_model_now
from server.views.trees import Trees

Row = Mapping[str, Any]

MESSAGES, EVENTS = 200, 2_000
"""The most of one page."""
RESULT = 4_000
"""Characters of a result that a page shows; `tool_call` has the whole."""


class Transcripts:
    """The inside of executions of one database."""

    def __init__(self, reads: Reads, trees: Trees) -> None:
        self._reads, self._trees = reads, trees

    async def page(self, identifier: str, start: int = 0) -> TranscriptPage:
        """The messages of one execution from a position on, each with its calls."""
        contents = self._reads.contents
        found = await contents.page_of_messages(identifier, start, MESSAGES + 1)
        shown = found[:MESSAGES]
        calls = await contents.tool_calls([identifier], [row["id"] for row in shown])
        return TranscriptPage(
            id=identifier,
            messages=messages_of(shown, calls, RESULT),
            model_calls=[model_call_of(row) for row in await self._reads.model_calls(identifier)],
            total=await contents.message_count(identifier),
            next_position=found[MESSAGES]["position"] if len(found) > MESSAGES else None,
        )

    async def tool_call(self, identifier: str) -> tuple[str, TranscriptCall] | None:
        """One call with its whole result, and the execution that made it; None if there is none."""
        row = await self._reads.contents.tool_call(identifier)
        return (row["execution_id"], call_of(row, None)) if row is not None else None

    async def timeline(self, identifier: str, after: int = 0) -> Timeline:
        """The spans and the stored events of one execution; raises UnknownExecution."""
        rows = await self._reads.outlines.some(identifier, [identifier])
        if not rows:
            raise UnknownExecution(identifier)
        row, root = rows[0], rows[0]["root_execution_id"]
        used = await self._trees.time_use([identifier], root)
        alive = row["owner"] is not None and row["owner"] not in await self._trees.gone(root)
        stretches = with_model_now(row, used.stretches.get(identifier, ()), alive=alive)
        events = await self._reads.contents.events(root, [identifier], after, EVENTS + 1)
        return Timeline(
            id=identifier,
            spans=spans_of(row, stretches, time.time()),
            events=[event_of(each) for each in events[:EVENTS]],
            next_seq=events[EVENTS - 1]["seq"] if len(events) > EVENTS else None,
        )


def messages_of(rows: Sequence[Row], calls: Iterable[Row], most: int | None) -> list[TranscriptMessage]:
    """Messages with their calls; results of at most so many characters, or whole."""
    asked: dict[str, list[TranscriptCall]] = {}
    for call in calls:
        asked.setdefault(call["message_id"], []).append(call_of(call, most))
    return [
        TranscriptMessage(
            **{name: row[name] for name in ("id", "position", "role", "kind", "created_at")},
            content=from_json(row["content"]),
            calls=asked.get(row["id"], []),
        )
        for row in rows
    ]


_CALL = ("id", "call_id", "tool", "server", "effect", "status", "error_type", "started_at", "finished_at")


def call_of(row: Row, most: int | None) -> TranscriptCall:
    """A call of its row, with its result as a whole or cut."""
    whole = row["full_result"] if row["full_result"] is not None else row["result"]
    shown = whole[:most] if whole is not None else None
    return TranscriptCall(
        **{name: row[name] for name in _CALL},
        arguments=_parsed(row["arguments"]),
        is_error=bool(row["is_error"]),
        result=shown,
        truncated=shown != whole,
        child_execution_id=row["child_execution_id"],
    )


def model_call_of(row: Row) -> TranscriptModelCall:
    """A model call of its row."""
    shown = {name: row[name] for name in TranscriptModelCall.model_fields}
    return TranscriptModelCall(**{**shown, "pricing": "rehearsed" if row["rehearsed"] else row["pricing"]})


def event_of(row: Row) -> StreamEvent:
    """An event of its row, stored or not."""
    return StreamEvent(**{name: row[name] for name in _EVENT}, payload=from_json(row["payload"]))


_EVENT = ("seq", "execution_id", "parent_execution_id", "root_execution_id", "type", "at")


def _parsed(stored: str) -> Any:
    try:
        return from_json(stored)
    except ValueError:  # a model's malformed arguments are stored as it wrote them
        return stored
