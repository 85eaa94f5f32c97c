"""JSON that a model writes in the middle of its words, without a fence, is read; hostile words cost little time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from runner.text import read_json
from tests.runner.strategies.iterate import iterated
from tests.runner.strategies.plan import planned
from tests.support.models import Turn, say
from tests.support.service import bench

AROUND = "As you wanted [see note 1] {{in short}}: {} Shall I go on [or not]?"
SIZE = 1_000_000


def in_prose(turn: Turn) -> Turn:
    """The same answer with words and brackets around it, and no fence."""
    return say(AROUND.format(turn.content[0]["text"]))


async def test_a_plan_and_a_decision_in_prose_are_read_without_another_question(tmp_path: Path) -> None:
    scripts = {"Planner": [in_prose(planned.plan(planned.A, planned.B))], "A": [say("alpha")], "B": [say("beta")]}
    async with bench(tmp_path, planned.config("compose: concat"), scripts) as service:
        ended = await service.run("Assistant")

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.text) == ("completed", "alpha\n\nbeta")
        assert [message.kind for message in service.model.of("Planner")[0].messages] == ["task"]
        assert len(service.model.of("Planner")) == 1


async def test_what_a_worker_says_in_prose_counts_as_it_does_in_a_fence(tmp_path: Path) -> None:
    scripts = {
        "TaskPlanner": lambda request: in_prose(iterated.finished() if "no disk" in request.messages[0].text else NEXT),
        "TaskWorker": [in_prose(iterated.undone("no disk"))],
        "Completer": [say("given up")],
    }
    async with bench(tmp_path, iterated.config(), scripts) as service:
        ended = await service.run("Reporter", "find out")

        assert ended.status == "completed"
        assert len(service.model.of("TaskWorker")) == 1
        assert iterated.seats(service)[1] == ("task.1", "failed")
        assert len(service.model.of("TaskPlanner")) == 2


NEXT = iterated.task("look")


async def test_a_text_that_is_wanted_as_it_is_keeps_its_words_around_an_object(tmp_path: Path) -> None:
    shaped = "{output_schema: {type: object, required: [jobs]}}"
    config = f"agents: {{Either: {{output_schema: {{type: [object, string]}}}}, Shaped: {shaped}}}"
    said = AROUND.format('{"jobs": ["write"], "note": "}"}')
    async with bench(tmp_path, config, {"*": lambda _: say(said)}) as service:
        either, object_only = await service.run("Either"), await service.run("Shaped")

        assert either.result is not None
        assert either.result.output == said
        assert object_only.result is not None
        assert object_only.result.output == {"jobs": ["write"], "note": "}"}


@pytest.mark.parametrize(
    "hostile",
    ["{", "[", '{"a":', "[1,x", '["', "{}", '{"', '{"a":1]', "[ ", '{"x" ', "```\n", "[" * 150 + "x" + "]" * 150, "\\u"],
)
def test_a_megabyte_of_brackets_is_looked_through_in_little_time(hostile: str) -> None:
    text = hostile * (SIZE // len(hostile))
    begun = time.perf_counter()
    found = read_json(text, lambda value: bool(value) and isinstance(value, dict))
    assert (found, time.perf_counter() - begun < 10) == (None, True)


def test_the_longest_value_that_fits_is_taken_and_what_no_store_accepts_is_made_clean() -> None:
    text = 'not {"steps": []} but {"steps": [{"task": "a \\"]} b"}], "note": "\\ud800"} [1]'
    assert read_json(text, lambda value: "steps" in value) == {"steps": [{"task": 'a "]} b'}], "note": "?"}
    assert read_json("of {no} use [at all") is None
    assert read_json(f"[unclosed {json.dumps({'a': [1]})}") == {"a": [1]}
