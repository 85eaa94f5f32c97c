"""The body of a request to the Messages API, joined from parts that were encoded before.

Owns the fields and the cache marks. Knows no client. Invariant: for the model that wrote it, history is never encoded
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic_core import to_json

from registry import ModelSpec
from runner.llm.protocol import Request
from runner.messages import Message

_LIFETIMES = {
    "5m": b',"cache_control":{"type":"ephemeral"}',
    "1h": b',"cache_control":{"type":"ephemeral","ttl":"1h"}',
    "off": b"",
}
_THINKING = b'"thinking":{"type":"adaptive","display":"summarized"}'
_THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})


def request_body(request: Request, spec: ModelSpec) -> bytes:
    """The JSON of a request for the model of `spec`."""
    cached = _LIFETIMES[spec.cache_writes(waits=request.waits)]
    longest = spec.max_tokens if request.max_tokens is None else min(spec.max_tokens, request.max_tokens)
    fields = [b'"model":' + to_json(spec.model), b'"max_tokens":%d' % longest, b'"stream":true' + cached]
    if spec.thinking:
        fields.append(_THINKING)  # no provider combines thinking with a temperature
    elif request.steady and spec.accepts_temperature:
        fields.append(b'"temperature":0')
    if request.system:
        fields.append(b'"system":' + to_json(request.system))
    if request.shown:
        *tools, last = (tool.encoded for tool in request.shown)
        # Tools come first in the prompt and rarely change: their own mark keeps them cached when the rest changes.
        fields.append(b'"tools":[' + b",".join([*tools, last[:-1] + cached + b"}"]) + b"]")
        if not request.tools:
            fields.append(b'"tool_choice":{"type":"none"}')
    fields.append(b'"messages":[' + b",".join(_encoded(request.messages, request.spec, spec)) + b"]")
    return b"{" + b",".join(fields) + b"}"


def _encoded(messages: Iterable[Message], meant_for: ModelSpec, spec: ModelSpec) -> Iterator[bytes]:
    """The messages as bytes. Thinking blocks are bound to the model that wrote them: no other model gets them."""
    for message in messages:
        author = message.model or meant_for.model
        if author == spec.model or message.role == "user":
            yield message.encoded
        else:
            spoken = [block for block in message.content if block["type"] not in _THINKING_BLOCKS]
            if len(spoken) == len(message.content):
                yield message.encoded
            elif spoken:
                yield Message("assistant", spoken).encoded
