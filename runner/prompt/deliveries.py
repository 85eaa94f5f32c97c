"""How the end of a child, or a message from somebody, is put before a model: labelled, escaped, never as control flow.

No prompt shows this form: a model that knows it writes results of its own invention.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.core.inbox import Item
from runner.messages import Block, Delivered, Message, clean
from runner.result import remark
from runner.text import SHOWN_TOGETHER, cut_mark, fitting, inert, label, shares, size_in_bytes

SENDER_CHARACTERS = 100
SPOKEN = "Whoever you work for has something to say meanwhile. It counts as much as your task: follow it from here on."

REPORT, MESSAGE = "report", "message"
BLOCKS = "blocks"
"""In the data of a delivery: what each of its blocks is, a report with its child's id."""
REPORT_END = "\n</report>"

_REASONS = {
    "failed": "It failed; what it found before is below.",
    "timed_out": "Its time ran out; what it found before is below.",
    "cancelled": "It was stopped; what it found before is below.",
}


def _report(result: Delivered, limit: int) -> str:
    state = result.status if result.outcome in (None, result.status) else f"{result.status} ({result.outcome})"
    head = (
        f'<report agent="{label(result.agent)}" execution_id="{result.execution_id}" state="{state}" '
        f'tool_calls="{result.tool_calls}">'
    )
    doubt = f"Take care: {inert(remark(result.unverified))}." if result.unverified else ""
    note = " ".join(filter(None, (_REASONS.get(result.status), doubt)))
    text = clean(result.text)  # as it is read on: the mark counts its characters, not those that make it inert
    kept = text if size_in_bytes(text) <= limit else fitting(text, limit)
    body = inert(kept) or "(no text)"
    if len(kept) < len(text):
        body += cut_mark(len(kept), len(text), result.execution_id)
    return "\n".join(part for part in (head, note, body, "</report>") if part)


def _message(item: Item) -> str:
    sender = label(" ".join(item.by.split())[:SENDER_CHARACTERS])
    return f'{SPOKEN}\n<message from="{sender}">\n{inert(item.text)}\n</message>'


def report_in(message: Message, at: int) -> str | None:
    """The child whose report a block of a message is, if it is one."""
    shown = message.data.get(BLOCKS, ()) if message.kind == "delivery" else ()
    return shown[at][1] if at < len(shown) and shown[at][0] == REPORT else None


def messages_in(message: Message) -> list[str]:
    """The messages of its caller that a delivery shows, as it shows them."""
    shown = message.data.get(BLOCKS, ())
    return [block["text"] for block, each in zip(message.content, shown, strict=False) if each[0] == MESSAGE]


def delivery_message(items: Sequence[Item], still_out: int) -> Message:
    """One user message that shows everything that arrived, and says how many children are still at work."""
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
            blocks.append({"type": "text", "text": "You are asked to come to a conclusion now."})
            shown.append((item.kind,))
    if still_out:
        plural = "agents are" if still_out > 1 else "agent is"
        blocks.append({"type": "text", "text": f"{still_out} dispatched {plural} still at work."})
    delivered = [item.result for item in items if item.result is not None]
    return Message("user", blocks, "delivery", delivered, data={BLOCKS: shown})
