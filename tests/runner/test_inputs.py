"""What an agent is given fits its `input_schema`, with its defaults filled in; what does not fit starts nothing."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from registry import meant
from runner.errors import Refusal
from runner.service.order import Order
from server.cli.live.run_arguments import RunArguments, order_of
from server.cli.terminal.exits import CommandError
from tests.support.models import say
from tests.support.requirement import requirement
from tests.support.service import bench, settings_of

CONFIG = """
models: {m: {model: unpriced}}
agents:
  Analyst:
    input_schema:
      type: object
      properties:
        target: {type: string, description: what to look at}
        depth: {type: number, maximum: 3}
        includeTests: {type: boolean, default: false}
        options: {type: object, properties: {colour: {type: string, default: blue}}}
        style: {type: object, default: {}, properties: {tone: {type: string, default: dry}}, required: [tone]}
      required: [target]
  Free: {}
"""


@requirement("S3-OP-5", "S3-BP-8")
async def test_defaults_are_filled_in_and_the_model_sees_them(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Analyst": [say("seen"), say("again")], "Free": [say("as it is")]}) as service:
        ended = await service.run("analyst", input={"target": "src", "options": {}})
        await service.run("Free", input={"anything": 1})

        assert ended.status == "completed"
        kept = [from_json(row["input"]) for row in service.sql("select input from executions order by id")]
        filled = {"target": "src", "options": {"colour": "blue"}, "includeTests": False, "style": {"tone": "dry"}}
        assert kept == [filled, {"anything": 1}]
        [first] = service.sql("select content from messages where position = 0 and content like '%target%'")
        assert "includeTests" in first["content"]


@requirement("S3-OP-5", "S3-BP-8")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": 7}, "`$.target`: 7 is not of type 'string'"),
        ({"target": "src", "depth": 4}, "`$.depth`: 4 is greater than the maximum of 3"),
        ({"depth": 1}, "`$`: 'target' is a required property"),
        (None, "`$`: 'target' is a required property"),
        (["src"], "`$`: ['src'] is not of type 'object'"),
    ],
)
async def test_input_that_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, given: Any, message: str
) -> None:
    async with bench(tmp_path, CONFIG, {}) as service:
        with pytest.raises(Refusal) as caught:
            await service.dispatcher.start(Order("Analyst", "look", given))

        assert (caught.value.kind, service.sql("select id from executions")) == ("invalid_input", [])
        assert str(caught.value) == f"invalid input for `Analyst`: {message}"
        assert caught.value.hint == "pass `target` (required), `depth`, `includeTests`, `options`, `style`"


async def test_the_same_key_means_the_same_input_with_or_without_its_defaults(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Analyst": [say("once")]}) as service:
        orders = [
            Order("Analyst", "look", given, key="k")
            for given in ({"target": "src"}, {"target": "src", "includeTests": False})
        ]
        started = [(await service.dispatcher.start_once(order)) for order in orders]
        await service.ended(started[0][0].id)

        assert [again for _, again in started] == [False, True]
        assert started[0][0].id == started[1][0].id


@pytest.mark.parametrize(
    ("word", "schema", "value"),
    [
        ("2024", {"type": "string"}, "2024"),
        ("2024", {"type": "integer"}, 2024),
        ("2024", {}, 2024),
        ("true", {"type": ["string", "number"]}, "true"),
        ("true", {"type": "boolean"}, True),
        ('"quoted"', {"type": "string"}, "quoted"),
        ("[1]", {"$ref": "#/$defs/list"}, [1]),
        ("[1]", {"enum": ["[1]"]}, "[1]"),
        ("many", {"type": "integer"}, "many"),
        ("null", False, None),
    ],
)
def test_a_word_on_the_command_line_is_of_the_type_that_is_wanted(word: str, schema: Any, value: Any) -> None:
    whole = {"$defs": {"list": {"type": "array"}}, "properties": {"it": schema}}

    assert meant(word, "it", whole) == value


def test_an_agent_with_an_objective_of_its_own_needs_no_task(tmp_path: Path) -> None:
    config = "agents: {Knows: {strategy: iterate, iterate: {objective: Do it}}, Asks: {strategy: iterate}}"
    settings = settings_of(tmp_path, config)

    assert order_of(RunArguments("Knows"), settings).task == ""
    with pytest.raises(CommandError, match="no task for `Asks`"):
        order_of(RunArguments("Asks"), settings)
