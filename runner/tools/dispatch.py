"""The dispatch tools: `dispatch_agent`, `get_result`, `wait_for`, `cancel_agent`, `list_agents`.

Owns their names, schemas, answers and error texts, the same for the loop and for MCP clients. An error is a result that a
model can act on. The caller's `Subtree` changes the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import anyio
from pydantic import Field, field_validator
from pydantic_core import to_json

from registry import CatalogueEntry
from registry.text.durations import LONGEST
from runner.errors import Refusal
from runner.messages import ToolCall
from runner.result import Result, summarise
from runner.snapshot import DISPATCH, DispatchOrder, Snapshot, Subtree
from runner.text import SHOWN_BYTES, cut, cut_mark, first_bytes, shares
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.protocol import ToolResult

GET_RESULT, WAIT_FOR, CANCEL, LIST = "get_result", "wait_for", "cancel_agent", "list_agents"
NAMES = (DISPATCH, GET_RESULT, WAIT_FOR, CANCEL, LIST)

DEFAULT_WAIT, LONGEST_WAIT = 25, 50
"""Seconds: some clients give up a call after 60."""
ASK_AGAIN = 5
"""Seconds until the next `get_result`, where nothing better is known."""
SHORT_WAIT = 1.0
"""Seconds that `cancel_agent` waits, so that its answer is usually `done`."""
LISTED_TASK = 80
"""Characters of a task in a list of executions."""

ASK_FOR_IT = "You do not have the result yet, so do not guess it. Call get_result for its result."
WILL_COME = (
    "It works in the background. Its result will be given to you by itself; you do not have the result yet. "
    "Do not guess it, and do not finish before it is there."
)


class DispatchArguments(Arguments):
    name: str = Field(min_length=1, description="Which agent.")
    task: str = Field(min_length=1, description="What to do, with every fact it needs.")
    context: str | None = Field(default=None, description="More facts.")
    timeout_seconds: float | None = Field(default=None, gt=0, le=LONGEST, description="Its time limit.")
    budget_usd: float | None = Field(default=None, gt=0, description="Its cost limit, with its agents.")
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="The same key gives the same execution.",
    )

    @field_validator("name", "task")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value


class DispatchWithInput(DispatchArguments):
    """The same, where some agent takes more than a task."""

    input: dict[str, Any] | None = Field(default=None, description="What it takes by name; see list_agents.")


class GetResultArguments(Arguments):
    execution_id: str = Field(description="Whole or short id.")
    wait_seconds: float = Field(
        default=DEFAULT_WAIT,
        ge=0,
        le=LONGEST_WAIT,
        description="How long to wait.",
    )


class WaitForArguments(Arguments):
    execution_ids: list[str] = Field(min_length=1, max_length=100, description="Whole or short ids.")
    mode: Literal["any", "all"] = Field(default="all", description="Until one or all have ended.")
    wait_seconds: float = Field(default=DEFAULT_WAIT, ge=0, le=LONGEST_WAIT, description="How long to wait.")


class CancelArguments(Arguments):
    execution_id: str = Field(description="Whole or short id.")
    reason: str = Field(default="", max_length=500, description="Why.")
    mode: Literal["abort", "wrap_up"] = Field(default="abort", description="`wrap_up` lets it answer with what it has.")


class ListAgentsArguments(Arguments):
    """No arguments."""


def dispatch_tools(family: Subtree, note: str = WILL_COME, *, marked: bool = True) -> list[OwnTool[Any]]:
    """The tools of one caller; `note` tells it how it gets a result.

    With `marked` (for clients), a cut text has its mark inside; for models of Outrider the mark follows the answer.
    """
    tools = DispatchTools(family, note, marked=marked)
    return [
        OwnTool(
            DISPATCH,
            "Start an agent, asynchronously. Returns an execution_id at once, not a result.",
            DispatchWithInput if takes_input(family.catalogue) else DispatchArguments,
            tools.dispatch,
            effect="idempotent",  # committed with its result under the id of its call, so no second child can be spawned
        ),
        OwnTool(
            GET_RESULT,
            "Wait for an agent: its status, result and cost. `running` is a normal answer: ask again.",
            GetResultArguments,
            tools.get_result,
        ),
        OwnTool(
            WAIT_FOR,
            "Wait for several agents. Describes each as get_result does.",
            WaitForArguments,
            tools.wait_for,
        ),
        OwnTool(
            CANCEL,
            "Stop an agent and everything it started. What it found so far is kept.",
            CancelArguments,
            tools.cancel,
            effect="idempotent",
        ),
        OwnTool(
            LIST,
            "The agents you may dispatch, and those you have dispatched.",
            ListAgentsArguments,
            tools.list_agents,
        ),
    ]


def takes_input(catalogue: Sequence[CatalogueEntry]) -> bool:
    """Whether some agent takes more than a task."""
    return any(entry.input_schema is not None for entry in catalogue)


def dispatch_answer(child: Snapshot, note: str = WILL_COME) -> dict[str, Any]:
    """The answer to a dispatch: an id, never a result. It says so, because models invent results they wait for.

    `note` is `ASK_FOR_IT` for callers without an inbox, such as MCP clients.
    """
    shown: dict[str, Any] = {"execution_id": child.id, "agent": child.agent, "status": "running"}
    if child.ended:  # dispatched before, with the same key
        shown["status"] = child.status
    elif child.queue_position:
        shown |= {"status": "pending", "queue_position": child.queue_position}
    return shown | {"note": note}


def _shown(result: Result, handle: str, most: int, *, marked: bool) -> dict[str, Any]:
    """A result as its caller gets it: the whole answer up to the cap, then its other fields.

    A summary made by the runtime is the beginning of the answer, and is not repeated.
    """
    output = cut(result.text, handle, most) if marked else first_bytes(result.text, most)
    shown: dict[str, Any] = {"outcome": result.outcome, "output": output}
    if result.summary not in (result.text, summarise(result.text)):
        shown["summary"] = result.summary
    errors = [{name: value for name, value in asdict(each).items() if value not in (None, {})} for each in result.errors]
    rest = {
        "artifacts": result.artifacts,
        "errors": errors,
        "next_steps": result.next_steps,
        "signals": result.signals,
    }
    return shown | {name: value for name, value in rest.items() if value}


def describe(
    child: Snapshot, subtree: Mapping[str, Any] | None, most: int = SHOWN_BYTES, *, marked: bool = True
) -> dict[str, Any]:
    """One execution, as every tool describes it; fields without a value are left out.

    `subtree` is its usage with everything below it, shown if there is something below it; `most` is the number of
    bytes shown of its answer. Unless `marked`, the caller adds the mark of a cut answer.
    """
    result = child.result
    shown: dict[str, Any] = {"execution_id": child.id, "agent": child.agent, "status": child.status}
    if result is not None:
        reason = {"reason": result.reason} if result.reason is not None else {}
        shown |= {"outcome": result.outcome, **reason, "result": _shown(result, child.id, most, marked=marked)}
    if child.error is not None:
        shown["error"] = child.error
    shown["usage"] = _with_spent(child.usage, subtree or child.usage)
    if subtree is not None and subtree["executions"] > 1:
        shown["subtree_usage"] = dict(subtree)
    if result is not None and (warnings := result.metadata.get("warnings")):
        shown["warnings"] = list(warnings)
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
        if child.waiting_for == "approval":
            shown |= _waits_for_person(child)
    return shown


def _with_spent(usage: Mapping[str, Any], together: Mapping[str, Any]) -> dict[str, Any]:
    """The usage of an execution; `spent` of its budget is that of its subtree, since its row has only the limits."""
    if "budget" not in usage:
        return dict(usage)
    spent = {"usd": together["cost_usd"], "tokens": together["tokens"]}
    totals = {f"spent_{unit}": spent[unit] for unit in spent if unit in usage["budget"]}
    return {**usage, "budget": {**totals, **usage["budget"]}}


def _marks(children: Sequence[Snapshot], most: int) -> str:
    """The marks that say how to read on, for answers cut to `most` bytes."""
    texts = [(child.result.text, child.id) for child in children if child.result is not None]
    cuts = [(len(first_bytes(text, most)), len(text), each) for text, each in texts]
    return "".join(cut_mark(*each) for each in cuts if each[0] < each[1])


def _waits_for_person(child: Snapshot) -> dict[str, Any]:
    """That a person must decide about a call, and which one, for callers who may know; never how: that is not theirs."""
    if not child.questions:
        hint = f"the user must decide about a call in execution {child.id} before it goes on; you cannot decide"
        return {"waiting_for": "approval", "hint": f"{hint}; do something else meanwhile, or wait for it"}
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
    hint = f"your user must decide about {calls} before it goes on; you cannot decide: tell them, and keep waiting"
    return {"waiting_for": "approval", "approvals": asked, "hint": hint}


def _ask_again_in(child: Snapshot) -> int:
    """Seconds until the next look: its usual end, if known and near."""
    if child.expected is None:
        return ASK_AGAIN
    return round(min(LONGEST_WAIT, max(ASK_AGAIN, child.expected - child.elapsed)))


def _brief(child: Snapshot, subtree: Mapping[str, Any] | None) -> dict[str, Any]:
    """One execution in a caller's list."""
    shown = {
        "execution_id": child.id,
        "agent": child.agent,
        "status": child.status,
        "task": first_words(child.task),
        "elapsed_seconds": round(child.elapsed, 1),
        "cost_usd": child.usage["cost_usd"],
    }
    if subtree is not None and subtree["executions"] > 1:
        shown["subtree_cost_usd"] = subtree["cost_usd"]
    return shown


