"""A long conversation is sent whole at every turn, and a late turn encodes no more than an early one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from registry import ModelSpec
from runner.llm.exchange import request_body
from runner.llm.protocol import Request
from runner.messages import NEWEST, Message, Prefix
from tests.runner.llm.asking import SPEC, asked, assistant, user
from tests.support.messages_api import text, thinking, tool_use

HAIKU = replace(SPEC, name="haiku", model="claude-haiku-5-5")
COUNT = 6 * NEWEST


def turn(number: int) -> Message:
    """A message of a conversation; some replies think, some call a tool, and one says nothing else."""
    if number % 2 == 0:
        return user(f"{number} é")
    blocks = [thinking("hm"), text(f"{number}"), tool_use("look", {"n": number})]
    return assistant(*(blocks[:1] if number == 7 else blocks))


def sent(request: Request, spec: ModelSpec = SPEC) -> Any:
    """The messages of a request's body."""
    return from_json(request_body(request, spec))["messages"]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("say"), st.integers(1, NEWEST)),
            st.tuples(st.just("compact"), st.integers(0, COUNT)),
            st.tuples(st.just("ask another model"), st.just(0)),
        ),
        max_size=20,
    )
)
def test_a_conversation_is_sent_whole_whatever_was_joined_before(steps: list[tuple[str, int]]) -> None:
    messages: list[Message] = [turn(0)]
    conversation = replace(asked(*messages), messages=messages, prefix=Prefix())
    for what, size in steps:
        spec = HAIKU if what == "ask another model" else SPEC
        if what == "say":
            messages += [turn(len(messages) + each) for each in range(size)]
        elif what == "compact" and size < len(messages):
            messages[size] = user("left out")
        assert sent(conversation, spec) == sent(replace(conversation, prefix=None), spec)


class Counted(list[Any]):
    """The blocks of a message, and how often they were encoded."""

    encoded = 0

    def __iter__(self) -> Iterator[Any]:
        self.encoded += 1
        return super().__iter__()


def test_each_message_is_encoded_once_however_long_the_conversation_gets() -> None:
    blocks = [Counted([text(f"{number}")]) for number in range(COUNT)]
    messages: list[Message] = []
    conversation = replace(asked(), messages=messages, prefix=Prefix())
    for each in blocks:
        messages.append(Message("user", each))
        request_body(conversation, SPEC)
    assert {each.encoded for each in blocks} == {1}
