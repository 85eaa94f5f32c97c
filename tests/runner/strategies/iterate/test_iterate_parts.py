"""What an iteration decides without any model: what is next, what became of a task, how much of it is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry import ComponentSpec, IterateSpec, Template
from runner.core.inbox import Item
from runner.messages import Delivered
from runner.result import Outcome, Problem, Result
from runner.strategies.iterate.decision import MOST_TASKS, NoDecision, read_decision
from runner.strategies.iterate.objective import Objective, objective_of
from runner.strategies.iterate.prompts import message_of, state_of
from runner.strategies.iterate.strategy import joined
from runner.strategies.iterate.tasks import TaskRecord, compressed, concluded
from tests.support.requirement import requirement

PLENTY = 100_000


def ended(output: Any = None, outcome: Outcome = Outcome.COMPLETED, status: str = "completed", **more: Any) -> Item:
    result = Result(outcome, "summary", output, **more)
    return Item("d", "result", result=Delivered("W", "x", status, outcome.value, result.text, 0), answer=result)


@requirement("S3-PO-1")
@pytest.mark.parametrize(
    ("answer", "tasks", "parallel"),
    [
        ({"nextTask": "a"}, ("a",), False),
        ({"next_task": " a ", "finished": False}, ("a",), False),
        ({"nextTasks": ["a", "b"]}, ("a", "b"), False),
        ({"nextTasks": ["a", "b"], "parallelTasks": True}, ("a", "b"), True),
        ({"parallelTasks": ["a", "b"]}, ("a", "b"), True),
        ({"nextTasks": [{"task": "a"}, {"description": "b"}, "a", 7, None]}, ("a", "b"), False),
        ({"nextTask": "a", "parallelTasks": True}, ("a",), False),
        ({"nextTask": "a", "finished": True}, (), False),
        ({"nextTask": "a", "finished": "true"}, (), False),
        ({"nextTask": ""}, (), False),
        ({}, (), False),
    ],
)
def test_a_decision_is_read_in_every_form_it_may_have(
    answer: dict[str, Any], tasks: tuple[str, ...], parallel: bool
) -> None:
    decision = read_decision(f"Here it is:\n```json\n{json.dumps(answer)}\n```")
    assert (decision.tasks, decision.parallel) == (tasks, parallel)


def test_no_object_is_no_decision_and_a_flood_of_tasks_is_cut() -> None:
    with pytest.raises(NoDecision):
        read_decision("I would go on with the tests")
    decision = read_decision(json.dumps({"nextTasks": [f"task {number}" for number in range(1000)]}))
    assert (len(decision.tasks), decision.dropped) == (MOST_TASKS, 1000 - MOST_TASKS)


@requirement("S3-TR-1", "S3-WO-1")
@pytest.mark.parametrize(
    ("end", "status", "result", "error"),
    [
        (ended('{"success": true, "result": "7"}'), "completed", "7", None),
        (ended({"success": True, "result": {"n": 7}}), "completed", {"n": 7}, None),
        (ended({"success": True}), "completed", None, None),
        (ended({"success": False, "result": "half"}), "failed", "half", "it failed"),
        (ended({"success": True, "result": "x", "error": {"message": "no"}}), "failed", "x", "no"),
        (ended({"success": True, "error": "no"}), "failed", None, "no"),
        (ended("seven files"), "completed", "seven files", None),
        (ended({"files": 7}), "completed", {"files": 7}, None),
        (ended("some", Outcome.PARTIAL, reason="time_budget"), "failed", "some", "it was only done in part (time_budget)"),
        (ended("some", Outcome.FAILED, errors=(Problem("model", "down"),)), "failed", "some", "down"),
        (ended(None, Outcome.PARTIAL, "timed_out", errors=(Problem("timeout", "too slow"),)), "failed", None, "too slow"),
        (Item("d", "result", result=Delivered("W", "x", "cancelled", None, "", 0)), "failed", None, "it ended cancelled"),
    ],
)
def test_an_end_becomes_a_record(end: Item, status: str, result: Any, error: str | None) -> None:
    record = concluded(TaskRecord("a", created_at=1), end)
    assert (record.status, record.result, record.error) == (status, result, error)
    shown = record.shown()
    assert (shown["task"], shown["createdAt"]) == ("a", 1)
    assert shown.get("error") == ({"message": error} if error else None)


def sized(*sizes: int) -> list[TaskRecord]:
    return [TaskRecord(f"task {number}", "completed", "x" * size) for number, size in enumerate(sizes, 1)]


@requirement("S3-SC-1", "S3-SC-2", "S3-SC-3", "S3-SC-4", "S3-SC-5", "S3-OP-4", "S3-BP-4")
@pytest.mark.parametrize(
    ("keep_recent", "max_tokens", "sizes", "kept"),
    [
        (None, None, (900, 900, 900), ["task 1", "task 2", "task 3"]),
        (2, None, (900, 900, 900, 900, 900), ["task 4", "task 5"]),
        (None, 700, (900, 900, 900), ["task 2", "task 3"]),
        (2, 1000, (9, 9, 900, 900), ["task 3", "task 4"]),
        (3, 350, (9, 9, 900, 900), ["task 4"]),
        (None, 10, (9, 900), ["task 2"]),
        (1, 10, (900,), ["task 1"]),
        (25, 80_000, (9,) * 30, [f"task {number}" for number in range(6, 31)]),
    ],
)
def test_the_newest_records_are_shown(
    keep_recent: int | None, max_tokens: int | None, sizes: tuple[int, ...], kept: list[str]
) -> None:
    spec = IterateSpec(keep_recent=keep_recent, max_tokens=max_tokens)
    assert [record.task for record in compressed(sized(*sizes), spec, PLENTY)] == kept


def test_a_record_longer_than_a_model_can_read_is_cut_with_a_mark() -> None:
    record = TaskRecord("a", "completed", "x" * 10_000, step_id="task.1")
    (shown,) = compressed([record], IterateSpec(), ceiling=1000)
    assert len(shown.result) < 3_200
    assert "read_result(execution_id='task.1', offset=" in shown.result


def test_so_is_one_whose_error_is_longer_than_a_model_can_read() -> None:
    record = TaskRecord("a", "failed", "half of it", error="x" * 10_000)
    (shown,) = compressed([record], IterateSpec(), ceiling=1000)
    assert (shown.result, shown.size < 1000) == ("half of it", True)
    assert shown.error is not None
    assert shown.error.endswith("of 10000 characters]")


@requirement("S3-ES-1")
def test_the_state_is_the_tasks_in_order() -> None:
    assert [task["task"] for task in state_of(sized(1, 2, 3))["tasks"]] == ["task 1", "task 2", "task 3"]


def test_what_succeeded_is_put_together_without_a_completer() -> None:
    records = [*sized(3), TaskRecord("b", "failed", "half"), TaskRecord("c", "completed", {"n": 1})]
    assert joined(records) == 'xxx\n\n{\n  "n": 1\n}'


def test_instructions_show_what_they_name_and_the_rest_is_added() -> None:
    template = Template("", "Do {{ task }}. {{ executionState | yaml.stringify }}")
    about = Objective("the objective", {"tone": "dry"}, {"tone": "dry", "hidden": 1}, frozenset({"tone"}))
    message = message_of(ComponentSpec("W", template), about, {"task": "it", "executionState": {"tasks": []}})
    assert message.startswith("Do it. tasks: []")
    assert "<objective>\nthe objective\n</objective>" in message
    assert '<input>\n{\n  "tone": "dry"\n}\n</input>' in message
    assert "<task>" not in message
    assert "<execution_state>" not in message
    assert "hidden" not in message


@pytest.mark.parametrize(
    ("template", "task", "objective"),
    [
        (None, "find it", "find it"),
        (Template("", "Research {{ topic }}"), "", "Research tides"),
        (Template("", "Research {{ topic }}"), "briefly", "Research tides\n\nbriefly"),
        (Template("", "{{ task }}, about {{ topic }}"), "Write", "Write, about tides"),
    ],
)
def test_the_objective_is_what_is_configured_and_what_is_asked(
    template: Template | None, task: str, objective: str
) -> None:
    assert objective_of(template, task, {"topic": "tides"}) == objective
