"""Deleting a tree: its executions and everything that was written about them, in one transaction.

Refused while anything of the tree is open: what runs would go on writing. Configurations are kept, because other trees may
have run with them, and so is what is remembered of people, which is theirs. The numbers of deleted events may be given out
again, which harms nobody: who reads on from a number has it from an event of the tree he reads.
"""

from __future__ import annotations

from sqlalchemy import bindparam, delete, exists, literal, select

from db.people import chat_messages
from db.plans import plans
from db.status import OPEN
from db.tables import approvals, deliveries, error_records, events, executions, messages, model_calls, tool_calls
from db.unit import Statement, Write

_OPEN = sorted(status.value for status in OPEN)

_IN_TREE = select(executions.c.id).where(executions.c.root_execution_id == bindparam("root"))

_ENDED = select(literal(1)).where(
    exists().where(executions.c.id == bindparam("root"), executions.c.parent_execution_id.is_(None)),
    ~exists().where(executions.c.root_execution_id == bindparam("root"), executions.c.status.in_(_OPEN)),
)

_DELETIONS = [
    *(
        delete(table).where(table.c.execution_id.in_(_IN_TREE))
        for table in (messages, model_calls, tool_calls, deliveries, approvals, error_records, chat_messages, plans)
    ),
    delete(events).where(events.c.root_execution_id == bindparam("root")),
    delete(executions).where(executions.c.root_execution_id == bindparam("root")),
]


def delete_tree(root: str) -> Write:
    """Everything of the tree below a top-level execution, or nothing when some of it is open or it is none."""
    guard = Statement(_ENDED, {"root": root}, guard=True, looks_around=True)
    return Write([guard, *(Statement(deletion, {"root": root}) for deletion in _DELETIONS)])
