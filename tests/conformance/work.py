"""Fixtures that take their time: agents that are functions, called through the product's own `run_agent`.

Owns what the suite's task tools do. Each call is only renamed and handed on, so every task the suite sees is an execution:
its id, status, result, questions and cancellation are the product's.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import mcp_types as t
from mcp.server.mcpserver import require_client_extension

from registry import AgentSpec
from runner.result import Outcome, Result
from runner.services import AgentFunction
from server.mcp_face.questions import Questions
from server.mcp_face.tasks import TASKS
from tests.conformance.asking import NAME, content_of, elicitation
from tests.conformance.fixture import FIXTURES, Answer, Context, Fixture, Run, say

CONFIRM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
ONLY_AS_TASKS = frozenset({"failing_job", "protocol_error_job"})
"""Tools that refuse clients without tasks."""


class Work:
    """The task tools of one server."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._started: dict[str, tuple[anyio.Event, list[str]]] = {}
        """Calls that ask something, until they know which execution they became."""

    @property
    def functions(self) -> Mapping[str, AgentFunction]:
        """The agents by name."""
        return {
            "slow_compute": self._slow_compute,
            "failing_job": _failing_job,
            "protocol_error_job": _protocol_error_job,
            "confirm_delete": self._ask,
            "multi_input": self._ask,
            "test_tool_with_task": _greeting,
        }

    def enter(self, product: Run) -> None:
        """Enter the tools among the fixtures; `product` answers a call as it does for every client."""
        FIXTURES["greet"] = Fixture("greet", _greet, {"type": "object", "properties": {"name": {"type": "string"}}})
        for name in self.functions:
            FIXTURES[name] = Fixture(name, partial(self._call, product), {"type": "object"})

    async def _call(self, product: Run, ctx: Context, params: t.CallToolRequestParams) -> Answer:
        """Hand a call on to `run_agent`."""
        if params.name in ONLY_AS_TASKS:
            require_client_extension(ctx, TASKS)
        given = dict(params.arguments or {})
        if params.name == "test_tool_with_task":
            entered = content_of(params, "user_name")
            if entered is None:
                question = elicitation("What is your name?", NAME)
                return t.InputRequiredResult(input_requests={"user_name": question})
            given |= entered
        token = given["token"] = secrets.token_hex(8)
        started, ids = self._started[token] = anyio.Event(), list[str]()
        renamed = t.CallToolRequestParams(
            name="run_agent", arguments={"name": params.name, "task": json.dumps(given)}, _meta=params.meta
        )
        answer = await product(ctx, renamed)
        if isinstance(answer, dict):
            ids.append(answer["taskId"])
            started.set()
        return answer

    async def _slow_compute(self, task: str, _input: Any) -> str:
        """Takes as many seconds as it is told."""
        given = json.loads(task)
        with anyio.move_on_after(given["seconds"]):
            await anyio.sleep_forever()
        return f"computed {given['label']}"

    async def _ask(self, task: str, _input: Any) -> str:
        """Asks one question about a file, or two when there is none."""
        given = json.loads(task)
        started, ids = self._started.pop(given["token"])
        await started.wait()
        names = ["confirm"] if "filename" in given else ["first", "second"]
        question = elicitation("Are you sure?", CONFIRM).model_dump(by_alias=True, mode="json", exclude_none=True)
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(self._questions.ask, ids[0], name, question)
        return "all is answered"


def agents(names: Mapping[str, AgentFunction]) -> list[AgentSpec]:
    """The agents as the settings know them."""
    return [AgentSpec(name=name, description="A fixture.", strategy="function") for name in names]


async def _greet(_ctx: Context, params: t.CallToolRequestParams) -> Answer:
    return say(f"Hello, {(params.arguments or {}).get('name')}!")


async def _failing_job(_task: str, _input: Any) -> Result:
    return Result(Outcome.FAILED, "it could not be done", "it could not be done")


async def _protocol_error_job(_task: str, _input: Any) -> str:
    raise LookupError("a defect of the server, not of the work")


async def _greeting(task: str, _input: Any) -> str:
    return f"Hello, {json.loads(task)['name']}!"
