"""An upstream's answer as a tool result: text for the model, structure for rows, nothing dropped silently.

Owns the conversion of content blocks to text, the cuts at the caps of one result and of one turn, and their marks. Must not
know: connections or servers. Invariant: the text is clean and within the cap; the cut part is in `full_text`, up to its
own cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from runner.marks import restored
from runner.messages import Answer, clean
from runner.text import first_bytes, limit_of, size_in_bytes
from runner.tools.protocol import ToolResult

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

STORED_CAP = 10_000_000
"""The most that is kept of one result, in bytes."""
TURN_CAP = 200_000
"""The most that a model is shown of all results of one turn, in bytes, unless `max_result_bytes` allows more."""


def tool_result(answer: CallToolResult) -> ToolResult:
    """The whole answer as the result of a call."""
    structured = cleaned(answer.structured_content)
    parts = [part for part in map(_block_text, answer.content) if part]
    text = "\n".join(parts)
    if not text and structured is not None:
        text = to_json(structured).decode()
    return ToolResult(
        text=clean(text),
        is_error=bool(answer.is_error),
        structured=structured,
        error_type="tool_error" if answer.is_error else None,
        seams=tuple(accumulate(map(len, parts[1:-1]), lambda end, length: end + 1 + length, initial=len(parts[0])))
        if len(parts) > 1
        else (),
    )


def cut(result: ToolResult, call_id: str, cap: int, *, readable: bool = True) -> ToolResult:
    """The result with its text cut to the cap and, where a tool can read the rest, a mark that says how."""
    total = size_in_bytes(result.text)
    if total <= cap:
        return result
    stored = result.text if total <= STORED_CAP else first_bytes(result.text, STORED_CAP)
    lost = f", of which {size(STORED_CAP)} are kept" if total > STORED_CAP else ""
    # The marker contains its own offset, so it is measured with the longest possible number.
    handle = call_id if readable else None
    room = cap - len(_marker(total, total, lost, handle).encode())
    head = first_bytes(result.text, max(0, room))
    marker = _marker(len(head), total, lost, handle)
    return replace(result, text=head + marker, full_text=stored, mark=marker)


def within_turn(answers: Sequence[Answer]) -> Sequence[Answer]:
    """The answers of one turn, the longest cut so that all fit; rows keep them uncut.

    Deterministic: a conversation rebuilt from rows is the same.
    """
    lengths = [size_in_bytes(each.text) for each in answers]
    most = max(TURN_CAP, *lengths) if lengths else TURN_CAP
    over = sum(lengths) - most
    if over <= 0:
        return answers
    limit = limit_of(lengths, over)
    pairs = zip(answers, lengths, strict=True)
    return [each if length <= limit else _cut_for_turn(each, limit) for each, length in pairs]


def _cut_for_turn(answer: Answer, limit: int) -> Answer:
    room = limit - len(_turn_marker(limit, answer.call.id).encode())
    head = first_bytes(answer.text, max(0, room))
    return replace(answer, text=head + _turn_marker(len(restored(head)), answer.call.id))


def _turn_marker(shown: int, call_id: str) -> str:
    return (
        f"\n[cut after {shown} characters: the results of this turn are too long together. "
        f'Read on with `read_result`: execution_id "{call_id}", offset {shown}]'
    )


def _marker(shown: int, total: int, lost: str, call_id: str | None) -> str:
    read_on = (
        f'Read on with `read_result`: execution_id "{call_id}", offset {shown}' if call_id is not None else "Ask for less"
    )
    return f"\n[cut after {shown} characters; the whole is {size(total)}{lost}. {read_on}]"


def _block_text(block: ContentBlock) -> str:
    """One block as text; anything but text by its name and size."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type} {block.mime_type}, {size(len(block.data) * 3 // 4)}]"
        case "resource_link":
            return f"[link to {block.name}: {block.uri}]"
        case "resource":
            resource = block.resource
            text = getattr(resource, "text", None)
            if isinstance(text, str):
                return f"[resource {resource.uri}]\n{text}"
            blob = getattr(resource, "blob", "")
            return f"[resource {resource.uri} {resource.mime_type or 'of unknown type'}, {size(len(blob) * 3 // 4)}]"


def cleaned(value: Any) -> Any:
    """A JSON value whose texts any store and API accepts."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(str(key)): cleaned(item) for key, item in value.items()}
    return value


def size(count: int) -> str:
    """A number of bytes for people."""
    if count < 1000:
        return f"{count} bytes"
    if count < 1_000_000:
        return f"{count / 1000:.0f} kB"
    return f"{count / 1_000_000:.1f} MB"
