"""Deleting a tree: its executions and every row about them, in one transaction.

Refused while an execution of the tree, or one that continues it, is open: it would still write or read these rows.
Configurations are kept, because other trees may have run with them. Facts about users, work items and trees that continue
this one are kept as well, and no longer name an execution of it. The numbers of deleted events are not used again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BindParameter,
    Executable,
    bindparam,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    union_all,
    update,
)

from db.rows.plans import plans
from db.rows.users import IS_EXTRACTION, chat_messages
from db.rows.work_items import work_items
from db.status import OPEN
from db.store.unit import Statement, Write
from db.tables import (
    approvals,
    deliveries,
    error_records,
    event_numbers,
    events,
    executions,
    facts,
    messages,
    model_calls,
    newest_event,
    tool_calls,
    unindexed,
)

Row = Mapping[str, Any]

_OPEN = sorted(status.value for status in OPEN)

_ROOTS: BindParameter[Any] = bindparam("roots", expanding=True)
_IN_TREE = select(executions.c.id).where(executions.c.root_execution_id.in_(_ROOTS))

_later = executions.alias("later")
_CONTINUES = _later.c.continues_execution_id.in_(_IN_TREE) & _later.c.root_execution_id.not_in(_ROOTS)
"""An execution of another tree that continues one of this tree."""

_ENDED = select(literal(1)).where(
    exists().where(executions.c.id == bindparam("root"), executions.c.parent_execution_id.is_(None)),
    ~exists().where(executions.c.root_execution_id.in_(_ROOTS), executions.c.status.in_(_OPEN)),
    ~exists().where(_CONTINUES, _later.c.status.in_(_OPEN)),
)

_OF_TREE = {
    **{
        table: table.c.execution_id.in_(_IN_TREE)
        for table in (messages, model_calls, tool_calls, approvals, error_records, chat_messages, plans)
    },
    deliveries: or_(deliveries.c.execution_id.in_(_IN_TREE), deliveries.c.child_execution_id.in_(_IN_TREE)),
    events: events.c.root_execution_id.in_(_ROOTS),
    executions: executions.c.root_execution_id.in_(_ROOTS),
}
"""The rows of a tree, by table; its executions come last, because the others are found by them."""

_UNBOUND: list[Executable] = [
    update(executions)
    .where(executions.c.continues_execution_id.in_(_IN_TREE), executions.c.root_execution_id.not_in(_ROOTS))
    .values(continues_execution_id=None),
    update(facts).where(facts.c.source_execution_id.in_(_IN_TREE)).values(source_execution_id=""),
    update(work_items).where(work_items.c.execution_id.in_(_IN_TREE)).values(execution_id=None),
]
"""Rows that stay and lose their reference to the tree. The source of a fact cannot be null, so it becomes empty."""


_NUMBERED = update(event_numbers).values(last=newest_event())


def delete_tree(root: str, extractions: Sequence[str] = ()) -> Write:
    """Delete the tree of a top-level execution, and the trees that extracted facts from its conversation.

    Refused when any of it is open, or the id is not a top-level execution.
    """
    roots = [root, *extractions]
    guard = Statement(_ENDED, {"root": root, "roots": roots}, guard=True, looks_around=True)
    changes = [_NUMBERED, *_UNBOUND, *(delete(table).where(rows) for table, rows in _OF_TREE.items())]
    return Write([guard, *(Statement(change, {"roots": roots}) for change in changes)])


class Belongings:
    """Queries over the rows that deleting a tree would remove."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def extractions(self, root: str) -> list[str]:
        """The trees that extracted facts from the conversation of a tree: they repeat its text."""
        read = func.json_each(executions.c.input, "$.messages").table_valued("value")
        in_tree = select(_later.c.id).where(_later.c.root_execution_id == root)
        said = select(chat_messages.c.id).where(chat_messages.c.execution_id.in_(in_tree))
        repeats = select(literal(1)).select_from(read).where(read.c.value.in_(said)).correlate(executions).exists()
        query = select(executions.c.id).where(IS_EXTRACTION, repeats)
        return [row["id"] for row in await self._run(query.order_by(unindexed(executions.c.id)))]

    async def of(self, roots: Sequence[str]) -> dict[str, int]:
        """How many rows of each table belong to these trees."""
        counts = [
            select(literal(table.name).label("name"), func.count().label("rows")).select_from(table).where(rows)
            for table, rows in _OF_TREE.items()
        ]
        found = await self._run(union_all(*counts).params(roots=list(roots)))
        return {row["name"]: row["rows"] for row in found}

    async def continued_by(self, roots: Sequence[str]) -> list[Row]:
        """The executions of other trees that continue one of these, oldest first: `id`, `agent`, `status`, `open`."""
        is_open = _later.c.status.in_(_OPEN).label("open")
        query = select(_later.c.id, _later.c.agent, _later.c.status, is_open).where(_CONTINUES)
        return await self._run(query.order_by(_later.c.id).params(roots=list(roots)))
