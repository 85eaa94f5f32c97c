"""The simulated prompt cache follows the provider's documented rules."""

from __future__ import annotations

from typing import Any

import pytest

from bench.prompt_cache import LOOKBACK, CacheUse, PromptCache, TooManyBreakpoints

MARK = {"cache_control": {"type": "ephemeral"}}


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool with a description of some length."""
    return {"name": name, "description": "it looks something up " * 10, "input_schema": {"type": "object"}, **more}


def said(text: str, **more: Any) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": text, **more}


def request(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request with one message of the user."""
    return {"model": "m", "messages": [{"role": "user", "content": list(blocks)}], **more}


def asked(cache: PromptCache, body: dict[str, Any]) -> CacheUse:
    """What a request does whose reply begins at once."""
    use = cache.look(body)
    cache.keep(use)
    return use


def test_a_repeated_prompt_is_read_to_its_last_breakpoint_and_every_token_counts_once() -> None:
    cache, body = PromptCache(0), request(said("one"), said("two"), said("three"), tools=[tool("a")])
    body["messages"][0]["content"][1] |= MARK

    first, second = asked(cache, body), asked(cache, body)

    assert (first.read, second.written) == (0, 0)
    assert (second.read, second.plain) == (first.written, first.plain)
    assert second.plain > 0, "what follows the last breakpoint is never cached"


def test_a_breakpoint_after_the_tools_is_of_use_to_another_system_prompt() -> None:
    cache = PromptCache(0)
    written = asked(cache, request(said("x"), system="of one", tools=[tool("a"), tool("b", **MARK)])).written

    assert asked(cache, request(said("y"), system="of another", tools=[tool("a"), tool("b", **MARK)])).read == written
    assert asked(cache, request(said("y"), system="of one", tools=[tool("b"), tool("a", **MARK)])).read == 0


def test_without_a_breakpoint_at_its_end_an_equal_system_prompt_is_not_read() -> None:
    cache = PromptCache(0)
    asked(cache, request(said("x"), system="the same", **MARK))
    assert asked(cache, request(said("y"), system="the same", **MARK)).read == 0

    marked = [said("the same", **MARK)]
    asked(cache, request(said("x"), system=marked, **MARK))
    use = asked(cache, request(said("z"), system=marked, **MARK))
    assert use.read == use.shared > 0


def test_a_breakpoint_finds_an_earlier_one_up_to_twenty_blocks_before_it() -> None:
    def conversation(length: int) -> dict[str, Any]:
        return request(*(said(f"block {number}") for number in range(length)), **MARK)

    cache = PromptCache(0)
    asked(cache, conversation(1))
    assert cache.look(conversation(LOOKBACK)).read > 0
    assert cache.look(conversation(LOOKBACK + 1)).read == 0


def test_a_prefix_below_the_minimum_is_not_cached() -> None:
    body = request(said("short"), **MARK)
    cache = PromptCache(1024)

    asked(cache, body)

    assert (asked(cache, body).read, asked(cache, body).written) == (0, 0)


def test_requests_in_flight_at_the_same_time_share_nothing() -> None:
    cache, body = PromptCache(0), request(said("x"), **MARK)

    uses = [cache.look(body), cache.look(body)]

    assert [use.read for use in uses] == [0, 0]


def test_another_choice_of_tools_spares_tools_and_system() -> None:
    cache = PromptCache(0)
    parts: dict[str, Any] = {"tools": [tool("a", **MARK)], "system": [said("s", **MARK)], **MARK}
    asked(cache, request(said("x"), **parts))

    use = asked(cache, request(said("x"), **parts, tool_choice={"type": "none"}))

    assert use.read == use.shared


def test_a_request_with_five_breakpoints_is_refused() -> None:
    with pytest.raises(TooManyBreakpoints, match="5 cache breakpoints"):
        PromptCache().look(request(*(said(str(number), **MARK) for number in range(4)), tools=[tool("a", **MARK)]))
