"""The stream reader: every cut of the bytes gives the same message, and only a complete one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from runner.llm.stream import StreamError, collect
from runner.messages import ToolCall
from tests.support.messages_api import encode_event, events_of, text, thinking, tool_use

BLOCKS = [
    thinking("first the lögs, then the métrics", "c2lnbmVk"),
    text("Ich prüfe die Protokolle …"),
    tool_use("logs__query", {"selector": '{app="checkout"}', "limit": 50, "nested": {"a": [1, None, "ü\n"]}}),
    tool_use("metrics__query", {}, "toolu_2"),
]


async def in_chunks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(events: list[dict[str, Any]], size: int = 1000, said: list[str] | None = None) -> dict[str, Any]:
    heard: list[str] = [] if said is None else said
    return await collect(in_chunks(b"".join(map(encode_event, events)), size), heard.append)


async def test_the_message_is_the_same_at_every_chunk_size() -> None:
    events = events_of(BLOCKS)
    for size in range(1, len(b"".join(map(encode_event, events))) + 1):
        said: list[str] = []
        message = await read(events, size, said)
        assert message["content"] == BLOCKS
        assert "".join(said) == "Ich prüfe die Protokolle …"
        assert message["stop_reason"] == "tool_use"
        assert message["usage"]["input_tokens"] == 11
        assert message["usage"]["output_tokens"] == 42


async def test_a_stream_that_ends_before_its_last_event_is_an_error_wherever_it_ends() -> None:
    events = events_of(BLOCKS)
    for length in range(len(events)):
        with pytest.raises(StreamError) as caught:
            await read(events[:length])
        assert caught.value.type == "incomplete"


async def test_an_error_event_ends_the_stream_with_its_type_and_without_its_words() -> None:
    broken = {"type": "error", "error": {"type": "overloaded_error", "message": "canary"}}
    with pytest.raises(StreamError) as caught:
        await read([*events_of([text("half")])[:4], broken])
    assert caught.value.type == "overloaded_error"
    assert "canary" not in str(caught.value)


async def test_unknown_events_blocks_and_deltas_are_carried_along() -> None:
    events = events_of([{"type": "hologram", "seed": 1}, text("seen")])
    events.insert(3, {"type": "content_block_delta", "index": 0, "delta": {"type": "hologram_delta", "depth": 3}})
    events.insert(1, {"type": "weather", "wind": "strong"})
    message = await read(events)
    assert message["content"] == [{"type": "hologram", "seed": 1, "depth": 3}, text("seen")]


async def test_citations_are_collected_in_their_block() -> None:
    events = events_of([text("as written")])
    for number in (1, 2):
        delta = {"type": "citations_delta", "citation": {"page": number}}
        events.insert(-3, {"type": "content_block_delta", "index": 0, "delta": delta})
    assert (await read(events))["content"] == [{**text("as written"), "citations": [{"page": 1}, {"page": 2}]}]


@pytest.mark.parametrize("raw", ['{"limit": ', "not json at all", '{"a": 1} trailing', '{"a": [1e400]}', '{"a": NaN}'])
async def test_tool_arguments_that_are_no_json_are_kept_as_text_and_marked(raw: str) -> None:
    message = await read(events_of([{"type": "tool_use", "id": "t", "name": "logs__query", "input": raw}]))
    assert message["content"][0]["input"] == raw
    assert ToolCall.of_block(message["content"][0]).malformed == raw


@pytest.mark.parametrize(
    "data",
    [
        b"data: {not json}\n\n",
        b'data: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "early"}}\n\n',
        b'data: {"type": "message_start"}\n\n',
        b'data: {"type": "error", "error": "odd"}\n\n',
        b"data: 7\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
    ],
)
async def test_events_that_make_no_sense_are_a_stream_error_and_no_crash(data: bytes) -> None:
    with pytest.raises(StreamError) as caught:
        await collect(in_chunks(data, 10), lambda _: None)
    assert caught.value.type == "unreadable"


async def test_a_line_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.llm.stream.LINE_CAP", 1000)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"data: " + b"x" * 100

    with pytest.raises(StreamError) as caught:
        await collect(endless(), lambda _: None)
    assert caught.value.type == "oversized"


async def test_an_answer_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.llm.stream.ANSWER_CAP", 10_000)

    async def endless() -> AsyncIterator[bytes]:
        for event in events_of([text("a word")])[:4]:
            yield encode_event(event)
        while True:
            yield encode_event({"type": "ping"})

    with pytest.raises(StreamError) as caught:
        await collect(endless(), lambda _: None)
    assert caught.value.type == "oversized"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": None, "name": "a", "input": {}},
        {"type": "tool_use", "id": "t", "name": 7, "input": {}},
        {"type": "tool_use", "id": "t", "input": {}},
        {"type": ["text"], "text": "x"},
        {"text": "x"},
        {"type": "thinking", "thinking": None},
    ],
)
async def test_a_block_that_is_not_what_its_type_promises_makes_the_answer_unreadable(block: dict[str, Any]) -> None:
    events = events_of([text("fine")])
    events[-2:-2] = [{"type": "content_block_start", "index": 1, "content_block": block}, {"type": "content_block_stop"}]
    with pytest.raises(StreamError) as caught:
        await read(events)
    assert caught.value.type == "unreadable"


async def test_a_block_whose_end_is_not_told_ends_with_the_next_one_or_the_message() -> None:
    events = [event for event in events_of(BLOCKS) if event["type"] != "content_block_stop"]
    assert (await read(events))["content"] == BLOCKS


async def test_text_that_no_store_accepts_is_cleaned_and_the_answer_is_kept() -> None:
    data = b"".join(map(encode_event, events_of([text("one two")]))).replace(b'"one two"', rb'"a\ud83d b\u0000"')
    said: list[str] = []
    message = await collect(in_chunks(data, 10), said.append)
    assert message["content"] == [text("a? b\ufffd")]
    assert said == ["a? b\ufffd"]


async def test_a_listener_that_fails_is_not_taken_for_a_broken_stream() -> None:
    def listen(_: str) -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        await collect(in_chunks(b"".join(map(encode_event, events_of(BLOCKS))), 100), listen)
