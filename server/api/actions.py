"""What can be done: start, say, stop, resume, decide; and what an action would do before it is done.

Owns the answers of actions. Must not know: how an action works; that is the caller's. Invariant: everything is done by the
caller of the request, so it is allowed here where it is allowed over MCP.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from registry import ChainSpec
from runner.approvals.approvals import ApprovalAnswer, outcome_of
from runner.core.guard import entry_of
from runner.errors import Refusal
from runner.service.order import Order
from runner.snapshot import Question
from server.api.configured import DEMO_CHAIN, can_start_demo, demo_settings
from server.api.endpoint import CONFLICT, UNPROCESSABLE, ApiCall
from server.api.requests import ActionAnswer, Consequences, DecisionAnswer, StartAnswer, StartBody
from server.caller.chain_order import ChainRequest, chain_order
from server.problem import ApiRefused

FROM_THE_PAGE = "cancelled from the dashboard"


async def start(call: ApiCall) -> StartAnswer:
    asked: StartBody = call.body
    settings = call.caller.settings
    if isinstance(settings.find(asked.name), ChainSpec):
        request = ChainRequest(asked.name, asked.task, asked.input, asked.timeout_seconds, asked.idempotency_key)
        order = chain_order(settings, request, asked.budget_usd)
    else:
        entry = entry_of(call.caller.catalogue, asked.name, settings.agents)
        if not (asked.task.strip() or asked.input or settings.agents[entry.name].has_objective):
            raise ApiRefused(UNPROCESSABLE, f"no task for `{entry.name}`", "say what to do in `task`", "invalid_arguments")
        limits = asked.timeout_seconds, asked.budget_usd
        order = Order(entry.name, asked.task, asked.input, *limits, asked.idempotency_key)
    child, _ = await call.caller.start(order)
    return StartAnswer(execution_id=child.id, status=child.status)


async def start_demo(call: ApiCall) -> StartAnswer:
    from outrider_sre.incident import incident_folder

    if not can_start_demo(call):
        hint = f"`outrider demo` shows it; the configuration here has no chain `{DEMO_CHAIN}`"
        raise ApiRefused(CONFLICT, "the demo cannot be started with this configuration", hint)
    settings = await anyio.to_thread.run_sync(demo_settings)
    alert: Mapping[str, Any] = json.loads((incident_folder() / "alert.json").read_text(encoding="utf-8"))
    child = await call.caller.start_with(settings, chain_order(settings, ChainRequest(DEMO_CHAIN, input=alert)))
    return StartAnswer(execution_id=child.id, status=child.status)


async def cancel(call: ApiCall) -> ActionAnswer:
    row = await call.row()
    done = await call.caller.stop(row["id"], call.body.reason.strip() or FROM_THE_PAGE, wrap_up=False)
    return ActionAnswer(status="requested" if done == "requested" else "already_finished", execution_id=row["id"])


async def wrap_up(call: ApiCall) -> ActionAnswer:
    row = await call.row()
    done = await call.caller.stop(row["id"], "", wrap_up=True)
    return ActionAnswer(status="requested" if done == "requested" else "already_finished", execution_id=row["id"])


async def message(call: ApiCall) -> ActionAnswer:
    row = await call.row()
    child = await call.caller.message(row["id"], call.body.text)
    if child is None:
        return ActionAnswer(status="accepted", execution_id=row["id"])
    return ActionAnswer(status="continued", execution_id=child.id)


async def resume(call: ApiCall) -> ActionAnswer:
    row = await call.row()
    child = await call.caller.resume(row["id"], call.body.text)
    if row["finished_at"] is not None:
        return ActionAnswer(status="continued", execution_id=child.id)
    return ActionAnswer(status="resumed", execution_id=row["id"])


async def rerun(call: ApiCall) -> ActionAnswer:
    row = await call.row()
    node = (await call.row(call.body.start))["id"] if call.body.start is not None else None
    child = await call.caller.rerun(row["root_execution_id"], node or row["id"], call.body.task)
    return ActionAnswer(status="rerun", execution_id=child.id)


# -- approvals ---------------------------------------------------------------------------------------------------------


async def approve(call: ApiCall) -> DecisionAnswer:
    await _decide(call, approved=True)
    return DecisionAnswer(status="approved")


async def deny(call: ApiCall) -> DecisionAnswer:
    await _decide(call, approved=False)
    return DecisionAnswer(status="denied")


async def _decide(call: ApiCall, *, approved: bool) -> None:
    wanted, caller = call.request.path_params["id"], call.caller
    question = await _question(call, wanted)
    if call.body.shown != question.shown:
        raise ApiRefused(CONFLICT, "the decision is about another call than the one that waits", "look at it again")
    word = ApprovalAnswer(approved, caller.name, call.body.reason, caller.who.principal)
    if not await caller.decide(question, call.body.shown, word):
        raise await _too_late(call, wanted)


async def _question(call: ApiCall, wanted: str) -> Question:
    for each in await call.caller.questions():
        if each.id == wanted:
            return each
    raise await _too_late(call, wanted)


async def _too_late(call: ApiCall, wanted: str) -> ApiRefused:
    """How the question ended, for a caller who could see it."""
    rows = await call.dispatcher.services.database.reads.questions.those([wanted])
    if rows and call.caller.who.sees(rows[0]["principal"]):
        return ApiRefused(CONFLICT, outcome_of(rows[0]), "`GET /api/approvals` lists the calls that wait")
    return ApiRefused(404, "there is no such approval", "`GET /api/approvals` lists the calls that wait", "not_found")


# -- what would happen -------------------------------------------------------------------------------------------------


async def consequences(call: ApiCall) -> Consequences:
    row = await call.row()
    below = await call.dispatcher.services.database.reads.tree(row["id"])
    counted = {status: sum(each["status"] == status for each in below) for status in ("running", "pending")}
    return Consequences(
        words=await _of_rerun(call, row) if call.query.action == "rerun" else _words(call.query.action, row, below),
        executions=len(below),
        running=counted["running"],
        pending=counted["pending"],
    )


def _words(action: str, row: Mapping[str, Any], below: Sequence[Mapping[str, Any]]) -> list[str]:
    open_ = [each for each in below[1:] if each["finished_at"] is None]
    ended = row["finished_at"] is not None
    match action:
        case "cancel":
            return _of_cancel(row, below, len(open_))
        case "wrap-up":
            if ended:
                return [f"{row['agent']} has ended; nothing will change."]
            below_it = [f"{_count(len(open_))} below {_is(len(open_))} asked to do the same."] if open_ else []
            return [f"{row['agent']} is asked to answer with what it has.", *below_it]
        case "message" | "resume" if ended:
            return [
                f"{row['agent']} has ended: a new execution continues it from its transcript.",
                "The old one stays as it is.",
            ]
        case "message":
            return [f"{row['agent']} reads it before its next step; running calls are not interrupted."]
    return [
        f"The whole tree goes on where it was: {_count(len(open_) + 1)} from here on.",
        "Calls with an unknown outcome are asked about.",
    ]


async def _of_rerun(call: ApiCall, row: Mapping[str, Any]) -> list[str]:
    """What a fork at this execution keeps, and what it does again."""
    try:
        kept = await call.dispatcher.kept_by_rerun(row["id"])
    except Refusal as refused:
        return [f"It cannot be run again: {refused}."]
    words = ["A new tree is started; this one stays as it is."]
    above = [each["agent"] for each in await call.dispatcher.services.database.reads.outlines.ancestors(row["id"])]
    if not above:
        return [*words, "Everything in it is done again, with the configuration it had."]
    words.append(f"Done again, with the configuration it had: {row['agent']}, and what {', '.join(above)} did after it.")
    rest = "what does not depend on it" if kept is None else _count(kept)
    return [*words, f"Kept with {'its result' if kept == 1 else 'their results'}, at no cost: {rest}."]


def _of_cancel(row: Mapping[str, Any], below: Sequence[Mapping[str, Any]], open_: int) -> list[str]:
    if row["finished_at"] is not None and not open_:
        return [f"{row['agent']} has ended; nothing will change."]
    words = [f"{row['agent']} is stopped; what it has so far is kept."]
    if open_:
        words.append(f"{_count(open_)} below {_is(open_)} stopped with it.")
    if kept := len(below) - 1 - open_:
        words.append(f"{_count(kept)} below {'has' if kept == 1 else 'have'} ended and {_is(kept)} kept.")
    if row["parent_execution_id"] is not None:
        words.append("Its parent goes on and reads that it was cancelled.")
    return words


def _count(number: int) -> str:
    return f"{number:,} execution" + ("" if number == 1 else "s")


def _is(number: int) -> str:
    return "is" if number == 1 else "are"
