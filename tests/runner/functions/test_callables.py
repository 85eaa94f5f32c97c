"""Functions that a configuration names: found, typed, called where they belong, stopped like any other agent."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import anyio.to_thread
import pytest

from registry import ConfigError
from runner.result import Result
from runner.service.order import Order
from tests.runner.functions import sample_functions
from tests.runner.functions.sample_functions import Seen, begin_anew
from tests.runner.resume.resuming import after_a_stop
from tests.support.models import say
from tests.support.reading import delivered, dispatch
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

SAMPLES = "tests.runner.functions.sample_functions"

KINDS = f"""
models: {{m: {{model: any}}}}
users: {{alex: {{}}}}
agents:
  Add: {{function: '{SAMPLES}:add', description: adds two numbers}}
  Price: {{function: '{SAMPLES}:price', strategy: function}}
  Shout: {{function: '{SAMPLES}:shout'}}
  Find: {{function: '{SAMPLES}:find', timeout: 60s}}
  Half: {{function: '{SAMPLES}:half'}}
  Nothing: {{function: '{SAMPLES}:nothing'}}
  Leave: {{function: '{SAMPLES}:leave'}}
  Later: {{function: '{SAMPLES}:later'}}
  Double: {{function: '{SAMPLES}:double', output_schema: {{properties: {{number: {{maximum: 10}}}}}}}}
  Block: {{function: '{SAMPLES}:block', description: blocks}}
  Wait: {{function: '{SAMPLES}:wait', description: waits}}
  Lead: {{sub_agents: [Add, Block, Wait]}}
agent_chains:
  line: {{stages: [{{name: one, agents: [Add]}}]}}
