"""Shortening: cut the newest results and reports, so that the budget covers a conclusion from them.

Only results and reports after the model's last reply are cut; rows keep the full texts. It knows no budget.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.messages import Block, Message
from runner.text import MARK, first_bytes, limit_of, size_in_bytes

_CUT = frozenset({"results", "delivery"})


def shorten(messages: list[Message], size: int) -> None:
    """Remove at least `size` bytes, if there are as many, from the longest of the newest texts."""
    newest = next((at for at in range(len(messages), 0, -1) if messages[at - 1].role == "assistant"), 0)
    places = [at for at in range(newest, len(messages)) if messages[at].kind in _CUT]
    lengths = [size_in_bytes(text) for at in places for block in messages[at].content for text in _texts(block)]
    limit = limit_of(lengths, size)
    for at in places:
        old = messages[at]
        content = [_shortened(block, limit) for block in old.content]
        messages[at] = Message("user", content, old.kind, old.delivered)


def _texts(block: Block) -> Iterator[str]:
    """The texts of a block that may be cut: a report, or the first part of a result (the second is our mark)."""
    if block["type"] == "text":
        yield block["text"]
    elif block["type"] == "tool_result":
        content = block["content"]
        yield content if isinstance(content, str) else content[0]["text"]


def _shortened(block: Block, limit: int) -> Block:
    if block["type"] == "text":
        return {**block, "text": _cut(block["text"], limit)}
    if block["type"] != "tool_result":
        return block
    content = block["content"]
    if isinstance(content, str):
        return {**block, "content": _cut(content, limit)}
    first, *rest = content
    return {**block, "content": [{**first, "text": _cut(first["text"], limit)}, *rest]}


def _cut(text: str, limit: int) -> str:
    return text if size_in_bytes(text) <= limit else first_bytes(text, limit) + MARK
