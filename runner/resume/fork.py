"""A fork of an ended tree at one of its executions: what does not depend on it is kept, it and what follows is done again.

Owns which rows the fork gets. They are those of a tree whose process died just before that execution started, so that
resuming goes on from there: a fork needs no mechanism of its own. The executions above it are open again and have forgotten
its end and everything after; all others that were spawned before that are copies with their results, which cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any

from pydantic_core import from_json, to_json

from db.clock import moment, stamp
from db.errors import UnknownExecution
from db.ids import ALPHABET, RANDOM_DIGITS, TIME_DIGITS, new_id
from db.rows.executions import Place, event
from db.rows.forks import OPENED, PAID, TOKENS, UNSETTLED, UNUSED, ForkedRows, fork
from db.rows.plans import PlanStatus
from db.rows.reads import Reads, Record
from db.status import ExecutionStatus
from db.store.unit import Write
from runner.errors import Refusal
from runner.messages import clean
from runner.roles import PLANNER, STEP, WORKER
from runner.strategies.loop.rebuild import LOST
from runner.strategies.route.commands.task import is_command_task
from runner.tools.finish import NAME as FINISH

GATED = (STEP, WORKER)
"""Roles whose executions wait until their parent lets them start, with a first message that it writes then."""
REPLIES = ("reply", "refusal", "overflow", "summary")
NEVER = "9999"
"""Later than every time."""

_ID = re.compile(f"[{ALPHABET}]{{{TIME_DIGITS + RANDOM_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """Where a tree is forked, and how it goes on."""

    node: str
    task: str | None
    """The new task of that execution; None for its own."""
    config_hash: str
    owner: str


@dataclass(frozen=True, slots=True)
class Forked:
    """A fork was stored."""

    place: Place
    rows: ForkedRows
    told: Mapping[str, Any]

    def write(self) -> Write:
        return fork(self.rows, [event(self.place, "execution.forked", self.told)])


@dataclass(slots=True)
class _Copies:
    """The rows so far."""

    executions: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    model_calls: list[dict[str, Any]] = field(default_factory=list)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    plans: list[dict[str, Any]] = field(default_factory=list)


def admit_fork(rows: Sequence[Record], node: str) -> None:
    """Refuse a fork that would not do what was asked for; raises Refusal and UnknownExecution."""
    named = {row["id"]: row for row in rows}
    if node not in named:
        raise UnknownExecution(node)
    if open_ := [row["id"] for row in rows if row["finished_at"] is None]:
        raise Refusal("running", f"execution `{open_[0]}` of the tree has not ended", "wait until it ends, or cancel it")
    row: Record | None = named[node]
    while row is not None:
        if any(is_command_task(child) for child in rows if child["parent_execution_id"] == row["id"]):
            hint = "start it again with the same command"
            raise Refusal("ended", f"`{row['agent']}` carried out a command, which changes work items", hint)
        row = named.get(row["parent_execution_id"] or "")


class Forking:
    """Copies one tree."""

    def __init__(self, reads: Reads, rows: Sequence[Record], request: ForkRequest) -> None:
        self._reads, self._request = reads, request
        self._rows = {row["id"]: row for row in rows}
        self._below: dict[str | None, list[Record]] = {}
        for row in rows:
            self._below.setdefault(row["parent_execution_id"], []).append(row)
        self._copies = _Copies()
        self._now = stamp()
        self._deadline = NEVER

    async def copied(self) -> Forked:
        """The rows of the fork."""
        path: list[Record] = []
        row: Record | None = self._rows[self._request.node]
        while row is not None:
            path.insert(0, row)
            row = self._rows.get(row["parent_execution_id"] or "")
        for above, child in pairwise(path):
            await self._reopen(above, child)
        await self._start_again(path[-1])
        kept = sum(each["finished_at"] is not None for each in self._copies.executions)
        origin = {"from": path[-1]["id"], "root": path[0]["id"]}
        rows = self._renamed()
        top = rows.root
        place = Place(top["id"], None, top["id"], top["session_id"])
        return Forked(place, rows, {"forked_from": origin["root"], "at": origin["from"], "kept": kept})

    # -- which rows ----------------------------------------------------------------------------------------------------

    async def _reopen(self, row: Record, child: Record) -> None:
        """An execution above the node: open again, as it was before it knew how `child` ended."""
        reads, own = self._reads, row["id"]
        messages, calls = await reads.messages(own), await reads.tool_calls(own)
        deliveries = await reads.deliveries(own)
        cut = _cut(messages, calls, deliveries, child)
        kept = [each for each in messages if each["position"] < cut.position]
        shown = {each["id"] for each in kept}
        mine = [
            each
            for each in calls
            if each["message_id"] in shown or (not each["message_id"] and each["started_at"] < cut.at)
        ]
        counted = sum(each["id"] != cut.call and _counts(each) for each in mine)
        self._copies.executions.append({**self._opened(row, child), "tool_call_count": counted})
        self._copies.messages += [dict(each) for each in kept]
        self._copies.tool_calls += [{**each, **UNSETTLED} if each["id"] == cut.call else dict(each) for each in mine]
        if self._request.task is not None and child["id"] == self._request.node:
            self._reword(child)
        await self._copy_model_calls(row, sum(each["kind"] in REPLIES for each in kept), reopened=True)
        made = {each["id"] for each in mine}
        ended = await self._copy_children(row, child, cut, made)
        for each in deliveries:
            self._deliver(each, ended, (shown | made) - {cut.call})
        await self._copy_plans(row, child, cut)

    async def _copy_children(self, row: Record, child: Record, cut: _Cut, made: set[str]) -> set[str]:
        """Copy the other children that were spawned before; those that ended."""
        ended: set[str] = set()
        for each in self._below.get(row["id"], ()):
            if each["id"] == child["id"]:
                continue
            spawned = each["tool_call_id"] in made if each["tool_call_id"] is not None else each["created_at"] < cut.at
            if not spawned:
                continue
            if each["role"] in GATED and min(each["started_at"] or NEVER, each["finished_at"]) >= cut.at:
                self._copies.executions.append(self._pending(each, each["task"]))
                continue
            await self._keep(each)
            ended.add(each["id"])
        return ended

    def _deliver(self, delivery: Record, ended: set[str], shown: set[str]) -> None:
        """An item of a reopened inbox: what was shown stays shown, an end that was not is shown again."""
        read = delivery["consumed_by"] in shown
        if not read and (delivery["kind"] != "result" or delivery["child_execution_id"] not in ended):
            return
        self._copies.deliveries.append(dict(delivery) if read else {**delivery, "consumed_at": None, "consumed_by": None})

    async def _keep(self, row: Record) -> None:
        """An ended execution with everything below it, at no cost."""
        reads, own = self._reads, row["id"]
        self._copies.executions.append({**row, **PAID, "owner": self._request.owner})
        messages = await reads.messages(own)
        self._copies.messages += [dict(each) for each in messages]
        self._copies.tool_calls += [dict(each) for each in await reads.tool_calls(own)]
        self._copies.deliveries += [dict(each) for each in await reads.deliveries(own)]
        self._copies.plans += [dict(each) for each in await reads.plans.of(own)]
        await self._copy_model_calls(row, sum(each["kind"] in REPLIES for each in messages), reopened=False)
        for child in self._below.get(own, ()):
            await self._keep(child)

    async def _start_again(self, row: Record) -> None:
        """The node itself: pending, with its first message, unless its parent writes that when it lets it start."""
        task = self._request.task if self._request.task is not None else row["task"]
        self._copies.executions.append(self._pending(row, task))
        if row["role"] in GATED:
            return
        first = next((each for each in await self._reads.messages(row["id"]) if each["position"] == 0), None)
        if first is None:
            blocks = [{"type": "text", "text": task or ""}]
            first = {**_FIRST, "id": new_id(), "execution_id": row["id"], "content": to_json(blocks).decode()}
        content = from_json(first["content"])
        if self._request.task is not None:
            content = [{"type": "text", "text": _replaced(content[0]["text"], row["task"] or "", self._request.task)}]
        text = clean(to_json(content).decode())
        self._copies.messages.append({**first, "content": text, "created_at": self._now})

    async def _copy_model_calls(self, row: Record, number: int, *, reopened: bool) -> None:
        """The calls behind the kept replies, at no cost; those of a reopened execution count before its first turn."""
        calls = [each for each in await self._reads.model_calls(row["id"]) if each["pricing"] != LOST][:number]
        free = dict.fromkeys((*TOKENS, "cache_write_1h_tokens"), 0) | {"cost_usd": 0.0}
        for at, each in enumerate(calls):
            turn = {"turn": at + 1 - len(calls)} if reopened else {}
            self._copies.model_calls.append({**each, **free, **turn})

    async def _copy_plans(self, row: Record, child: Record, cut: _Cut) -> None:
        """The versions of its plan that were made before; one that the node itself makes is made again."""
        versions = [dict(each) for each in await self._reads.plans.of(row["id"]) if each["created_at"] < cut.at]
        if child["role"] == PLANNER and versions:
            versions.pop()
        if versions:
            versions[-1]["status"] = PlanStatus.EXECUTING.value
        if self._request.task is not None and child["id"] == self._request.node and child["role"] == STEP:
            for version in versions:
                steps = from_json(version["steps"])
                for step in steps:
                    step["task"] = self._request.task if step["id"] == child["step_id"] else step["task"]
                version["steps"] = to_json(steps).decode()
        self._copies.plans += versions

    # -- how they differ -----------------------------------------------------------------------------------------------

    def _opened(self, row: Record, child: Record) -> dict[str, Any]:
        """A running row with its full time again."""
        seconds = row["timeout_seconds"] or 0.0
        self._deadline = min(self._deadline, stamp(moment(self._now) + timedelta(seconds=seconds)))
        running = {"status": ExecutionStatus.RUNNING.value, "started_at": self._now, "deadline_at": self._deadline}
        held = child["budget_usd"] if child["budget_from_execution_id"] == row["id"] else None
        reserved = {"budget_reserved_usd": held or 0.0}
        return {**row, **OPENED, **UNUSED, **self._anew(row), **running, **reserved}

    def _pending(self, row: Record, task: str | None) -> dict[str, Any]:
        """A row that has not started."""
        fresh = {"status": ExecutionStatus.PENDING.value, "task": task, "started_at": None, "deadline_at": None}
        return {**row, **OPENED, **UNUSED, **self._anew(row), **fresh}

    def _anew(self, row: Record) -> dict[str, Any]:
        root = row["parent_execution_id"] is None
        key = {"idempotency_key": None} if root else {}
        return {
            "owner": self._request.owner,
            "attempt": 1,
            "config_hash": self._request.config_hash,
            "created_at": self._now,
            **key,
        }

    def _reword(self, child: Record) -> None:
        """The new task in the arguments of the call that dispatches the node."""
        for call in self._copies.tool_calls:
            if call["id"] == child["tool_call_id"]:
                call["arguments"] = _with_task(call["arguments"], self._request.task)
                for message in self._copies.messages:
                    if message["id"] == call["message_id"]:
                        blocks = from_json(message["content"])
                        for block in blocks:
                            if block.get("id") == call["call_id"] and isinstance(block.get("input"), dict):
                                block["input"]["task"] = self._request.task
                        message["content"] = to_json(blocks).decode()

    def _renamed(self) -> ForkedRows:
        """All copies under new ids, also inside their texts: an id in a text names the copy."""
        copies = self._copies
        named = [each["id"] for each in _each_row(copies)]
        new = {each: new_id() for each in named if _ID.fullmatch(each)}

        def renamed(value: Any) -> Any:
            return _ID.sub(lambda found: new.get(found[0], found[0]), value) if isinstance(value, str) else value

        def rows(some: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
            return [{name: value if name in _SAME else renamed(value) for name, value in each.items()} for each in some]

        ordered = sorted(copies.executions, key=lambda each: each["depth"] if each["parent_execution_id"] else -1)
        return ForkedRows(
            executions=_parents_first(rows(ordered)),
            messages=rows(copies.messages),
            tool_calls=rows(copies.tool_calls),
            model_calls=rows(copies.model_calls),
            deliveries=rows(copies.deliveries),
            plans=rows(copies.plans),
        )


_SAME = ("continues_execution_id", "owner", "config_hash")
_FIRST: Mapping[str, Any] = {"position": 0, "role": "user", "kind": "task", "created_at": "", "data": None}


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where an execution learned how a child ended."""

    position: int
    """Of the first message that is left out."""
    at: str
    call: str | None = None
    """The call whose result told it; it is made again."""