"""


@pytest.fixture
def seen() -> Iterator[Seen]:
    """What functions leave behind."""
    fresh = begin_anew()
    yield fresh
    fresh.gate.set()


async def reached(event: Event) -> None:
    """Wait until a function is where the test wants it."""
    assert await anyio.to_thread.run_sync(event.wait, 20)


async def answer(
    service: Bench, agent: str, task: str = "go", /, seconds: float | None = None, **fields: Any
) -> tuple[str, Any]:
    """How a function ended, and its whole output or what went wrong."""
    ended = await service.run(agent, task, input=fields or None, timeout=seconds)
    assert ended.result is not None
    stored = service.sql("select result from executions where id = ?", ended.id)[0]["result"]
    assert Result.of_json(stored) == ended.result, "what is stored is what was returned"
    return ended.status, ended.result.output if ended.status == "completed" else ended.result.errors[0].type


async def test_functions_of_every_kind_get_typed_values_and_return_what_they_like(tmp_path: Path, seen: Seen) -> None:
    async with bench(tmp_path, KINDS, {}) as service:
        assert await answer(service, "Add", a="40", b=2) == ("completed", {"sum": 42})
        assert await answer(service, "Add", a=1, unknown=True) == ("completed", {"sum": 2})
        priced = {"day": "2026-11-17", "cents": 5}
        assert await answer(service, "Price", day="2026-11-17", shop="here") == ("completed", priced)
        assert await answer(service, "Shout", "hello", task="no") == ("completed", "HELLO")
        assert await answer(service, "Find", prices=[priced]) == ("completed", {"path": "here", "names": ["one"]})
        assert await answer(service, "Half", "it") == ("completed", {"half": 1})
        assert await answer(service, "Nothing") == ("completed", None)
        assert await answer(service, "Later") == ("completed", {"day": "2026-01-02", "cents": 5})
        assert await answer(service, "Double", number=4) == ("completed", {"number": 8.0})
        assert await answer(service, "line", a=1, b=1) == ("completed", {"sum": 2})
        assert not service.sql("select 1 from model_calls")

    assert (date(2026, 11, 17), "EUR", {"shop": "here"}) in seen.calls


async def test_what_a_function_gets_wrong_is_a_failure_of_its_execution_alone(tmp_path: Path, seen: Seen) -> None:
    async with bench(tmp_path, KINDS, {}) as service:
        assert await answer(service, "Leave") == ("failed", "function_failed")
        assert await answer(service, "Double", number=6) == ("failed", "validation")
        assert await answer(service, "Add") == ("failed", "invalid_input")
        assert await answer(service, "Price", day="tomorrow", currency="secret") == ("failed", "invalid_input")
        ended = await service.run("Add", input={"b": -1, "a": {"secret": 1}})

    assert ended.result is not None
    [problem] = ended.result.errors
    assert problem.message.startswith("the function of `Add` was not called: `a`: input should be a valid integer; `b`: ")
    assert "secret" not in problem.message
    assert not problem.recoverable
    assert problem.recommendation is not None
    assert seen.calls == [], "nothing is called with values that do not fit"


async def test_a_function_knows_its_execution_and_says_what_it_is_doing(tmp_path: Path, seen: Seen) -> None:
    async with bench(tmp_path, KINDS, {}) as service, service.dispatcher.services.bus.watch() as news:
        started = await service.dispatcher.start(Order("Find", "go", {"prices": []}, session="sess_1_abcdef", user="alex"))
        ended = await service.ended(started.id)
        said = [json.loads(each["payload"]).get("action") for each in _received(news)]

    [context] = seen.contexts
    assert (context.execution_id, context.session_id, context.depth, context.path) == (
        ended.id,
        "sess_1_abcdef",
        0,
        ("Find",),
    )
    assert context.user is not None
    assert context.user.id == "alex"
    assert 0 < (context.deadline - datetime.now(UTC)).total_seconds() <= 60
    assert "looking at 0 prices" in said


def _received(news: Any) -> Iterator[Any]:
    while news.statistics().current_buffer_used:
        yield news.receive_nowait()


async def test_a_model_gives_the_fields_of_a_function_as_an_object(tmp_path: Path, seen: Seen) -> None:
    scripts = {"Lead": [dispatch("Add", '{"a": 2, "b": 3}') + dispatch("Add", "2 and 3"), *(say(text) for text in "abcd")]}
    async with bench(tmp_path, KINDS, scripts) as service:
        await service.run("Lead")
        told = sorted((each.status, each.text) for each in delivered(service.model.of("Lead")[-1]))

    assert told[0] == ("completed", '{\n  "sum": 5\n}')
    assert told[1][0] == "failed"
    assert "`a` is missing" in told[1][1]
    assert seen.calls == [(2, 3)]


@pytest.mark.parametrize("agent", ["Block", "Wait"])
async def test_a_function_is_stopped_by_its_deadline_and_by_a_cancel(tmp_path: Path, seen: Seen, agent: str) -> None:
    async with bench(tmp_path, KINDS, {"Lead": [dispatch(agent), say("I wait")]}) as service:
        assert await answer(service, agent, seconds=0.1) == ("timed_out", "timeout")
        await reached(seen.stopped)

        again = begin_anew()
        lead = await service.dispatcher.start(Order("Lead", "go"))
        await reached(again.started)
        await service.dispatcher.cancel(lead.id, "somebody", "enough")
        await service.ended(lead.id)
        await reached(again.stopped)

        assert service.statuses() == {agent: ["timed_out", "cancelled"], "Lead": ["cancelled"]}
        assert not service.sql("select 1 from error_records where type = 'cancelled'")


async def test_a_service_that_goes_on_calls_a_function_again_unless_it_is_to_fail(tmp_path: Path, seen: Seen) -> None:
    config = f"""
    models: {{m: {{model: any}}}}
    agents:
      Number: {{function: '{SAMPLES}:number_two'}}
      Once: {{function: '{SAMPLES}:number_two', on_restart: fail}}
    """
    async with bench(tmp_path, config, {}) as service:
        await service.dispatcher.start(Order("Number", "go"))
        await reached(seen.started)
        again = begin_anew()
        await service.dispatcher.start(Order("Once", "go"))
        await reached(again.started)
    last = begin_anew()
    last.gate.set()

    async with after_a_stop(tmp_path, {}, config=config) as service:
        await service.until(lambda: not service.sql("select 1 from executions where finished_at is null"))
        assert service.statuses() == {"Number": ["completed"], "Once": ["failed"]}
        [row] = service.sql("select result from executions where agent = 'Number'")
        items = service.sql("select number from work_items")

    assert (seen.calls, again.calls, last.calls) == ([[1, 2]], [[3, 4]], [[1, 2]])
    assert Result.of_json(row["result"]).output == [1, 2]
    assert [item["number"] for item in items] == [1, 2, 3, 4], "what it had added before it was stopped is not added twice"


@requirement("S1-T1", "S1-RF-6")
async def test_tasks_that_are_numbered_at_once_get_different_numbers(tmp_path: Path) -> None:
    config = """
    models: {m: {model: any}}
    agents: {atomic-task-numberer: {function: 'outrider:add_item'}}
    work_items: {board: crew, items: {41: {title: Known}}}
    """
    results: list[Result] = []

    async def number(service: Bench, task: str, **fields: str) -> None:
        ended = await service.run("atomic-task-numberer", task, input=fields or None, session="sess_1_abcdef")
        assert ended.result is not None
        results.append(ended.result)

    async with bench(tmp_path, config, {}) as service:
        async with anyio.create_task_group() as group:
            group.start_soon(number, service, "Create test task")
            group.start_soon(lambda: number(service, "add it", title="Prove it", language="lean"))
        rows = service.sql("select number, title, language, status from work_items where number > 41 order by title")
        assert not service.sql("select 1 from model_calls")

    assert sorted(each.output["task_number"] for each in results) == [42, 43]
    assert [tuple(row.values())[1:] for row in rows] == [
        ("Create test task", None, "not_started"),
        ("Prove it", "lean", "not_started"),
    ]
    first = next(each for each in results if "Create test task" in each.summary)
    assert first.output["status"] == "completed"
    assert first.output["summary"] == first.summary == f"Task {first.output['task_number']} was added: Create test task"
    assert first.output["metadata"]["session_id"] == "sess_1_abcdef"


async def test_a_module_beside_the_configuration_is_found(tmp_path: Path) -> None:
    (tmp_path / "beside_the_configuration.py").write_text("def greet(name: str = 'you') -> str: return f'hello {name}'")
    config = "models: {m: {model: any}}\nagents: {Greet: {function: 'beside_the_configuration:greet'}}"
    async with bench(tmp_path, config, {}) as service:
        assert await answer(service, "Greet", name="Ada") == ("completed", "hello Ada")


BROKEN = {
    "no_such_module:f": ("no module `no_such_module`", "put `no_such_module.py` beside"),
    "tests.no_such_module:f": ("no module `tests.no_such_module`", "beside"),
    f"{SAMPLES}:Price.nowhere": ("has no `Price.nowhere`", "look into"),
    f"{SAMPLES}:seen": ("`seen` is not a function", "name a function"),
    "json:loads": ("`json` is another module: ", "give `json.py` another name"),
    "faulty_functions:f": ("cannot be imported: ZeroDivisionError", "try"),
    "needy_functions:f": ("`needy_functions` needs the missing module `nobody_has_this`", "install"),
    "odd_functions:positional": ("its parameter `a` cannot be given by name", "change its parameters"),
    "odd_functions:several": ("its parameter `many` cannot be given by name", "change its parameters"),
    "odd_functions:unknown": ("its parameters cannot be read: ", "change its parameters"),
    "odd_functions:unchecked": ("values of its parameter `a` cannot be checked", "change its parameters"),
    "odd_functions:twice": ("both `one` and `other` are its `Context`", "change its parameters"),
}


async def test_whatever_cannot_be_called_is_told_in_one_report_before_anything_begins(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("loads = None")
    (tmp_path / "faulty_functions.py").write_text("1 / 0")
    (tmp_path / "needy_functions.py").write_text("import nobody_has_this")
    odd = """
        from runner import Context
        def positional(a, /): ...
        def several(*many): ...
        def unknown(a: "Nowhere"): ...
        def unchecked(a: object()): ...
        def twice(one: Context, other: Context): ...
    """
    (tmp_path / "odd_functions.py").write_text(textwrap.dedent(odd))
    agents = "".join(f"  A{index}: {{function: '{name}'}}\n" for index, name in enumerate(BROKEN))

    with pytest.raises(ConfigError) as caught:
        async with bench(tmp_path, f"models: {{m: {{model: any}}}}\nagents:\n{agents}", {}):
            pytest.fail("it began")

    assert len(caught.value.problems) == len(BROKEN)
    for problem, (name, (message, hint)) in zip(caught.value.problems, BROKEN.items(), strict=True):
        assert problem.message.startswith(f"`{name}` cannot be called: ")
        assert message in problem.message
        assert hint in problem.hint
    assert [problem.line for problem in caught.value.problems] == list(range(3, 3 + len(BROKEN)))
    assert not (tmp_path / "outrider.db").exists()
    assert sample_functions.seen is not None
