"""A tree that any process runs, watched from this terminal: its events as they are stored, then its end.

Owns the order of things: follow, show, tell the end, or leave. Must not know: a service; nothing here can change a tree.
Invariant: a signal ends the watching and nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from pydantic_core import from_json

from db.rows.reads import Reads
from runner.result import Result
from runner.snapshot import Snapshot
from server.cli.live.row_follower import RowFollower
from server.cli.show import report
from server.cli.show.tree_view import can_redraw, tree_view
from server.cli.terminal.exits import CommandError, Exit, exit_of_status
from server.cli.terminal.output import note, put_json_line
from server.cli.terminal.signals import unless_left

RESUMED = "a process has resumed it"


class LiveWatch:
    """One execution, with everything below it, watched."""

    def __init__(self, reads: Reads, database: Path, execution: str) -> None:
        self._reads, self._execution = reads, execution
        self._follower = RowFollower(reads, database, execution)

    async def run(self) -> int:
        """Show it until it ends, then its answer; the exit code is that of the execution."""
        view, short = tree_view(), await self._reads.short(self._execution)

        resumed = False

        def tell(gone: bool) -> None:
            nonlocal resumed
            resumed = not gone
            words = f"its process is gone, `outrider resume {short}` resumes it" if gone else RESUMED
            view.painter.say(words)

        async def follow() -> None:
            async with anyio.create_task_group() as painting:
                painting.start_soon(view.paint, name="paint the tree")
                try:
                    await view.follow(self._follower.events(tell if can_redraw(sys.stderr) else None))
                finally:
                    painting.cancel_scope.cancel()
                    view.finish()

        if (left := await unless_left(follow)) is not None:
            note(f"left, and stopped nothing; `outrider watch {short}` watches it again")
            return left
        self._check(short)
        if resumed:
            note(f"its process was gone, and {RESUMED}")  # it may have ended before the window could say so
        remarks = [f"{node.agent}: {remark}" for node in view.model.nodes.values() for remark in node.notes]
        ended = await self._ended(short, remarks)
        report.tell(ended, as_json=False)
        return report.exit_of(ended)

    async def put_events(self) -> int:
        """Put out each event as a line of JSON."""

        async def put() -> None:
            async for event in self._follower.events():
                told = {name: event[name] for name in ("seq", "type", "execution_id", "parent_execution_id")}
                root, at = event["root_execution_id"], event["at"]
                put_json_line({**told, "root_execution_id": root, "at": at, "payload": from_json(event["payload"])})

        if (left := await unless_left(put)) is not None:
            return left
        self._check(await self._reads.short(self._execution))
        row = await self._reads.execution(self._execution)
        return exit_of_status(row["status"] if row is not None else "")

    def _check(self, short: str) -> None:
        if self._follower.is_gone:
            hint = f"`outrider resume {short}` resumes it, and so does the next `outrider serve`"
            raise CommandError("the process that ran it is gone, and it has not ended", hint, Exit.FAILED)

    async def _ended(self, short: str, remarks: list[str]) -> report.EndedRun:
        rows, pricing = await self._reads.tree(self._execution), await self._reads.pricing(self._execution)
        row = rows[0]
        result = Result.of_json(row["result"]) if row["result"] else None
        who, status = (row["id"], row["agent"], row["task"] or ""), row["status"]
        child = Snapshot(*who, status, result=result, error=row["error"], elapsed=row["own_seconds"])
        kinds = frozenset(kind for each in pricing.values() for kind in each)
        return report.EndedRun(child, rows, kinds, remarks, short)
