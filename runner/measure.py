"""The measure of a conversation: how many tokens its next prompt has.

Owns the count: what the provider counted up to the newest reply, and an estimate of what was added since. Knows neither
prices nor windows. Invariant: each message is measured once, so a late turn costs no more than an early one.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.llm.protocol import Request
from runner.tariff import size_of, tokens_of
from runner.transcript import Message

SPARSEST = 12
"""Bytes to a token beyond which no provider is believed: some count nothing, or only what was not cached."""


class Measure:
    """The length of one conversation."""

    __slots__ = ("_counted", "_fixed", "_messages", "_size", "_sized")

    def __init__(self) -> None:
        self._counted = 0
        """Tokens up to the newest reply, as the provider counted them."""
        self._messages = 0
        """How many messages those are."""
        self._fixed = 0
        """Bytes of the system prompt and the tools: they stand before every message."""
        self._size = 0
        """Bytes of those messages, as far as they were measured."""
        self._sized = 0

    def count(self, tokens: int, messages: int) -> None:
        """So many tokens are the first messages of the conversation, with all that stands before them."""
        self._counted, self._messages = tokens, messages

    def restart(self, tokens: int, messages: Sequence[Message]) -> None:
        """The conversation is another one now, and so long as far as anybody can tell."""
        self._size, self._sized = size_of(messages), len(messages)
        self.count(tokens, self._sized)

    def fixed(self, request: Request) -> int:
        """Bytes of a prompt that stand before its messages."""
        if not self._fixed:
            self._fixed = len(request.system.encode()) + sum(len(tool.encoded) for tool in request.shown)
        return self._fixed

    def tokens(self, request: Request) -> int:
        """The tokens of a prompt."""
        if self._sized < self._messages:
            self._size += size_of(request.messages[self._sized : self._messages])
            self._sized = self._messages
        size, added = self.fixed(request) + self._size, size_of(request.messages[self._messages :])
        if self._counted * SPARSEST < size:
            return tokens_of(size + added)
        return self._counted + tokens_of(added)
