"""Making room in any conversation: what is left is one that the API accepts, shorter than before, and the same again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from registry import ModelSpec
from runner.compaction.apply import Compaction, longest_text, old_results, view_of
from runner.compaction.policy import CompactionPolicy, TokenCount
from runner.compaction.summary import Kept
from runner.core.inbox import Item
from runner.llm.exchange import request_body
from runner.llm.protocol import Request
from runner.messages import Answer, Block, Delivered, Message, Tool, size_of, tool_results
from runner.prompt.deliveries import delivery_message
from runner.snapshot import Snapshot
from tests.support.pairing import objections

TOOLS = [Tool(name, "does", {"type": "object"}, name, "box") for name in ("look", "read_result", "dispatch_agent")]
LENGTHS = st.sampled_from([0, 5, 300, 900, 3000, 20_000])
WORDS = st.sampled_from(["x", "é", "\n", '"', "</report>", "</summary>"])
LIMITS = st.sampled_from([300, 1000, 3000, 10_000])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A text of some length."""
    return f"text {draw(WORDS) * draw(LENGTHS)}"


@dataclass
class Talk:
    """A conversation as it grows."""

    messages: list[Message] = field(default_factory=list)
    calls: int = 0

    def reply(self, draw: st.DrawFn, names: Sequence[str]) -> None:
        """The model says something, and what it asks for is answered."""
        content: list[Block] = []
        if draw(st.booleans()):
            content.append({"type": "thinking", "thinking": draw(texts()), "signature": "signed"})
        if draw(st.booleans()) or not names:
            content.append({"type": "text", "text": draw(texts())})
        for name in names:
            self.calls += 1
            content.append({"type": "tool_use", "id": f"call_{self.calls}", "name": name, "input": {"at": self.calls}})
        self.messages.append(Message("assistant", content, "reply"))
        if names:
            calls = self.messages[-1].tool_calls
            self.messages.append(tool_results(Answer(call, draw(texts()), citable=draw(st.booleans())) for call in calls))

    def say(self, draw: st.DrawFn) -> None:
        """Something of ours is said."""
        kind = draw(st.sampled_from(["note", "delivery", "message", "task"]))
        if kind in ("note", "task"):
            self.messages.append(Message.of_text("user", draw(texts()), kind))
        elif kind == "message":
            self.messages.append(delivery_message([Item("d", "message", draw(texts()), "ada")], 1))
        else:
            self.calls += 1
            report = Delivered("Scout", f"child{self.calls}", "completed", "completed", draw(texts()))
            self.messages.append(delivery_message([Item("d", "result", result=report)], 0))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """A conversation whose model is to be asked."""
    talk = Talk([Message.of_text("user", draw(texts()), "task")])
    for _ in range(draw(st.integers(0, 12))):
        talk.reply(draw, draw(st.lists(st.sampled_from(["look", "look", "dispatch_agent", "get_result"]), max_size=3)))
        if talk.messages[-1].role == "assistant" or draw(st.booleans()):
            talk.say(draw)
    return talk.messages


def request_of(messages: list[Message]) -> Request:
    """The request that a conversation makes."""
    return Request("Lead", "own", ModelSpec("m", "m"), "be good", messages, TOOLS, TOOLS)


def room_of(limit: int) -> CompactionPolicy:
    """The room of a model with a small window."""
    return CompactionPolicy(1.0, [ModelSpec("m", "m", max_tokens=1, context_window=limit)], TokenCount())


def made(headroom: CompactionPolicy, messages: list[Message], wanted: Compaction) -> tuple[Compaction, list[Block]]:
    """A decision and its words, with notes of a model where it may have some."""
    if wanted.stage != "summary":
        return wanted, []
    question = headroom.question(request_of(messages), wanted)
    if question is not None:
        body = json.loads(request_body(question, question.spec))
        assert (objections(body), body["tool_choice"]) == ([], {"type": "none"})
        assert body["messages"][0] == json.loads(messages[0].encoded)
    kept = Kept([Snapshot("child0", "Scout", "look\nnorth", "running")])
    return headroom.summary(request_of(messages), wanted, "notes " * (wanted.kept % 3), kept)


@given(messages=conversations(), limit=LIMITS, forced=st.booleans())
def test_whatever_is_left_out_the_rest_is_a_conversation_and_rows_give_the_same_one(
    messages: list[Message], limit: int, forced: bool
) -> None:
    headroom, view = room_of(limit), list(messages)
    rows: list[str] = []
    if forced and headroom.short(request_of(view)):
        headroom.overflow(view)
    while (wanted := headroom.next(request_of(view))) is not None:
        before = view
        compaction, words = made(headroom, view, wanted)
        rows.append(json.dumps([*words, compaction.block]))
        view = view_of(view, compaction, words, "own")
        headroom.compacted(compaction, view)
        check(before, view, compaction)
        assert len(rows) < 10
    assert not headroom.short(request_of(view))  # or it would be looked at again for nothing

    again = list(messages)
    for row in rows:
        *words, decided = json.loads(row)
        again = view_of(again, Compaction.of_block(decided), words, "own")
    assert [each.encoded for each in again] == [each.encoded for each in view]


def check(before: list[Message], after: list[Message], compaction: Compaction) -> None:
    """What holds of one step."""
    request = request_of(after)
    assert objections(json.loads(request_body(request, request.spec))) == []
    replies = [each for each in before if each.role == "assistant"]
    left = [each for each in after if each.role == "assistant"]
    assert left == replies[len(replies) - len(left) :]  # the newest, as they were
    assert bool(left) == bool(replies)
    assert after[-1].kind == before[-1].kind
    assert [each.kind for each in after].count("task") == [each.kind for each in before].count("task")
    if compaction.stage != "cut":
        tasks = [each.encoded for each in before if each.kind == "task"]
        assert [each.encoded for each in after if each.kind == "task"] == tasks
        newest = len(before) - next(at for at in range(len(before), 0, -1) if before[at - 1].role == "assistant")
        assert after[len(after) - newest :] == before[len(before) - newest :]  # what was not read yet
    if compaction.stage in ("results", "cut"):
        assert size_of(after) < size_of(before)
        assert not {*compaction.removed} & {*old_results(after, reports=True)}  # nothing goes twice
        assert longest_text(after, size_of(after)) <= (compaction.longest or 10**9)
    else:
        assert "- child0 Scout: look north" in json.dumps([each.content for each in after])


@given(messages=conversations(), reports=st.booleans(), readable=st.booleans())
def test_old_results_become_marks_and_no_parent_forgets_a_child(
    messages: list[Message], reports: bool, readable: bool
) -> None:
    removed = old_results(messages, reports=reports)
    after = view_of(messages, Compaction("results", 0, removed=removed, readable=readable))

    request = request_of(after)
    assert objections(json.loads(request_body(request, request.spec))) == []
    assert size_of(after) <= size_of(messages) - 100 * len(removed)
    assert not {*removed} & {*old_results(after, reports=True)}
    calls = {call.id: call.name for each in messages for call in each.tool_calls}
    names = {calls.get(each, "report") for each in removed}
    assert names <= ({"look", "get_result", "report"} if reports else {"look"})
    turns = [at for at, each in enumerate(messages) if each.role == "assistant"]
    newest = turns[-3] if len(turns) > 2 else 0
    assert after[newest:] == messages[newest:]
    marked = json.dumps([each.content for each in after])
    assert all(f"read_result(execution_id='{each}')" in marked for each in removed if readable)
