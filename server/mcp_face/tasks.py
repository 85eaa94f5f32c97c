"""Tasks: an execution as an MCP task (extension `io.modelcontextprotocol/tasks`), with the same id.

Owns which calls become tasks, and the form of an execution as a task. There is no second store: a task is read from the row
of its execution, so it is durable before its id is returned and survives the process. The protocol reserves `failed` for
internal errors: an execution that failed at its work is a completed task whose result is marked as an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from server.mcp_face.elicitation import can_be_asked, elicitation
from server.mcp_face.introduction import TASKS

if TYPE_CHECKING:
    from runner.snapshot import Question, Snapshot
    from server.mcp_face.client import Client

OURS = frozenset({"internal", "interrupted", "function_failed"})
"""Internal errors, as opposed to failed work: the execution has no result."""
LATE = "io.github.outrider-dev/late"
"""The key in `_meta` of a `tasks/update` result: the decisions that were made before late answers."""
POLL_MS = 1_000
"""The poll interval suggested to clients."""

Context = ServerRequestContext[Any, Any]
FindClient = Callable[[Context], Awaitable["Client"]]


class TaskParams(t.RequestParams):
    """Which task."""

    task_id: str


class TaskUpdateParams(TaskParams):
    """Answers to what a task asked, by name."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


def serve_tasks(server: Server[Any], find_client: FindClient) -> None:
    """Register the handlers of `tasks/*`, and declare the extension."""
    requests = _TaskRequests(find_client)
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, requests.get)
    server.add_request_handler("tasks/update", TaskUpdateParams, requests.update)
    server.add_request_handler("tasks/cancel", TaskParams, requests.cancel)


def becomes_task(ctx: Context, tool: str) -> bool:
    """Whether a call returns a task: the client declared the extension, and the tool starts an execution."""
    from server.mcp_face.tools import STARTING

    capabilities = ctx.session.client_capabilities
    declared = (capabilities.extensions if capabilities is not None else None) or {}
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and TASKS in declared and tool in STARTING


async def started(client: Client, execution: str) -> dict[str, Any]:
    """The result of a call that became a task. The row of the execution is committed."""
    return {"resultType": "task", **await _task(client, execution)}


class _TaskRequests:
    """The handlers of `tasks/*`."""

    def __init__(self, find_client: FindClient) -> None:
        self._find_client = find_client

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """The state of a task, with its result or its open questions."""
        client = await self._client(ctx, params)
        task = await _task(client, params.task_id)
        questions = await client.questions(task["taskId"]) if task["status"] == "working" else ()
        live = client.dispatcher.tree.get(task["taskId"])
        if not questions and live is not None and live.allowance.stands:
            from server.caller.caller import GOES_ON  # late, as in the handlers of tools

            return {**task, "statusMessage": f"{live.name}: {GOES_ON}"}
        if not questions:
            return task
        if not can_be_asked(ctx.session.client_capabilities):
            first = questions[0]
            return {**task, "statusMessage": f"{first.agent}: {_waits(first)}"}
        asked = {each.id: _wire(elicitation(each)) for each in questions}
        return {**task, "status": "input_required", "inputRequests": asked}

    async def update(self, ctx: Context, params: TaskUpdateParams) -> dict[str, Any]:
        """Apply answers to its questions; answers to unknown questions are ignored."""
        client = await self._client(ctx, params)
        task = await _task(client, params.task_id)
        await client.answer_all([task["taskId"]], params.input_responses, None)
        return {"_meta": {LATE: client.late}} if client.late else {}

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """Cancel the execution and its subtree; an ended one is left as it is."""
        client = await self._client(ctx, params)
        task = await _task(client, params.task_id)
        await client.stop(task["taskId"], "its task was cancelled", wrap_up=False)
        return {}

    async def _client(self, ctx: Context, params: TaskParams) -> Client:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(t.METHOD_NOT_FOUND, "Method not found", ctx.method)
        require_client_extension(ctx, TASKS)
        if ctx.request is not None and ctx.request.headers.get("mcp-name") != params.task_id:
            raise MCPError(t.HEADER_MISMATCH, "the header Mcp-Name is not the taskId of the body")
        return await self._find_client(ctx)


async def _task(client: Client, execution: str) -> dict[str, Any]:
    from server.mcp_face.text import progress_in_words

    row = await client.row(execution)
    if row is None:
        raise MCPError(t.INVALID_PARAMS, "there is no such task")
    child = client.of_row(row)
    used = (await client.subtree_usage([child.id])).get(child.id)
    shown: dict[str, Any] = {
        "taskId": child.id,
        "status": _status(child, row["error_type"]),
        "createdAt": row["created_at"],
        "lastUpdatedAt": row["finished_at"] or row["started_at"] or row["created_at"],
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
    if not child.ended:
        shown["statusMessage"] = progress_in_words(child.agent, _activity(client, child), used)
    elif shown["status"] == "failed":
        shown["error"] = {"code": t.INTERNAL_ERROR, "message": row["error"] or "it failed inside Outrider"}
    elif shown["status"] == "completed":
        shown["result"] = _result(child, used)
    return shown


def _waits(question: Question) -> str:
    return f"the user must decide whether it may call {question.tool} (execution {question.execution_id})"


def _wire(request: t.ElicitRequest) -> dict[str, Any]:
    return request.model_dump(by_alias=True, mode="json", exclude_none=True)


def _status(child: Snapshot, error_type: str | None) -> str:
    if not child.ended:
        return "working"
    if child.status == "failed" and error_type in OURS:
        return "failed"
    return "cancelled" if child.status == "cancelled" else "completed"


def _activity(client: Client, child: Snapshot) -> str:
    live = client.dispatcher.tree.get(child.id)
    return (live.activity if live is not None else child.activity) or child.status


def _result(child: Snapshot, used: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The result of the call, as if it had waited."""
    from runner.tools.builtin import answer
    from runner.tools.dispatch import GET_RESULT, describe
    from server.mcp_face.calls import wire

    # `note` is required by the output schema of the tools that dispatch.
    result = wire(GET_RESULT, answer(describe(child, used) | {"note": "It has ended."}))
    if child.status != "completed":
        result = result.model_copy(update={"is_error": True})
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)
