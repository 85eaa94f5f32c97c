"""Finds an earlier, unfinished call of the same command for the same work items; the new call continues it.

Owns which call counts as the same. It writes nothing. It also looks up the work items of a call, so that a command about
an unknown one is refused before anything starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from db.rows.lists import CommandCaller
from db.rows.reads import Reads, Record
from registry import AgentSpec
from runner.core.history import lineage
from runner.core.services import Services
from runner.core.spawn import SpawnRequest
from runner.errors import Refusal
from runner.strategies.route.commands.parse import CommandCall, call_in
from runner.strategies.route.commands.run import no_item
from runner.strategies.route.commands.task import is_command_task, is_whole, number_of
from runner.work_items.board import BoardReader


async def taken_up(request: SpawnRequest, services: Services) -> SpawnRequest:
    """Make a top-level request continue the unfinished call of its command, if there is one. Raises Refusal."""
    call: CommandCall | None = request.root.command
    if call is None or not call.numbers:
        return request
    assert isinstance(request.agent, AgentSpec)
    reads = services.database.reads
    board = BoardReader(services.settings.work_items.board, reads.work_items)
    if not [number for number in call.numbers if await board.find(number) is not None]:
        raise no_item(call.numbers[0])
    user, principal = request.root.origin.user, request.root.origin.principal
    caller = CommandCaller(request.agent.name, principal, user.id if user is not None else None)
    before = await _unfinished(reads, call, request.agent, await reads.calls.of(caller))
    return replace(request, continues=before, prompt=None) if before is not None else request


async def _unfinished(reads: Reads, call: CommandCall, agent: AgentSpec, rows: Sequence[Record]) -> str | None:
    """The id of the newest call about all these work items, if it left some of them unfinished."""
    calls = {row["id"]: read for row in rows if (read := _same(call, agent, row)) is not None}
    continued = {row["id"]: row["continues_execution_id"] for row in rows}
    for row in rows:
        covered: set[int] = set()
        each = row["id"] if row["id"] in calls else None
        while each is not None and each in calls:
            covered.update(calls[each].numbers)
            each = continued.get(each)
        if covered.issuperset(call.numbers):
            return row["id"] if await _is_open(reads, row, call, calls[row["id"]]) else None
    return None


def _same(call: CommandCall, agent: AgentSpec, row: Record) -> CommandCall | None:
    """Parse an earlier call, if it has the same command and the same arguments, apart from work items."""
    try:
        other = call_in(agent, row["task"])
    except Refusal:
        return None
    if other is None or other.command.name != call.command.name or _rest(other) != _rest(call):
        return None
    return other


def _rest(call: CommandCall) -> Mapping[str, Any]:
    numbered = call.command.item_argument
    return {name: value for name, value in call.values.items() if numbered is None or name != numbered.name}


async def _is_open(reads: Reads, row: Record, call: CommandCall, other: CommandCall) -> bool:
    """Whether an ended call left any of the requested work items unfinished."""
    if row["finished_at"] is None or is_whole(row):
        return False
    if set(other.numbers) == set(call.numbers):
        return True
    newest: dict[str, Record] = {}
    for each in await lineage(reads, row["id"]):
        newest.update({child["step_id"]: child for child in await reads.children(each) if is_command_task(child)})
    done: dict[int, list[bool]] = {number: [] for number in call.numbers}
    for step_id, child in newest.items():
        if (number := number_of(step_id)) in done:
            done[number].append(is_whole(child))
    return not all(ends and all(ends) for ends in done.values())
