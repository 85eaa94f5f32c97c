"""Deleting a tree that has ended: for a service, and for a process that runs nothing."""

from __future__ import annotations

from db.database import Database
from db.errors import StillOpen, UnknownExecution
from runner import facts
from runner.recorder import Recorder


async def delete_tree(database: Database, recorder: Recorder, root: str) -> None:
    """Delete a tree with all that was written about it. Raises UnknownExecution, StillOpen."""
    belongings = database.reads.belongings
    roots = [root, *await belongings.extractions(root)]
    if (await recorder.record(facts.Deleted(root, roots[1:]), patient=False)).held:
        return
    row = await database.reads.execution(root)
    if row is None or row["parent_execution_id"] is not None:
        raise UnknownExecution(root)
    later = [each["id"] for each in await belongings.continued_by(roots) if each["open"]]
    raise StillOpen(later[0] if later else root, continues=root if later else None)