def _cut(messages: Sequence[Record], calls: Sequence[Record], deliveries: Sequence[Record], child: Record) -> _Cut:
    by = next((each["consumed_by"] for each in deliveries if each["child_execution_id"] == child["id"]), None)
    positions = {each["id"]: each["position"] for each in messages}
    last = max(positions.values(), default=-1) + 1
    for each in messages:
        if each["id"] == by:
            return _Cut(each["position"], each["created_at"])
    for call in calls:
        if call["id"] == by:
            return _Cut(positions.get(call["message_id"], last) + 1, call["started_at"], call["id"])
    return _Cut(last, child["finished_at"] or NEVER)


def _counts(call: Record) -> bool:
    """Whether a call counted: a tool ran and answered."""
    return bool(call["tool"] != FINISH and call["status"] == "completed")


def _replaced(first: str, before: str, task: str) -> str:
    """The first message with another task; what stands beside the task stays."""
    return first.replace(before, task, 1) if before and before in first else task


def _with_task(arguments: str, task: str | None) -> str:
    given = from_json(arguments)
    return to_json({**given, "task": task}).decode() if isinstance(given, dict) else arguments


def _each_row(copies: _Copies) -> Iterable[Mapping[str, Any]]:
    for some in (copies.executions, copies.messages, copies.tool_calls, copies.model_calls, copies.deliveries):
        yield from sorted(some, key=lambda each: each["id"])


def _parents_first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    below: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        below.setdefault(row["parent_execution_id"], []).append(row)
    found, open_ = list[dict[str, Any]](), list(below.get(None, ()))
    while open_:
        row = open_.pop(0)
        row["root_execution_id"] = found[0]["id"] if found else row["id"]
        found.append(row)
        open_ += below.get(row["id"], ())
    return found
