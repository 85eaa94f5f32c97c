"""Two trees side by side: which executions are the same, which differ in what, and which only one tree has."""

from pathlib import Path
from typing import Any

from runner.llm.protocol import Request
from server.views.figures import ComparedPair
from tests.server.views.test_trees import CONFIG, DEEP, views_of
from tests.support.models import Turn, call, say, shared
from tests.support.service import bench


def two(*, first: Any, then: Any) -> Any:
    """The turns of an agent in two runs."""
    return shared(*first, *then)


def told(pair: ComparedPair) -> tuple[int, str, str, list[str]]:
    """What a pair says, without what the clock decides."""
    return pair.level, pair.agent, pair.change, [each for each in pair.differs if each != "time"]


async def test_two_equal_runs_are_equal_although_their_ids_differ(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, DEEP) as opened:
        a, b = await opened.run("Lead"), await opened.run("Lead")
        found = await views_of(opened).compare(a.id, b.id)

    assert found.equal
    assert [told(pair) for pair in found.pairs] == [
        (0, "Lead", "same", []),
        (1, "Middle", "same", []),
        (2, "Worker", "same", []),
    ]
    assert (found.a.id, found.b.id, found.a.executions, found.b.executions) == (a.id, b.id, 3, 3)


async def test_answers_that_cite_their_own_calls_are_equal(tmp_path: Path) -> None:
    def citing(request: Request) -> Turn:
        blocks = [block for message in request.messages for block in message.content]
        used = next(block["id"] for block in blocks if block["type"] == "tool_use")
        return say(f"it is there (`outrider show {used}`)")

    lead: Any = DEEP["Lead"]
    scripts = {**DEEP, "Lead": [*lead[:-1], citing]}
    async with bench(tmp_path, CONFIG, scripts) as opened:
        a, b = await opened.run("Lead"), await opened.run("Lead")
        found = await views_of(opened).compare(a.id, b.id)

    assert found.equal
    assert found.a.answer == "it is there (`outrider show …`)"


async def test_what_differs_is_named_and_what_only_one_has_stands_below_its_parent(tmp_path: Path) -> None:
    middle = call("dispatch_agent", name="Middle", task="look")
    scripts = {
        "Lead": two(first=DEEP["Lead"], then=[middle, say("waiting"), say("nothing done")]),
        "Middle": two(first=DEEP["Middle"], then=[say("found nothing")]),
        "Worker": [say("found it")],
    }
    async with bench(tmp_path, CONFIG, scripts) as opened:
        a, b = await opened.run("Lead"), await opened.run("Lead")
        views = views_of(opened)
        found, other = await views.compare(a.id, b.id), await views.compare(b.id, a.id)

    assert not found.equal
    assert [(pair.level, pair.agent, pair.change) for pair in found.pairs] == [
        (0, "Lead", "changed"),
        (1, "Middle", "changed"),
        (2, "Worker", "only_a"),
    ]
    assert [pair.change for pair in other.pairs] == ["changed", "changed", "only_b"]
    assert {"answer", "calls"} <= set(found.pairs[0].differs)
    assert {"task", "answer", "calls"} <= set(found.pairs[1].differs)
    assert found.pairs[2].b is None
    assert found.pairs[2].a is not None
    assert found.pairs[2].a.answer == "found it"


async def test_children_are_paired_by_their_tasks_before_their_order(tmp_path: Path) -> None:
    def middle(request: Request) -> Turn:
        first, second = request.messages[0].content[0]["text"].split()[:2]
        if len(request.messages) > 1:
            return say("done")
        return call("dispatch_agent", name="Worker", task=first) + call("dispatch_agent", name="Worker", task=second)

    scripts = {"Middle": middle, "Worker": [say("worked")]}
    async with bench(tmp_path, CONFIG, scripts) as opened:
        a, b = await opened.run("Middle", "x y"), await opened.run("Middle", "y z")
        found = await views_of(opened).compare(a.id, b.id)

    pairs = [(pair.a.task if pair.a else None, pair.b.task if pair.b else None) for pair in found.pairs[1:]]
    assert pairs == [("x", "z"), ("y", "y")]
