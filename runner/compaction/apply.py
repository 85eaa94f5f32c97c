"""Applying compaction: the part of a long conversation that its model sees. Pure: messages and a decision give fewer words.

Owns the decision as stored in rows, and three ways to shorten: a mark replaces old results, a summary replaces old
messages, and overlong texts are cut. Rows keep everything; only the view is shortened, so the same decisions read from rows
give the same view. Invariants: a call and its result stay or go together; replies stay unchanged; tasks stay; messages
after the model's last reply are at most cut. It knows neither models nor their windows.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from runner.marks import restored
from runner.messages import Block, Message, size_of
from runner.prompt.deliveries import REPORT_END, report_in
from runner.snapshot import DISPATCH
from runner.text import CUT, length_before_cut
from runner.tools.dispatch import GET_RESULT, LIST, WAIT_FOR

TURNS_KEPT = 3
"""The newest turns, which stay whole as long as older ones can be shortened."""
WORTH_REMOVING = 400
"""Characters; a mark would save little for a shorter text."""
LEAST = 1000
"""Characters that always remain of a text."""

Stage = Literal["results", "summary", "outline", "cut"]

_ABOUT_CHILDREN = frozenset({GET_RESULT, WAIT_FOR, LIST})


@dataclass(frozen=True, slots=True)
class Compaction:
    """One compaction decision: with the words of a summary, it is enough to rebuild the same view."""

    stage: Stage
    before_tokens: int
    after_tokens: int = 0
    limit: int = 0
    """Tokens at which the next compaction is due."""
    readable: bool = True
    """Whether its agent has a tool to read removed texts."""
    removed: tuple[str, ...] = ()
    """Stage `results`: ids of calls and children replaced by marks."""
    kept: int = 0
    """Summary: number of newest messages that stay."""
    longest: int = 0
    """Stage `cut`: the maximum characters of a text."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """Summary, as data: its notes, the calls it names by id, and those that were cited."""

    @property
    def told(self) -> dict[str, Any]:
        """The payload of its event."""
        return {"stage": self.stage, "before_tokens": self.before_tokens, "after_tokens": self.after_tokens}

    @property
    def block(self) -> Block:
        """The last block of its row; never sent to an API."""
        return {"type": "compaction", **asdict(self)}

    @classmethod
    def of_block(cls, block: Mapping[str, Any]) -> Compaction:
        """The decision in a row; fields of later versions are ignored."""
        known = {field.name: block[field.name] for field in fields(cls) if field.name in block}
        return cls(**{**known, "removed": tuple(known.get("removed", ()))})


def view_of(
    messages: Sequence[Message], compaction: Compaction, words: Sequence[Block] = (), handle: str = ""
) -> list[Message]:
    """The messages as shown after the decision. `words` are those of a summary, `handle` is the execution's id."""
    match compaction.stage:
        case "results":
            return [_without(each, frozenset(compaction.removed), readable=compaction.readable) for each in messages]
        case "summary" | "outline":
            head = messages[: len(messages) - compaction.kept]
            tasks = [each for each in head if each.kind == "task"]
            return [*tasks, Message("user", list(words), "summary", data=compaction.record), *messages[len(head) :]]
        case "cut":
            newest = max((at for at, each in enumerate(messages) if each.kind == "task"), default=0)
            handles = [handle if at == newest and compaction.readable else "" for at in range(len(messages))]
            return [_cut(each, compaction, own) for each, own in zip(messages, handles, strict=True)]


# -- what is old -------------------------------------------------------------------------------------------------------


def _turns(messages: Sequence[Message]) -> list[int]:
    """The indexes of replies to our messages: a cut before one separates no call from its result."""
    return [at for at in range(1, len(messages)) if messages[at].role == "assistant" and messages[at - 1].role == "user"]


def old_results(messages: Sequence[Message], *, reports: bool) -> tuple[str, ...]:
    """The calls whose results can be removed, oldest first; with `reports` also the reports of children.

    Never the answer to a dispatch: it holds the child's id.
    """
    turns = _turns(messages)
    old = messages[: turns[-TURNS_KEPT] if len(turns) >= TURNS_KEPT else 0]
    names = {call.id: call.name for message in old for call in message.tool_calls}
    spared = {DISPATCH} if reports else {DISPATCH, *_ABOUT_CHILDREN}
    found: list[str] = []
    for message in old:
        for identifier, text in _removable(message, reports=reports):
            if len(text) > WORTH_REMOVING and names.get(identifier) not in spared:
                found.append(identifier)
    return tuple(found)


def _removable(message: Message, *, reports: bool) -> Iterator[tuple[str, str]]:
    if message.kind == "results":
        yield from ((block["tool_use_id"], text_of(block)) for block in message.content)
    elif message.kind == "delivery" and reports:
        for at, block in enumerate(message.content):
            if (child := report_in(message, at)) is not None:
                yield child, block["text"]


