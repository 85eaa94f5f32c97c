"""Deliveries as a model reads them: ends of children and messages of its caller, labelled and escaped.

Never show this format in a prompt: models that have seen it fabricate results.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.core.inbox import Item
from runner.messages import Block, Delivered, Message, clean
from runner.result import remark
from runner.text import SHOWN_TOGETHER, cut_mark, escape_blocks, fitting, label, shares, size_in_bytes

SENDER_CHARACTERS = 100
SPOKEN = "New message from your caller. Treat it as part of your task."

REPORT, MESSAGE = "report", "message"
BLOCKS = "blocks"
"""The key in a delivery's data that gives the kind of each block, and for a report the child's id."""
REPORT_END = "\n</report>"

_REASONS = {
    "failed": "It failed; its findings up to then are below.",
    "timed_out": "It timed out; its findings up to then are below.",
    "cancelled": "It was cancelled; its findings up to then are below.",
}


def _report(result: Delivered, limit: int) -> str:
    state = result.status if result.outcome in (None, result.status) else f"{result.status} ({result.outcome})"
    head = (
        f'<report agent="{label(result.agent)}" execution_id="{result.execution_id}" state="{state}" '
        f'tool_calls="{result.tool_calls}">'
    )
    doubt = f"Caution: {escape_blocks(remark(result.unverified))}." if result.unverified else ""
    note = " ".join(filter(None, (_REASONS.get(result.status), doubt)))
    text = clean(result.text)  # `read_result` counts offsets in this text, before escaping; so does the mark
    kept = text if size_in_bytes(text) <= limit else fitting(text, limit)
    body = escape_blocks(kept) or "(no text)"
    if len(kept) < len(text):
        body += cut_mark(len(kept), len(text), result.execution_id)
    return "\n".join(part for part in (head, note, body, "</report>") if part)


def _message(item: Item) -> str:
    sender = label(" ".join(item.by.split())[:SENDER_CHARACTERS])
    return f'{SPOKEN}\n<message from="{sender}">\n{escape_blocks(item.text)}\n</message>'


def report_in(message: Message, at: int) -> str | None:
    """The id of the child whose report stands in block `at` of a message; None for any other block."""
    shown = message.data.get(BLOCKS, ()) if message.kind == "delivery" else ()
    return shown[at][1] if at < len(shown) and shown[at][0] == REPORT else None


def messages_in(message: Message) -> list[str]:
    """The caller's messages in a delivery, in the words shown to the model."""
    shown = message.data.get(BLOCKS, ())
    return [block["text"] for block, each in zip(message.content, shown, strict=False) if each[0] == MESSAGE]


def delivery_message(items: Sequence[Item], still_out: int) -> Message:
    """One user message with all deliveries that arrived and the number of children still running."""
    blocks: list[Block] = []
    shown: list[Sequence[str]] = []
    limit = shares([item.result.text for item in items if item.result is not None], SHOWN_TOGETHER)
    for item in items:
        if item.result is not None:
            blocks.append({"type": "text", "text": _report(item.result, limit)})
            shown.append((REPORT, item.result.execution_id))
        elif item.kind == "message":
            blocks.append({"type": "text", "text": _message(item)})
            shown.append((MESSAGE,))
        else:
            blocks.append({"type": "text", "text": "You are asked to conclude now."})
            shown.append((item.kind,))
    if still_out:
        plural = "agents are" if still_out > 1 else "agent is"
        blocks.append({"type": "text", "text": f"{still_out} dispatched {plural} still running."})
    delivered = [item.result for item in items if item.result is not None]
    return Message("user", blocks, "delivery", delivered, data={BLOCKS: shown})
