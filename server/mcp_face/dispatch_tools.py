"""The tools of a client that start or steer an execution: `run_agent`, `run_chain`, `send_message`.

Owns their arguments and answers. `run_agent` dispatches and waits in one call. The wait is bounded; the execution continues
after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from registry.text.durations import LONGEST
from runner.errors import Refusal
from runner.messages import ToolCall
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.dispatch import (
    ASK_FOR_IT,
    DEFAULT_WAIT,
    LONGEST_WAIT,
    DispatchArguments,
    DispatchTools,
    DispatchWithInput,
    GetResultArguments,
    dispatch_answer,
    missing,
    takes_input,
)
from runner.tools.protocol import ToolResult
from server.caller.chain_order import ChainRefused, ChainRequest, chain_order

if TYPE_CHECKING:
    from server.mcp_face.client import Client

RUN_AGENT, RUN_CHAIN, SEND_MESSAGE = "run_agent", "run_chain", "send_message"


class RunAgentArguments(DispatchArguments):
    """The agent, its task, and how long to wait for the answer."""

    wait_seconds: float = Field(
        default=DEFAULT_WAIT,
        ge=0,
        le=LONGEST_WAIT,
        description="How long to wait; then it goes on.",
    )


class RunAgentWithInput(RunAgentArguments, DispatchWithInput):
    """The same, where some agent takes more than a task."""


class RunChainArguments(Arguments):
    """Which chain, and what it gets."""

    chain: str = Field(min_length=1, description="Which chain.")
    input: dict[str, Any] | None = Field(default=None, description="An alert as Alertmanager sends it, or facts.")
    task: str = Field(default="", description="What to find out, unless an alert says it.")
    timeout_seconds: float | None = Field(default=None, gt=0, le=LONGEST, description="Its time limit.")
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="The same key gives the same execution.",
    )


class SendMessageArguments(Arguments):
    """The execution and the message."""

    execution_id: str = Field(description="Whole or short id.")
    text: str = Field(min_length=1, max_length=20_000, description="What it should know or do.")


def start_tools(client: Client) -> list[OwnTool[Any]]:
    tools = _StartTools(client)
    return [
        OwnTool(
            SEND_MESSAGE,
            "Say something to an agent. A running one reads it before its next step; an ended one is continued by a new "
            "execution, whose id is returned.",
            SendMessageArguments,
            tools.send_message,
            effect="at_most_once",
        ),
        OwnTool(
            RUN_AGENT,
            "Start one agent and wait for it, up to 50 seconds; answers as get_result does. For quick work.",
            RunAgentWithInput if takes_input(client.catalogue) else RunAgentArguments,
            tools.run_agent,
            effect="at_most_once",
        ),
        OwnTool(
            RUN_CHAIN,
            "Start a chain of agents. Returns an execution_id at once, not a result.",
            RunChainArguments,
            tools.run_chain,
            effect="at_most_once",
        ),
    ]


class _StartTools:
    """The handlers of the tools."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._dispatching = DispatchTools(client, ASK_FOR_IT)

    async def run_agent(self, call: ToolCall, arguments: RunAgentArguments) -> ToolResult:
        started = await self._dispatching.dispatch(call, arguments)
        if started.is_error:
            return started
        which = GetResultArguments(execution_id=started.structured["execution_id"], wait_seconds=arguments.wait_seconds)
        return await self._dispatching.get_result(call, which)

    async def run_chain(self, _call: ToolCall, arguments: RunChainArguments) -> ToolResult:
        asked = ChainRequest(
            arguments.chain, arguments.task, arguments.input, arguments.timeout_seconds, arguments.idempotency_key
        )
        try:
            order = chain_order(self._client.settings, asked)
        except ChainRefused as refused:
            return refuse(refused.kind, str(refused), refused.hint)
        try:
            child, _ = await self._client.start(order)
        except Refusal as refusal:
            return refuse(refusal.kind, str(refusal), refusal.hint)
        return answer(dispatch_answer(child, ASK_FOR_IT))

    async def send_message(self, _call: ToolCall, arguments: SendMessageArguments) -> ToolResult:
        found = await self._client.look(arguments.execution_id)
        if found is None:
            return missing(arguments.execution_id)
        try:
            child = await self._client.message(found.id, arguments.text)
        except Refusal as refusal:
            return refuse(refusal.kind, str(refusal), refusal.hint)
        if child is None:
            return answer({"execution_id": found.id, "status": found.status, "message": "accepted"})
        return answer({"execution_id": child.id, "status": child.status, "message": "continued", "continues": found.id})
