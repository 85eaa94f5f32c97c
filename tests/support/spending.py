"""Usage computed from a request as a provider does, so that estimates and reservations meet realistic figures.

Owns: the size of a request in bytes, and the usage derived from it. Must not know: how the runner estimates.
"""

from __future__ import annotations

import math

from runner.llm.protocol import Request, Usage


def size(request: Request) -> int:
    """The bytes of a prompt."""
    parts = (*(message.encoded for message in request.messages), *(tool.encoded for tool in request.shown))
    return len(request.system.encode()) + sum(len(part) for part in parts)


def used(request: Request, output: int = 50, *, bytes_per_token: float = 4.0) -> Usage:
    """The usage of an answer: the whole prompt is a cache write, the most expensive case; output ends at its limit."""
    prompt = math.ceil(size(request) / bytes_per_token)
    longest = request.max_tokens if request.max_tokens is not None else request.spec.max_tokens
    written = {"cache_write_tokens": prompt, "cache_write_1h_tokens": prompt if request.waits else 0}
    return Usage(output_tokens=min(output, longest), **written)