def head_of(messages: Sequence[Message], room: int) -> int:
    """How many of the first messages a summary can replace: the newest turns that fit the room stay, at least one. 0 if
    there is no earlier reply."""
    turns = _turns(messages)
    for count in range(min(TURNS_KEPT, len(turns) - 1), 0, -1):
        if count == 1 or size_of(messages[turns[-count] :]) <= room:
            return turns[-count]
    return 0


# -- marks -------------------------------------------------------------------------------------------------------------


def text_of(block: Block) -> str:
    """The text of a tool result, without our mark after it."""
    content = block["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def _again(identifier: str, offset: int = 0) -> str:
    at = f", offset={offset}" if offset else ""
    return f"; read_result(execution_id={identifier!r}{at}) {'continues' if offset else 'shows it'}"


def _removed(what: str, text: str, again: str) -> str:
    return f"[{what} removed to save room: {len(text)} characters{again}]"


def _without(message: Message, removed: Container[str], *, readable: bool) -> Message:
    """The message with marks for removed texts; the same object if none was removed."""
    ids = [identifier for identifier, _ in _removable(message, reports=True)]
    if not any(identifier in removed for identifier in ids):
        return message

    def shown(at: int, block: Block) -> Block:
        if message.kind == "results" and block["tool_use_id"] in removed:
            call, text = block["tool_use_id"], text_of(block)
            return _with_text(block, _removed(f"result of call {call}", text, _again(call) if readable else ""))
        child = report_in(message, at)
        if child is not None and child in removed:
            head, mark = (
                block["text"].partition("\n")[0],
                _removed("report", block["text"], _again(child) if readable else ""),
            )
            return {**block, "text": f"{head}\n{mark}{REPORT_END}"}
        return block

    content = [shown(at, block) for at, block in enumerate(message.content)]
    return Message("user", content, message.kind, message.delivered, data=message.data)


def _with_text(block: Block, text: str) -> Block:
    """A tool result with another text; its mark stays."""
    if isinstance(block["content"], str):
        return {**block, "content": text}
    return {**block, "content": [{"type": "text", "text": text}, *block["content"][1:]]}


# -- overlong texts ----------------------------------------------------------------------------------------------------


def longest_text(messages: Sequence[Message], room: int) -> int:
    """The maximum characters of a text for the messages to fit the room, or nearly; 0 when none can be cut."""
    lengths = sorted(len(text) for message in messages for text in _cuttable(message))
    if not lengths or lengths[-1] <= LEAST:
        return 0
    longest = lengths[-1]
    while longest > LEAST:
        size = size_of(view_of(messages, Compaction("cut", 0, longest=longest)))
        if size <= room:
            break
        # Cut texts share the excess. Marks and escapes change the size, so each guess is measured again.
        cut = sum(length >= longest for length in lengths)
        longest = max(LEAST, min(longest * 9 // 10, longest - (size - room) // (4 * cut)))
    return longest


def _cuttable(message: Message) -> Iterator[str]:
    """The texts that may be cut: all user blocks except the record of a summary."""
    for at, block in enumerate(message.content if message.role == "user" else ()):
        if block["type"] == "tool_result":
            yield text_of(block)
        elif block["type"] == "text" and (message.kind != "summary" or at != 1):
            yield block["text"]


def _cut(message: Message, compaction: Compaction, handle: str) -> Message:
    """The message with overlong texts cut; the same object if none is overlong."""
    if all(len(text) <= compaction.longest for text in _cuttable(message)):
        return message

    def shown(at: int, block: Block) -> Block:
        if block["type"] == "tool_result":
            own = block["tool_use_id"] if compaction.readable else ""
            return _with_text(block, _shortened(text_of(block), compaction.longest, own))
        if block["type"] != "text" or (message.kind == "summary" and at == 1):
            return block
        child = report_in(message, at)
        if child is None:
            return {**block, "text": _shortened(block["text"], compaction.longest, handle)}
        again = _again(child) if compaction.readable else ""
        return {**block, "text": _shortened(block["text"], compaction.longest, "", f"{again}]{REPORT_END}")}

    content = [shown(at, block) for at, block in enumerate(message.content)]
    return Message("user", content, message.kind, message.delivered, data=message.data)


def _shortened(text: str, longest: int, handle: str, end: str = "]") -> str:
    """The beginning of a text and a mark, together at most `longest` characters."""
    if len(text) <= longest:
        return text
    total = length_before_cut(text.removesuffix(REPORT_END)) if text.endswith(REPORT_END) else length_before_cut(text)

    def mark(shown: int) -> str:
        return f"\n[{CUT.format(kept=shown, length=total)} to save room{_again(handle, shown) if handle else ''}{end}"

    shown = longest - len(mark(longest))
    return text[:shown] + mark(len(restored(text[:shown])))  # `read_result` counts unescaped characters
