"""What is answered about the inside of an execution: transcript, calls, timeline; and the bundle of a whole tree.

Owns these shapes; `server/web/static/js/types.js` is the same for the page. Columns come from the tables' row classes. Must
not know: where the values come from, or who asks.
"""

from __future__ import annotations

from typing import Any

from db.tables import EventRow, MessageRow, ModelCallRow, ToolCallRow
from server.views.answers import ExecutionDetail, ExecutionTree, SpanKind
from server.views.columns import ViewModel, picked

BUNDLE_FORMAT, BUNDLE_VERSION = "outrider-bundle", 1


class TimeSpan(ViewModel):
    """One stretch of the time of an execution."""

    kind: SpanKind
    started_at: str
    finished_at: str | None
    """None while it lasts."""
    label: str
    """The model or the tool."""
    ref: str | None
    """The row id of the model call, tool call or approval."""
    is_error: bool


class StreamEvent(picked(EventRow, "execution_id", "parent_execution_id", "root_execution_id", "type", "at")):  # type: ignore[misc]
    """An event. A stored one has a number."""

    seq: int | None
    payload: dict[str, Any]


class Timeline(ViewModel):
    """Where the time of one execution went, and its stored events."""

    id: str
    spans: list[TimeSpan]
    events: list[StreamEvent]
    next_seq: int | None


_CALL = picked(
    ToolCallRow,
    *("id", "call_id", "tool", "server", "effect", "status", "error_type", "result", "started_at", "finished_at"),
)


class TranscriptCall(_CALL):  # type: ignore[misc, valid-type]
    """A tool call and, once it has one, its result."""

    arguments: Any
    is_error: bool
    truncated: bool
    """The result is cut here."""
    child_execution_id: str | None
    """The execution it started."""


class TranscriptMessage(picked(MessageRow, "id", "position", "role", "kind", "created_at")):  # type: ignore[misc]
    """A message, with the calls it asked for."""

    content: list[dict[str, Any]]
    calls: list[TranscriptCall]


_MODEL_CALL = picked(
    ModelCallRow,
    *("id", "turn", "model", "stop_reason", "pricing", "input_tokens", "output_tokens", "cache_read_tokens"),
    *("cache_write_tokens", "cost_usd", "started_at", "finished_at"),
)


class TranscriptModelCall(_MODEL_CALL):  # type: ignore[misc, valid-type]
    """A call of the model."""


class TranscriptPage(ViewModel):
    """The transcript of an execution from a position on."""

    id: str
    messages: list[TranscriptMessage]
    model_calls: list[TranscriptModelCall]
    total: int
    """Messages in all."""
    next_position: int | None
    """The position to go on from."""


class ErrorPage(ViewModel):
    """Recorded errors, last seen first."""

    errors: list[dict[str, Any]]
    """As `outrider errors --json` has them."""
    next_cursor: str | None


class ArtifactList(ViewModel):
    """The artifacts of a result."""

    artifacts: list[dict[str, Any]]


class Bundle(ViewModel):
    """Everything about one tree."""

    format: str = BUNDLE_FORMAT
    version: int = BUNDLE_VERSION
    id: str
    written_at: str | None
    """When it was written, if the tree had not ended: its times go on until then."""
    tree: ExecutionTree
    executions: dict[str, ExecutionDetail]
    transcripts: dict[str, TranscriptPage]
    """Whole, by id of the execution."""
    timelines: dict[str, Timeline]
    """Whole, by id of the execution."""
    recording: dict[str, Any] | None = None
    """For a replay; only of a whole tree that has ended."""
    digests: dict[str, Any] | None = None
    """Of each execution in each part, with the recording: a replay finds what was changed in the file."""
