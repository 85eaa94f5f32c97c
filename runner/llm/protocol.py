"""The model seam: a request goes in, one reply comes out, and its text is streamed.

Owns the vocabulary (Request, Reply, Usage, ModelError); knows no provider.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from registry import ModelSpec
from runner.messages import Block, Message, Prefix, Tool
from runner.provider_error import ProviderError

OnAttempt = Callable[[str, int], None]
"""Called with the model's name and the number of the attempt, from 1; must not block."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, as counted by the provider."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    """All cache writes, whatever their lifetime."""
    cache_write_1h_tokens: int = 0
    """Of these, writes with a lifetime of one hour."""


@dataclass(frozen=True, slots=True)
class Request:
    """Everything one model call needs. `agent` and `execution_id` route rehearsals; no prompt is parsed for them."""

    agent: str
    execution_id: str
    spec: ModelSpec
    system: str
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    """The tools it may call."""
    withheld: Sequence[Tool] = ()
    """Where it may call none: the tools in its history. The provider needs their definitions, and has them cached."""
    input: Any = None
    """The structured input of the execution (an alert, for example), for rehearsal templates only."""
    caller: str = ""
    """The agent it works for, if any; routes rehearsals."""
    session: str = ""
    """The session of its tree; routes rehearsals."""
    waits: bool = False
    """Whether the agent may wait long for children between two calls: its prompt is then cached for longer."""
    steady: bool = False
    """Whether the answer should be as deterministic as the model allows."""
    max_tokens: int | None = None
    """The cap on the answer, where the agent or a budget allows less than the model."""
    on_attempt: OnAttempt | None = None
    """Called before each attempt; text that an earlier attempt streamed is then void."""
    pause: Pause | None = None
    """Waits between two attempts, in place of the adapter."""
    prefix: Prefix | None = None
    """Where an adapter keeps the encoded earlier messages of a conversation."""

    @property
    def shown(self) -> Sequence[Tool]:
        """All tools that are sent."""
        return self.tools or self.withheld

    def up_to(self, tokens: int) -> Request:
        """The same with a cap on the answer, unless it has a lower one."""
        return replace(self, max_tokens=tokens if self.max_tokens is None else min(tokens, self.max_tokens))


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: content blocks exactly as received (thinking included), and what they cost."""

    content: Sequence[Block]
    stop_reason: str
    usage: Usage
    model: str
    request_id: str | None = None
    rehearsed: bool = False
    attempts: int = 1
    """How often models were asked until this came back, fallbacks included."""


class ModelError(Exception):
    """A model call that failed for good. `kind` is from a closed set; the text is ours, `provider` has the provider's."""

    KINDS = (
        "authentication",
        "credit",
        "permission",
        "region",
        "invalid_request",
        "not_found",
        "too_large",
        "rate_limited",
        "overloaded",
        "timeout",
        "connection",
        "broken_stream",
        "server",
        "circuit_open",
        "refused",
        "rehearsal",
        "unknown",
    )

    def __init__(
        self,
        kind: str,
        message: str,
        hint: str = "",
        *,
        recoverable: bool = False,
        provider: ProviderError | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint
        self.recoverable = recoverable
        """Whether another model, or the same one later, may well answer."""
        self.provider = provider
        """What the provider said, for people: no prompt may show it."""


_SHORT_TEXTS = {
    "rate_limited": "rate limit reached",
    "overloaded": "overloaded",
    "timeout": "does not answer",
    "connection": "cannot be reached",
    "broken_stream": "broke off its answer",
    "server": "failed",
    "circuit_open": "failing for all agents",
}


@dataclass(frozen=True, slots=True)
class RetryWait:
    """A wait between two attempts of one call."""

    model: str
    error: ModelError
    """Why the last attempt failed."""
    seconds: float
    left: float
    """Seconds until the call is given up."""

    def __str__(self) -> str:
        said = self.error.provider
        status = f" ({said.status})" if said is not None and said.status is not None else ""
        what = _SHORT_TEXTS.get(self.error.kind, "failed")
        return f"model API {what}{status}, retrying in {_rounded(self.seconds)}, giving up in {_rounded(self.left)}"


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"


Pause = Callable[[RetryWait], Awaitable[None]]
"""Returns when the next attempt is to be made; whatever it raises ends the call."""


OnText = Callable[[str], None]
"""Receives each piece of text as it is streamed; must not block."""


class Model(Protocol):
    """One way to ask a model: the anthropic API or a rehearsal."""

    @property
    def rehearses(self) -> bool:
        """Whether it only plays what was written for it: then nothing is spent."""
        ...

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """Answer `request`. Raises ModelError; cancelling closes the connection at once."""
        ...

    async def close(self) -> None:
        """Release connections; harmless when called twice."""
        ...


class ModelChooser(Protocol):
    """Says who answers for a model: `runner.llm.models.Models`, or a scripted one in tests."""

    def choose(self, spec: ModelSpec) -> Model:
        """The model to ask; raises NoModel."""
        ...
