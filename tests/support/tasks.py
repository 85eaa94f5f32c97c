"""The client half of MCP tasks, for tests: a call that becomes a task keeps its handle.

Owns: the requests `tasks/*`, and the claim of task results. Must not know: the face.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import mcp.types as t
from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from pydantic import ConfigDict

IDENTIFIER = "io.modelcontextprotocol/tasks"


class Handle(t.Result):
    """A task, as a call that became one answers."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class TaskParams(t.RequestParams):
    """Which task, and what it is told."""

    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(t.Request[TaskParams, str]):
    """Any of `tasks/get`, `tasks/update` and `tasks/cancel`."""

    name_param = "taskId"


class Answer(t.Result):
    """Whatever comes."""

    model_config = ConfigDict(extra="allow")


class Tasks(ClientExtension):
    """Declares the extension, and keeps the handles of tasks."""

    identifier = IDENTIFIER

    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """The result type of the extension."""
        return [ResultClaim(result_type="task", model=Handle, resolve=self._keep)]

    async def _keep(self, handle: Handle, _: ClaimContext) -> t.CallToolResult:
        self.handles.append(handle)
        return t.CallToolResult(content=[], is_error=True)  # the SDK validates any other result against the tool's schema


async def ask(client: Client, method: str, task: str, **more: Any) -> dict[str, Any]:
    """Send one of `tasks/*`; returns the answer as received."""
    request = TaskRequest(method=f"tasks/{method}", params=TaskParams(task_id=task, **more))
    answer = await client.session.send_request(request, Answer)
    return answer.model_dump(by_alias=True, exclude_none=True)
