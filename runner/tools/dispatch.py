"""The dispatch tools: `dispatch_agent`, `get_result`, `wait_for`, `cancel_agent`, `list_agents`.

Owns their names, schemas, answers and error texts, one and the same for the loop and for MCP clients. An error is a result
a model can act on. What happens to the tree is the caller's `Family`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import anyio
from pydantic import Field, field_validator

from registry import CatalogueEntry
from registry.durations import LONGEST
from runner.delivery import SHOWN_BYTES, cut, shares
from runner.errors import Refusal
from runner.excerpt import cut_mark, first_bytes
from runner.handle import DISPATCH, Child, DispatchOrder, Family
from runner.result import Result
from runner.tools.own import Arguments, OwnTool, answer, refuse
from runner.tools.protocol import ToolResult
from runner.transcript import ToolCall

GET_RESULT, WAIT_FOR, CANCEL, LIST = "get_result", "wait_for", "cancel_agent", "list_agents"
NAMES = (DISPATCH, GET_RESULT, WAIT_FOR, CANCEL, LIST)

DEFAULT_WAIT, LONGEST_WAIT = 25, 50
"""Seconds: clients have been seen to give up a call after 60."""
ASK_AGAIN = 5
"""Seconds after which it is worth asking again, where nothing is known."""
TASK_SHOWN = 200
"""Characters of a task in a list."""
SHORT_WAIT = 1.0
"""Seconds `cancel_agent` waits, so that it can usually say `done`."""

ASK_FOR_IT = (
    "It works in the background. Call get_result for its result; you do not have the result yet. "
    "Do not guess it, and do not finish before it is there."
)
WILL_COME = (
    "It works in the background. Its result will be given to you by itself; you do not have the result yet. "
    "Do not guess it, and do not finish before it is there."
)


class DispatchArguments(Arguments):
    """Whom to send, and what for."""

    name: str = Field(min_length=1, description="The agent, from the list of available agents.")
    task: str = Field(min_length=1, description="What it shall do, in plain words, with every fact it needs.")
    context: str | None = Field(default=None, description="Further facts for the agent, apart from the task.")
    timeout_seconds: float | None = Field(
        default=None, gt=0, le=LONGEST, description="Its time; never more than you have left."
    )
    budget_usd: float | None = Field(
        default=None, gt=0, description="What it and its own agents may cost; never more than you have left."
    )
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Your name for this dispatch: the same key again gives the same execution, not a second one.",
    )

    @field_validator("name", "task")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value


class DispatchWithInput(DispatchArguments):
    """The same, where some agent takes more than a task."""

    input: dict[str, Any] | None = Field(
        default=None, description="What the agent takes by name, besides its task; the list of agents says which do."
    )


class GetResultArguments(Arguments):
    """Which execution, and how long to wait for it."""

    execution_id: str = Field(description="As returned by dispatch_agent.")
    wait_seconds: float = Field(
        default=DEFAULT_WAIT,
        ge=0,
        le=LONGEST_WAIT,
        description="How long to wait for its end: 0 to 50, default 25. A wait that runs out is a normal answer.",
    )


class WaitForArguments(Arguments):
    """Which executions, and what to wait for."""

    execution_ids: list[str] = Field(min_length=1, max_length=100, description="As returned by dispatch_agent.")
    mode: Literal["any", "all"] = Field(default="all", description="Answer when one has ended, or when all have.")
    wait_seconds: float = Field(default=DEFAULT_WAIT, ge=0, le=LONGEST_WAIT, description="0 to 50, default 25.")


class CancelArguments(Arguments):
    """Which execution to stop, and how."""

    execution_id: str = Field(description="As returned by dispatch_agent.")
    reason: str = Field(default="", max_length=500, description="Why; stored with the execution.")
    mode: Literal["abort", "wrap_up"] = Field(
        default="abort", description="`abort` stops it at once; `wrap_up` lets it answer with what it has."
    )


class ListArguments(Arguments):
    """Nothing to say."""


def dispatch_tools(family: Family, note: str = WILL_COME, *, marked: bool = True) -> list[OwnTool[Any]]:
    """The tools of one caller; `note` tells it how it gets a result.

    In an answer for a client a long text is `marked` where it is cut, in one for a model of ours the mark follows.
    """
    tools = DispatchTools(family, note, marked=marked)
    return [
        OwnTool(
            DISPATCH,
            "Dispatch an agent to carry out a task asynchronously. Returns an execution_id at once, not a result.",
            DispatchWithInput if takes_input(family.catalogue) else DispatchArguments,
            tools.dispatch,
            effect="idempotent",  # committed with its result, under the id of its call: no second child can come of it
        ),
        OwnTool(
            GET_RESULT,
            "Status and result of an agent you dispatched. Waits a while for its end; `running` is a normal answer.",
            GetResultArguments,
            tools.get_result,
        ),
        OwnTool(
            WAIT_FOR,
            "Wait until one (`any`) or all (`all`) of several dispatched agents have ended. Lists the status of each.",
            WaitForArguments,
            tools.wait_for,
        ),
        OwnTool(
            CANCEL,
            "Stop an agent you dispatched, with everything it has started. What it found so far is kept.",
            CancelArguments,
            tools.cancel,
            effect="idempotent",
        ),
        OwnTool(
            LIST,
            "The agents you may dispatch, and those you have dispatched with their status.",
            ListArguments,
            tools.list_agents,
        ),
    ]


def takes_input(catalogue: Sequence[CatalogueEntry]) -> bool:
    """Whether some agent takes more than a task."""
    return any(entry.input_schema is not None for entry in catalogue)


def dispatch_answer(child: Child, note: str = WILL_COME) -> dict[str, Any]:
    """The answer to a dispatch: an id, never a result. It says so, because models invent what they wait for.

    `note` is `ASK_FOR_IT` for callers without an inbox, such as MCP clients.
    """
    shown: dict[str, Any] = {"execution_id": child.id, "agent": child.agent, "status": "running"}
    if child.ended:  # it was dispatched before, with the same key
        shown["status"] = child.status
    elif child.queue_position:
        shown |= {"status": "pending", "queue_position": child.queue_position}
    return shown | {"note": note}


def _shown(result: Result, handle: str, most: int, *, marked: bool) -> dict[str, Any]:
    """A result as a caller gets it: the whole answer up to the cap, then what else it says."""
    output = cut(result.text, handle, most) if marked else first_bytes(result.text, most)
    shown: dict[str, Any] = {"outcome": result.outcome, "summary": result.summary, "output": output}
    for name in ("artifacts", "errors", "next_steps", "signals"):
        if value := getattr(result, name):
            shown[name] = value
    return shown


def describe(child: Child, most: int = SHOWN_BYTES, *, marked: bool = True) -> dict[str, Any]:
    """One execution, as every tool answers about it; `most` are the bytes of its answer that are shown.

    Unless `marked`, whoever asks adds the mark of an answer that is cut.
    """
    result = child.result
    shown: dict[str, Any] = {
        "execution_id": child.id,
        "agent": child.agent,
        "status": child.status,
        "outcome": result.outcome if result is not None else None,
        "reason": result.reason if result is not None else None,
        "result": _shown(result, child.id, most, marked=marked) if result is not None else None,
        "error": child.error,
        "usage": dict(child.usage),
        "warnings": list(result.metadata.get("warnings", ())) if result is not None else [],
    }
    if not child.ended:
        progress = {"activity": child.activity, "elapsed_seconds": round(child.elapsed, 1)}
        if child.remaining is not None:
            progress["remaining_seconds"] = round(child.remaining, 1)
        if child.queue_position:
            progress["queue_position"] = child.queue_position
        if child.expected is not None:
            progress["usually_seconds"] = round(child.expected, 1)
        shown["progress"] = progress
        shown["retry_after_seconds"] = _ask_again_in(child)
        shown["hint"] = "it has not ended yet; go on with something else, or wait for it"
        if child.waiting_for == "approval":
            shown |= _waits_for_person(child)
    return shown


def _marks(children: Sequence[Child], most: int) -> str:
    """How to read on in each answer of which so many bytes are shown."""
    texts = [(child.result.text, child.id) for child in children if child.result is not None]
    cuts = [(len(first_bytes(text, most)), len(text), each) for text, each in texts]
    return "".join(cut_mark(*each) for each in cuts if each[0] < each[1])


def _waits_for_person(child: Child) -> dict[str, Any]:
    """That a person has to allow something, and, for those who may tell one, what; never how: it is not theirs to do."""
    if not child.questions:
        hint = f"the user must decide about a call in execution {child.id} before it goes on; you cannot decide"
        return {"waiting_for": "approval", "hint": f"{hint}; go on with something else, or wait for it"}
    asked = [
        {
            "approval_id": each.id,
            "execution_id": each.execution_id,
            "agent": each.agent,
            "tool": each.tool,
            "arguments": each.arguments,
            "expires_at": each.expires_at,
        }
        for each in child.questions
    ]
    calls = " and ".join(f"`{each.tool}` in execution {each.execution_id}" for each in child.questions)
    hint = f"your user must decide about {calls} before it goes on; you cannot decide: tell them, and go on waiting"
    return {"waiting_for": "approval", "approvals": asked, "hint": hint}


def _ask_again_in(child: Child) -> int:
    """When another look is worth it: when it usually ends, if that is known and near."""
    if child.expected is None:
        return ASK_AGAIN
    return round(min(LONGEST_WAIT, max(ASK_AGAIN, child.expected - child.elapsed)))


def shown_agents(catalogue: Sequence[CatalogueEntry]) -> list[dict[str, Any]]:
    """The agents a caller may dispatch, as they are listed to it."""
    return [
        {
            "name": each.name,
            "description": each.description,
            "servers": list(each.mcp_servers),
            **({"capabilities": list(each.capabilities)} if each.capabilities else {}),
            **({"input_schema": each.input_schema} if each.input_schema is not None else {}),
        }
        for each in catalogue
    ]


def missing(identifier: str) -> ToolResult:
    """The answer about an execution the caller does not have; the same whether it exists or not."""
    shown = identifier[:60]
    return refuse("not_found", f"you have not dispatched an execution `{shown}`", "`list_agents` lists those you have")


class DispatchTools:
    """What happens when a tool is called."""

    def __init__(self, family: Family, note: str, *, marked: bool = True) -> None:
        self._family, self._note, self._marked = family, note, marked

    async def dispatch(self, call: ToolCall, arguments: DispatchArguments) -> ToolResult:
        task = arguments.task if not arguments.context else f"{arguments.task}\n\n{arguments.context}"
        limits = arguments.timeout_seconds, arguments.budget_usd
        given = arguments.input if isinstance(arguments, DispatchWithInput) else None
        order = DispatchOrder(call, arguments.name, task, *limits, given, arguments.idempotency_key)
        try:
            child, again = await self._family.dispatch(order)
        except Refusal as refusal:
            return refuse(refusal.kind, str(refusal), refusal.hint)
        return answer(dispatch_answer(child, self._note), recorded=not again)

    async def get_result(self, _call: ToolCall, arguments: GetResultArguments) -> ToolResult:
        found = await self._wait([arguments.execution_id], "all", arguments.wait_seconds)
        if isinstance(found, str):
            return missing(found)
        shown = describe(found[0], marked=self._marked)
        if others := [child for child in self._family.unread() if child != found[0].id]:
            shown["also_ended"] = others
        return answer(shown, mark="" if self._marked else _marks(found, SHOWN_BYTES), consumed=self._consumed(found))

    async def wait_for(self, _call: ToolCall, arguments: WaitForArguments) -> ToolResult:
        found = await self._wait(arguments.execution_ids, arguments.mode, arguments.wait_seconds)
        if isinstance(found, str):
            return missing(found)
        ended = sum(child.ended for child in found)
        most = shares([child.result.text for child in found if child.result is not None], SHOWN_BYTES)
        described = [describe(child, most, marked=self._marked) for child in found]
        shown = {"ended": ended, "open": len(found) - ended, "executions": described}
        return answer(shown, mark="" if self._marked else _marks(found, most), consumed=self._consumed(found))

    async def cancel(self, _call: ToolCall, arguments: CancelArguments) -> ToolResult:
        before = await self._family.look(arguments.execution_id)
        if before is None:
            return missing(arguments.execution_id)
        done = await self._family.stop(before.id, arguments.reason, wrap_up=arguments.mode == "wrap_up")
        if done == "requested" and arguments.mode == "abort":
            with anyio.move_on_after(SHORT_WAIT):
                await self._family.until_one_ends([before.id])
        after = await self._family.look(before.id) or before
        if done == "requested" and after.ended:
            done = "done"
        return answer({"execution_id": after.id, "status": after.status, "cancel": done})

    async def list_agents(self, _call: ToolCall, _arguments: ListArguments) -> ToolResult:
        agents = shown_agents(self._family.catalogue)
        executions = [
            {
                "execution_id": child.id,
                "agent": child.agent,
                "status": child.status,
                "task": child.task if len(child.task) <= TASK_SHOWN else f"{child.task[:TASK_SHOWN]}…",
                "elapsed_seconds": round(child.elapsed, 1),
            }
            for child in await self._family.children()
        ]
        return answer({"agents": agents, "executions": executions})

    async def _wait(self, ids: Sequence[str], mode: str, seconds: float) -> list[Child] | str:
        """Look until the condition holds or the time is over; the first of the ids that is not the caller's, if any."""
        enough = any if mode == "any" else all
        with anyio.move_on_after(seconds):
            children = [await self._family.look(each) for each in ids]
            while not enough(child is None or child.ended for child in children):
                await self._family.until_one_ends([child.id for child in children if child is not None and not child.ended])
                children = [await self._family.look(each) for each in ids]
        looked = [await self._family.look(each) for each in ids]  # once more: a wait that ran out gets a truthful answer
        known = [child for child in looked if child is not None]
        return (
            known
            if len(known) == len(ids)
            else next(each for each, child in zip(ids, looked, strict=True) if child is None)
        )

    def _consumed(self, children: Sequence[Child]) -> tuple[str, ...]:
        claims = (self._family.claim(child.id) for child in children if child.ended)
        return tuple(claim for claim in claims if claim is not None)
