"""The provider's prompt cache, simulated: what a request reads from it and writes to it.

Owns the documented rules. A prompt is tools, then system, then messages. A breakpoint writes one entry, for the prefix that
ends with its block; a request has up to four. A request reads the longest entry found at one of the 20 blocks that end with
a breakpoint. A prefix below the model's minimum is not cached. An entry exists once the reply to its request begins.
Must not know: HTTP, or who asks. Invariant: every token of a prompt counts once, as read, written or plain input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import accumulate
from typing import Any

LOOKBACK = 20
MOST_BREAKPOINTS = 4
BYTES_PER_TOKEN = 4
"""An estimate: only ratios of tokens are reported."""
_UNCACHEABLE = ("thinking", "redacted_thinking")
"""Blocks that cannot carry a breakpoint; they are cached as a part of the prefix."""


class TooManyBreakpoints(ValueError):
    """A request that the provider would refuse."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} cache breakpoints: a request has up to {MOST_BREAKPOINTS}")


@dataclass(frozen=True, slots=True)
class CacheUse:
    """The tokens of one prompt, by what the cache did for them."""

    shared: int
    """Those of tools and system, which requests of one agent have in common."""
    read: int
    written: int
    plain: int
    entries: frozenset[bytes]
    """The prefixes that are cached once the reply begins."""

    @property
    def usage(self) -> dict[str, int]:
        """The fields of the API."""
        counts = (self.plain, self.written, self.read)
        return dict(zip(("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"), counts, strict=True))


@dataclass(frozen=True, slots=True)
class _Block:
    content: bytes
    marked: bool
    in_messages: bool


@dataclass(frozen=True, slots=True)
class PromptCache:
    """The cache of one account. It forgets nothing: a measurement is shorter than every lifetime."""

    minimum: int = 1024
    """Tokens of the shortest prefix that is cached; it depends on the model."""
    _entries: set[bytes] = field(default_factory=set)

    def look(self, body: Mapping[str, Any]) -> CacheUse:
        """What a request reads now, and what it would write; raises TooManyBreakpoints."""
        blocks = _blocks_of(body)
        ends = [0, *accumulate(-(-len(block.content) // BYTES_PER_TOKEN) for block in blocks)]
        marks = [place for place, block in enumerate(blocks, 1) if block.marked]
        if len(marks) > MOST_BREAKPOINTS:
            raise TooManyBreakpoints(len(marks))

        keys = [b"", *_prefixes(blocks, body)]
        seen = (
            place for mark in marks for place in range(mark, max(mark - LOOKBACK, 0), -1) if keys[place] in self._entries
        )
        read = ends[max(seen, default=0)]
        cached = [mark for mark in marks if ends[mark] >= self.minimum]
        written = max(ends[cached[-1]] - read, 0) if cached else 0
        shared = ends[sum(not block.in_messages for block in blocks)]
        return CacheUse(shared, read, written, ends[-1] - read - written, frozenset(keys[mark] for mark in cached))

    def keep(self, use: CacheUse) -> None:
        """The reply to this request begins: its entries exist."""
        self._entries.update(use.entries)


def _prefixes(blocks: Sequence[_Block], body: Mapping[str, Any]) -> Iterator[bytes]:
    """A key for every prefix. Thinking and the choice of tools belong to the keys of messages, the model to all."""
    key = sha256(body["model"].encode()).digest()
    asked = json.dumps([body.get("tool_choice"), body.get("thinking")]).encode()
    for block in blocks:
        key = sha256(key + (asked if block.in_messages else b"") + block.content).digest()
        yield key


def _blocks_of(body: Mapping[str, Any]) -> list[_Block]:
    blocks = [_block(tool, "tool") for tool in body.get("tools") or ()]
    blocks += [_block(block, "system") for block in _listed(body.get("system") or ())]
    for message in body["messages"]:
        blocks += [_block(block, message["role"], in_messages=True) for block in _listed(message["content"])]
    if body.get("cache_control"):  # marks the last block that can carry it
        last = max(place for place, block in enumerate(blocks) if not _bare(block))
        blocks[last] = replace(blocks[last], marked=True)
    return blocks


def _listed(content: str | Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """A text is one block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block(block: Mapping[str, Any], place: str, *, in_messages: bool = False) -> _Block:
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    return _Block(json.dumps([place, plain]).encode(), "cache_control" in block, in_messages)


def _bare(block: _Block) -> bool:
    return json.loads(block.content)[1].get("type") in _UNCACHEABLE
