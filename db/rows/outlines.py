"""Outlines: the executions of a tree without their texts, all of them or those that changed, and what was refused in it.

Owns these queries; `db/rows/reads.py` runs them. Invariant: what has changed is found from the newest events on, so its
cost is that of the change and not that of the tree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Executable, and_, column, func, literal, literal_column, or_, select, table

from db.rows.overview import tells_stage
from db.status import APPROVAL, OPEN, SLOT, ExecutionStatus
from db.tables import below, each_of, events, executions, unindexed

Row = Mapping[str, Any]

TASK, ERROR = 400, 301
"""Characters of a task and of an error that are read: a line of each is shown."""

_WHOLE = (
    *("id", "parent_execution_id", "root_execution_id", "position", "agent", "role", "strategy", "stage", "step_id"),
    *("tool_call_id", "status", "outcome", "reason", "waiting_for", "error_type", "attempt", "continues_execution_id"),
    *("model", "created_at", "started_at", "finished_at", "deadline_at", "turns", "tool_call_count", "input_tokens"),
    *("output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd", "budget_usd", "budget_tokens", "owner"),
    "cancel_requested_at",
)
OUTLINE: tuple[ColumnElement[Any], ...] = (
    *(executions.c[name] for name in _WHOLE),
    func.substr(executions.c.task, 1, TASK).label("task"),
    func.substr(executions.c.error, 1, ERROR).label("error"),
    func.json_extract(executions.c.result, "$.summary").label("summary"),
)
_OPEN = sorted(status.value for status in OPEN)
_REFUSED: ColumnElement[bool] = literal_column(
    "events.type = 'timeline_event.completed' AND instr(events.payload, '\"refused\":') > 0"
)
"""In the words of its index."""

_totals = table(
    "subtree_totals",
    *(column(name) for name in ("id", "executions", "tokens", "cost_usd", "seconds")),
    *(column(status.value) for status in ExecutionStatus),
)


class Outlines:
    """Queries over the trees of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def whole(self, top: str) -> list[Row]:
        """An execution and everything below it, older ones first."""
        query = select(*OUTLINE).where(executions.c.id.in_(select(below(top).c.id)))
        return await self._run(query.order_by(executions.c.created_at, executions.c.position))

    async def first(self, top: str, most: int) -> list[Row]:
        """The executions nearest to `top`, level by level and older ones first, each with its `level`."""
        order = [executions.c.created_at, executions.c.position]
        own = select(executions.c.id, *order, literal(0).label("level")).where(executions.c.id == top)
        down = own.cte("down", recursive=True)
        child = executions.alias("child")
        step = select(child.c.id, child.c.created_at, child.c.position, down.c.level + 1)
        down = down.union_all(step.where(child.c.parent_execution_id == down.c.id))
        nearest = select(down.c.id, down.c.level).order_by(down.c.level, down.c.created_at, down.c.position).limit(most)
        near: Any = nearest.subquery("near")
        query = select(*OUTLINE, near.c.level).join(near, near.c.id == executions.c.id)
        return await self._run(query.order_by(near.c.level, *order))

    async def some(self, top: str, identifiers: Sequence[str]) -> list[Row]:
        """Those of these executions that are in the subtree of `top`, parents before children, each with its `level`."""
        start = select(executions.c.id, executions.c.id.label("at"), literal(0).label("level"))
        up = start.where(executions.c.id.in_(_given(identifiers))).cte("up", recursive=True)
        above = executions.alias("above")
        step = select(up.c.id, above.c.parent_execution_id, up.c.level + 1).where(
            above.c.id == up.c.at, up.c.at != top, above.c.parent_execution_id.is_not(None)
        )
        up = up.union_all(step)
        query = select(*OUTLINE, up.c.level).join(up, up.c.id == executions.c.id).where(up.c.at == top)
        return await self._run(query.order_by(up.c.level, executions.c.created_at, executions.c.position))

    async def newest(self, root: str) -> int:
        """The number of the newest event of a tree; 0 without any."""
        query = select(func.max(events.c.seq).label("seq")).where(events.c.root_execution_id == root)
        return (await self._run(query))[0]["seq"] or 0

    async def first_event(self, root: str) -> Row | None:
        """The first event of a tree; that of a fork says where the tree comes from."""
        query = select(events).where(events.c.root_execution_id == root)
        found = await self._run(query.order_by(events.c.seq).limit(1))
        return found[0] if found else None

    async def continuing(self, identifier: str) -> list[Row]:
        """The executions that continue an ended one, each with its agent."""
        query = select(executions.c.id, executions.c.agent).where(executions.c.continues_execution_id == identifier)
        return await self._run(query.order_by(executions.c.id))

    async def changed(self, root: str, after: int, gone: Sequence[str]) -> list[str]:
        """The executions of a tree that changed after an event.

        Besides those with events, the open ones whose row may have moved without one: they wait for a person, have been
        adopted, or belong to a process that is `gone`.
        """
        told = select(events.c.execution_id.label("id")).where(events.c.root_execution_id == root, events.c.seq > after)
        silent = or_(
            executions.c.waiting_for == APPROVAL,
            and_(executions.c.waiting_for == SLOT, executions.c.attempt > 1),
            executions.c.owner.in_(gone),
        )
        moved = select(executions.c.id).where(
            executions.c.status.in_(_OPEN), unindexed(executions.c.root_execution_id) == root, silent
        )
        return [row["id"] for row in await self._run(told.union(moved))]

    async def size(self, top: str, *, is_root: bool) -> int:
        """How many executions there are in a subtree."""
        if is_root:
            query = select(func.count().label("n")).where(executions.c.root_execution_id == top)
        else:
            query = select(func.count().label("n")).select_from(below(top))
        return int((await self._run(query))[0]["n"])

    async def totals(self, tops: Sequence[str]) -> Mapping[str, Row]:
        """The sums of each of these subtrees, and how many of its executions are in each status."""
        return {row["id"]: row for row in await self._run(select(_totals).where(_totals.c.id.in_(tops)))}

    async def refused(self, root: str) -> list[Row]:
        """The events of the refused dispatches of a tree, in order."""
        query = select(events).where(events.c.root_execution_id == root, _REFUSED)
        return await self._run(query.order_by(events.c.seq))

    async def stages(self, root: str) -> Mapping[str, str]:
        """The payload of the newest stage event of each chain in a tree."""
        query = select(events.c.execution_id, events.c.payload).where(events.c.root_execution_id == root, tells_stage())
        return {row["execution_id"]: row["payload"] for row in await self._run(query.order_by(events.c.seq))}

    async def critical_path(self, top: str) -> list[str]:
        """From the top down, the child that ended last, or has not ended; as the view `critical_path` has it."""
        path = select(literal(top).label("id")).cte("path", recursive=True)
        child = executions.alias("child")
        ended = func.coalesce(child.c.finished_at, "open")
        last = select(child.c.id).where(child.c.parent_execution_id == path.c.id).order_by(ended.desc(), child.c.id.desc())
        path = path.union_all(select(last.limit(1).correlate(path).scalar_subquery()).where(path.c.id.is_not(None)))
        return [row["id"] for row in await self._run(select(path.c.id).where(path.c.id.is_not(None)))]

    async def ancestors(self, identifier: str) -> list[Row]:
        """The executions above one, from the root down, each with its agent."""
        own = executions.alias("own")
        up = select(own.c.id, own.c.parent_execution_id, literal(0).label("steps")).where(own.c.id == identifier)
        walked = up.cte("up", recursive=True)
        above = executions.alias("above")
        walked = walked.union_all(
            select(above.c.id, above.c.parent_execution_id, walked.c.steps + 1).where(
                above.c.id == walked.c.parent_execution_id
            )
        )
        query = select(executions.c.id, executions.c.agent).join(walked, walked.c.id == executions.c.id)
        return await self._run(query.where(walked.c.steps > 0).order_by(walked.c.steps.desc()))


def _given(identifiers: Sequence[str]) -> Any:
    return select(each_of(identifiers).c.value)
