"""The anthropic adapter as tests ask it: against a local server, impatient, closed at the end.

Owns: short spellings. Must not know: what the server answers. Invariant: every adapter is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from registry import ModelSpec, Retry
from runner.llm.anthropic import AnthropicModel
from runner.llm.breaker import BreakerSettings
from runner.llm.protocol import ModelError, Reply, Request
from runner.messages import Message
from tests.runner.llm.asking import SPEC, asked
from tests.support.messages_api import MessagesApi

KEY = "test-key-that-must-not-be-shown"
QUICK = Retry(seconds=0.3, first_wait=0.02, longest_wait=0.05)
"""Long enough for a few attempts, too short to be felt."""
ONCE = Retry(seconds=0)


@asynccontextmanager
async def model(*others: ModelSpec, settings: BreakerSettings | None = None) -> AsyncIterator[AnthropicModel]:
    """An adapter that knows these models as fallbacks."""
    adapter = AnthropicModel({spec.name: spec for spec in others}, settings=settings)
    try:
        yield adapter
    finally:
        await adapter.close()


def at(api: MessagesApi, *messages: Message, **fields: Any) -> Request:
    """A request to the local server; `fields` are settings of its model."""
    return asked(*messages, spec=replace(SPEC, base_url=api.url, **{"retry": QUICK, **fields}))


async def complete(api: MessagesApi, request: Request | None = None) -> Reply:
    """The answer to one request."""
    async with model() as adapter:
        return await adapter.complete(request or at(api), lambda _: None)


async def failing(api: MessagesApi, request: Request | None = None) -> ModelError:
    """The error of one request."""
    with pytest.raises(ModelError) as caught:
        await complete(api, request)
    return caught.value
