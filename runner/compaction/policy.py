"""Compaction policy: how much of the context window a conversation may fill, and what to leave out beyond that.

Owns the token count, the limit and the order of measures: remove results that can be read back, then summarise, then cut
the longest texts. It decides and counts; the conversation stores the decision. Invariants: a decision shortens the
conversation substantially or not at all, and each message is counted once, so a late turn costs no more than an early one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from registry import ModelSpec
from runner.compaction.apply import Compaction, Stage, head_of, longest_text, old_results, view_of
from runner.compaction.summary import SUMMARISE, Kept, summary_of
from runner.llm.protocol import ModelError, Request
from runner.messages import Block, Message, size_of
from runner.text import tokens_of
from runner.tools.read_result import NAME as READ_RESULT

LEAST_SHARE = 0.25
"""Share of the window that the conversation always gets, however long an answer may be."""
GAIN = 0.25
"""Share of the limit that removing results must save; otherwise a summary is made."""
WORTH_A_SUMMARY = 0.3
"""Share of the limit that a summary must replace; more than the summary itself may take."""
SUMMARY_SHARE = 0.125
"""Share of the limit for the notes of a summary."""
RECORD_SHARE = 0.0625
"""Share of the limit for the list of calls in a summary."""
TAIL_SHARE = 0.25
"""Share of the limit for the newest turns beside a summary; the newest one always stays."""
SUMMARY_TOKENS, LEAST_TOKENS = 4096, 256
"""Maximum and minimum tokens of the notes requested from a model."""
MARGIN = 0.9
"""Share of the limit to compact to; the rest is for the next messages."""
TOO_LONG = 0.8
"""New limit after a provider rejected a prompt as too long, as a share of that prompt."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """A prompt in bytes and in tokens."""

    tokens: int
    bytes: int
    fixed: int
    """The bytes before the messages."""

    def bytes_of(self, tokens: float) -> int:
        """The bytes of `tokens`."""
        return int(tokens * self.bytes / self.tokens)

    def tokens_with(self, messages: Sequence[Message]) -> int:
        """The tokens of the prompt with other messages."""
        return -(-(self.fixed + size_of(messages)) * self.tokens // self.bytes)


class CompactionPolicy:
    """The compaction policy of one conversation; its limit fits every model it may use."""

    __slots__ = ("_due", "_limit", "_measure", "_seen", "_window", "tried")

    def __init__(self, share: float, models: Sequence[ModelSpec], measure: TokenCount) -> None:
        window, longest = min(each.context_window for each in models), max(each.max_tokens for each in models)
        self._measure = measure
        self._window = window
        """Known maximum of prompt and answer together, in tokens."""
        self._seen = 0
        """Tokens of the newest prompt."""
        self._limit = int(max(min(share * window, window - longest), LEAST_SHARE * window))
        """Maximum tokens of a prompt."""
        self._due = self._limit
        """Tokens at which to look for something to leave out."""
        self.tried = False
        """Whether the provider rejected the newest prompt as too long."""

    def short(self, request: Request) -> bool:
        """Whether a request needs compaction before it is sent."""
        self._seen = self._measure.tokens(request)
        return self._seen > self._due

    def replied(self, tokens: int, messages: int) -> None:
        """Take the provider's token count of the conversation up to its reply."""
        self._measure.count(tokens, messages)
        self.tried = False

    def restore(self, counted: tuple[int, int], limit: int | None) -> None:
        """Restore the token count and the limit of a resumed conversation."""
        self._measure.count(*counted)
        self._limit = self._due = self._limit if limit is None else limit

    def overflow(self, messages: Sequence[Message]) -> bool:
        """Lower the limit after the provider rejected a prompt; True to retry: once, if it can be shortened."""
        if self.tried or not (head_of(messages, 0) or longest_text(messages, 0)):
            return False
        self.tried, self._limit = True, min(self._limit, int(self._seen * TOO_LONG))
        self._due, self._window = self._limit, min(self._window, self._seen)
        return True

    def overflows(self, error: ModelError, messages: Sequence[Message]) -> bool:
        """Whether a call failed because its prompt was too long, and a retry is worthwhile."""
        return error.kind == "too_large" and self.overflow(messages)

    def compacted(self, compaction: Compaction, messages: Sequence[Message]) -> None:
        """Restart the count with the messages after a decision."""
        self._measure.restart(compaction.after_tokens, messages)
        self._due = self._limit

    # -- making room ---------------------------------------------------------------------------------------------------

    def next(self, request: Request) -> Compaction | None:
        """The next decision, if one is due. For a summary, the length after it is not known yet.

        When nothing helps, the conversation stays as it is and is checked again when it has grown by a tenth.
        """
        if not self.short(request):
            return None
        scale, readable = self._scale(request), any(tool.name == READ_RESULT for tool in request.shown)
        wanted = Compaction("cut", scale.tokens, limit=self._limit, readable=readable)
        found = self._fewer_results(request.messages, wanted, scale) or self._shorter(request.messages, wanted, scale)
        if found is None:
            self._due = self._seen + self._seen // 10
        return found

    def _scale(self, request: Request) -> _Scale:
        fixed = self._measure.fixed(request)
        return _Scale(self._seen, fixed + size_of(request.messages), fixed)

    def _fewer_results(self, messages: Sequence[Message], wanted: Compaction, scale: _Scale) -> Compaction | None:
        """Replace old results by marks, if that saves enough; reports of children are removed last."""
        for reports in (False, True):
            removed = old_results(messages, reports=reports)
            less = replace(wanted, stage="results", removed=removed)
            after = scale.tokens_with(view_of(messages, less)) if removed else scale.tokens
            if after <= self._limit * MARGIN and scale.tokens - after >= self._limit * GAIN:
                return replace(less, after_tokens=after)
        return None

    def _shorter(self, messages: Sequence[Message], wanted: Compaction, scale: _Scale) -> Compaction | None:
        """A summary if there is enough to summarise, else shorter texts."""
        head = head_of(messages, scale.bytes_of(self._limit * TAIL_SHARE))
        replaced = size_of(each for each in messages[:head] if each.kind != "task")
        if replaced > (0 if self.tried else scale.bytes_of(self._limit * WORTH_A_SUMMARY)):
            return replace(wanted, stage="summary", kept=len(messages) - head)
        longest = longest_text(messages, scale.bytes_of(self._limit * MARGIN) - scale.fixed)
        cut = replace(wanted, longest=longest)
        after = scale.tokens_with(view_of(messages, cut)) if longest else scale.tokens
        return replace(cut, after_tokens=after) if after < scale.tokens else None

    # -- a summary -----------------------------------------------------------------------------------------------------

    def question(self, request: Request, wanted: Compaction) -> Request | None:
        """The request for a summary; it shares the prefix of earlier requests, so it is cached. None if too long."""
        scale, head = self._scale(request), request.messages[: len(request.messages) - wanted.kept]
        longest = self._longest_notes(request.spec)
        for less in (head, view_of(head, replace(wanted, stage="results", removed=old_results(head, reports=True)))):
            messages = [*less, Message.of_text("user", SUMMARISE, "note")]
            if scale.tokens_with(messages) + longest <= self._window:
                return replace(request, messages=messages, tools=()).up_to(longest)
        return None

    def _longest_notes(self, spec: ModelSpec) -> int:
        if spec.thinking:
            return spec.max_tokens  # includes thinking, whose length is unknown
        return max(LEAST_TOKENS, min(SUMMARY_TOKENS, int(self._limit * SUMMARY_SHARE)))

    def summary(self, request: Request, wanted: Compaction, notes: str, kept: Kept) -> tuple[Compaction, list[Block]]:
        """The decision and the words of a summary, with or without a model's notes."""
        scale, head = self._scale(request), len(request.messages) - wanted.kept
        room = scale.bytes_of(self._limit * SUMMARY_SHARE)
        known = replace(kept, room=scale.bytes_of(self._limit * RECORD_SHARE))
        words, record = summary_of(request.messages[:head], request.messages[head:], notes[:room], known)
        after = scale.tokens_with(view_of(request.messages, wanted, words))
        stage: Stage = "summary" if notes.strip() else "outline"
        return replace(wanted, stage=stage, after_tokens=after, record=record), words


SPARSEST = 12
"""Bytes per token above which a provider's count is ignored: some count nothing, or only uncached tokens."""


class TokenCount:
    """The token count of one conversation."""

    __slots__ = ("_counted", "_fixed", "_messages", "_size", "_sized")

    def __init__(self) -> None:
        self._counted = 0
        """Tokens up to the newest reply, as counted by the provider."""
        self._messages = 0
        """Number of messages in that count."""
        self._fixed = 0
        """Bytes of the system prompt and the tools, which precede all messages."""
        self._size = 0
        """Bytes of the measured ones among those messages."""
        self._sized = 0

    def count(self, tokens: int, messages: int) -> None:
        """Set the token count of the first `messages`, including the system prompt and tools."""
        self._counted, self._messages = tokens, messages

    def restart(self, tokens: int, messages: Sequence[Message]) -> None:
        """Start over with other messages and an estimated token count."""
        self._size, self._sized = size_of(messages), len(messages)
        self.count(tokens, self._sized)

    def fixed(self, request: Request) -> int:
        """Bytes of a prompt before its messages."""
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
