"""Fixtures that take their time: agents, most of them functions, called through the product's own `run_agent`.

Owns what the suite's task tools do. Each call is only renamed and handed on, so every task the suite sees is an execution:
its id, status, result, questions and cancellation are the product's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import mcp_types as t
from mcp.server.mcpserver import require_client_extension

from registry import AgentSpec
from runner.functions.callables import AgentFunction
from runner.result import Outcome, Result
from server.mcp_face.introduction import TASKS
from tests.conformance.asking import NAME, content_of, elicitation
from tests.conformance.fixture import FIXTURES, Answer, Context, Fixture, Run
from tests.conformance.fixture import say as told
from tests.support.local_tools import LocalTools
from tests.support.models import Turn, call, say

ONLY_AS_TASKS = frozenset({"failing_job", "protocol_error_job"})
"""Tools that refuse clients without tasks."""


ASKING: Mapping[str, Sequence[Turn]] = {
    "confirm_delete": [call("delete", what="the file"), say("all is answered")],
    "multi_input": [call("delete", what="the first") + call("delete", what="the second"), say("all is answered")],
}
"""Agents that call a tool which a person must allow: the product itself asks."""


async def _delete(_arguments: Mapping[str, Any]) -> str:
    return "deleted"


GATED = LocalTools({"delete": _delete}, gate="ask").for_agents(*ASKING)


def enter_work(product: Run) -> None:
    """Enter the task tools among the fixtures; `product` answers a call as it does for every client."""
    FIXTURES["greet"] = Fixture("greet", _greet, {"type": "object", "properties": {"name": {"type": "string"}}})
    for name in (*FUNCTIONS, *ASKING):
        FIXTURES[name] = Fixture(name, partial(_call, product), {"type": "object"})


async def _call(product: Run, ctx: Context, params: t.CallToolRequestParams) -> Answer:
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
    renamed = t.CallToolRequestParams(
        name="run_agent", arguments={"name": params.name, "task": json.dumps(given)}, _meta=params.meta
    )
    return await product(ctx, renamed)


async def _greet(_ctx: Context, params: t.CallToolRequestParams) -> Answer:
    return told(f"Hello, {(params.arguments or {}).get('name')}!")


async def _slow_compute(task: str, _input: Any) -> str:
    """Takes as many seconds as it is told."""
    given = json.loads(task)
    with anyio.move_on_after(given["seconds"]):
        await anyio.sleep_forever()
    return f"computed {given['label']}"


async def _failing_job(_task: str, _input: Any) -> Result:
    return Result(Outcome.FAILED, "it could not be done", "it could not be done")


async def _protocol_error_job(_task: str, _input: Any) -> str:
    raise LookupError("a defect of the server, not of the work")


async def _greeting(task: str, _input: Any) -> str:
    return f"Hello, {json.loads(task)['name']}!"


FUNCTIONS: Mapping[str, AgentFunction] = {
    "slow_compute": _slow_compute,
    "failing_job": _failing_job,
    "protocol_error_job": _protocol_error_job,
    "test_tool_with_task": _greeting,
}
"""Agents that are no models, by name."""

AGENTS = [AgentSpec(name=name, description="A fixture.", strategy="function") for name in FUNCTIONS]
"""The same, as the settings know them."""