def first_words(task: str) -> str:
    """A task in a list of executions: one line, enough to tell it from others."""
    line = " ".join(task[: 2 * LISTED_TASK].split())
    return line if len(line) <= LISTED_TASK and len(task) <= 2 * LISTED_TASK else line[: LISTED_TASK - 1] + "…"


def shown_agents(catalogue: Sequence[CatalogueEntry]) -> list[dict[str, Any]]:
    """The agents a caller may dispatch, as listed to it."""
    return [
        {
            "name": each.name,
            "description": each.description,
            **({"servers": list(each.mcp_servers)} if each.mcp_servers else {}),
            **({"capabilities": list(each.capabilities)} if each.capabilities else {}),
            **({"input_schema": each.input_schema} if each.input_schema is not None else {}),
        }
        for each in catalogue
    ]


def missing(identifier: str) -> ToolResult:
    """The answer about an execution that the caller does not own; the same whether it exists or not."""
    shown = identifier[:60]
    return refuse("not_found", f"you have not dispatched an execution `{shown}`", "`list_agents` lists those you have")


class DispatchTools:
    """The handlers of the tools."""

    def __init__(self, family: Subtree, note: str, *, marked: bool = True) -> None:
        self._family, self._note, self._marked = family, note, marked

    async def dispatch(self, call: ToolCall, arguments: DispatchArguments) -> ToolResult:
        task = arguments.task if not arguments.context else f"{arguments.task}\n\n{arguments.context}"
        limits = arguments.timeout_seconds, arguments.budget_usd
        given = arguments.input if isinstance(arguments, DispatchWithInput) else None
        order = DispatchOrder(call, arguments.name, task, *limits, given, arguments.idempotency_key, self._settled)
        try:
            child, again = await self._family.dispatch(order)
        except Refusal as refusal:
            return refuse(refusal.kind, str(refusal), refusal.hint)
        return answer(dispatch_answer(child, self._note), recorded=not again)

    def _settled(self, child: Snapshot) -> str:
        return to_json(dispatch_answer(child, self._note)).decode()

    async def get_result(self, _call: ToolCall, arguments: GetResultArguments) -> ToolResult:
        found = await self._wait([arguments.execution_id], "all", arguments.wait_seconds)
        if isinstance(found, str):
            return missing(found)
        used = await self._family.subtree_usage([found[0].id])
        shown = describe(found[0], used.get(found[0].id), marked=self._marked)
        if others := [child for child in self._family.unread() if child != found[0].id]:
            shown["also_ended"] = others
        return answer(shown, mark="" if self._marked else _marks(found, SHOWN_BYTES), consumed=self._consumed(found))

    async def wait_for(self, _call: ToolCall, arguments: WaitForArguments) -> ToolResult:
        found = await self._wait(arguments.execution_ids, arguments.mode, arguments.wait_seconds)
        if isinstance(found, str):
            return missing(found)
        ended = sum(child.ended for child in found)
        most = shares([child.result.text for child in found if child.result is not None], SHOWN_BYTES)
        used = await self._family.subtree_usage([child.id for child in found])
        described = [describe(child, used.get(child.id), most, marked=self._marked) for child in found]
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

    async def list_agents(self, _call: ToolCall, _arguments: ListAgentsArguments) -> ToolResult:
        agents = shown_agents(self._family.catalogue)
        children = await self._family.children()
        used = await self._family.subtree_usage([child.id for child in children]) if children else {}
        executions = [_brief(child, used.get(child.id)) for child in children]
        return answer({"agents": agents, "executions": executions})

    async def _wait(self, ids: Sequence[str], mode: str, seconds: float) -> list[Snapshot] | str:
        """Look until the condition holds or the time is over; returns the first id that is not the caller's, if any."""
        enough = any if mode == "any" else all
        looked = [await self._family.look(each) for each in ids]
        whole = [child.id if child is not None else given for child, given in zip(looked, ids, strict=True)]
        with anyio.move_on_after(seconds):
            while not enough(child is None or child.ended for child in looked):
                await self._family.until_one_ends([child.id for child in looked if child is not None and not child.ended])
                looked = [await self._family.look(each) for each in whole]
        looked = [
            await self._family.look(each) for each in whole
        ]  # once more: after a timeout the answer must still be current
        known = [child for child in looked if child is not None]
        return (
            known
            if len(known) == len(ids)
            else next(each for each, child in zip(ids, looked, strict=True) if child is None)
        )

    def _consumed(self, children: Sequence[Snapshot]) -> tuple[str, ...]:
        claims = (self._family.claim(child.id) for child in children if child.ended)
        return tuple(claim for claim in claims if claim is not None)
