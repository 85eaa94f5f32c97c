"""Trees: the nodes of a tree, all or those that changed, with what was refused and what waits for a person in it.

Owns how a node is made of its row and of what its execution did. Must not know: who asks. Invariant: the number of
statements is the same for every number of nodes, and the cursor is read first, so that nothing after it is missed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio.lowlevel
from pydantic_core import from_json

from db.errors import UnknownExecution
from db.rows.reads import Reads
from db.rows.trees import depth_first
from db.store.owners import is_alive
from runner.snapshot import Question
from server.views.activity import Present, activity_of
from server.views.answers import Approval, ExecutionNode, ExecutionTree, RefusedDispatch
from server.views.times import TimeUse, time_use_of, times_of, with_model_now

Row = Mapping[str, Any]

MOST_NODES = 20_000
"""Nodes of one answer; further ones are counted."""
TASK, TEXT = 200, 300
"""Characters of a task, and of an error or summary, in a node."""
TOGETHER = 500
"""Nodes that are made before other tasks have their turn."""

_DERIVED = ("owner", "cancel_requested_at", "task", "summary", "error")


class Trees:
    """Trees of one database."""

    def __init__(self, reads: Reads, path: Path) -> None:
        self._reads, self._path = reads, path

    async def tree(self, top: str, after: int | None = None, first: int | None = None) -> ExecutionTree:
        """An execution and everything below it; raises UnknownExecution.

        With `after` only what changed after an event, with `first` so many executions nearest to its top.
        """
        reads = self._reads
        row = await reads.execution(top)
        if row is None:
            raise UnknownExecution(top)
        root, is_root = row["root_execution_id"], row["parent_execution_id"] is None
        cursor = await reads.outlines.newest(root)
        gone = await self.gone(root)
        rows: list[Row]
        if after is not None:
            rows = await reads.outlines.some(top, await reads.outlines.changed(root, after, sorted(gone)))
        elif first is not None:
            rows = await reads.outlines.first(top, first)
        else:
            levels = depth_first(await reads.outlines.whole(top), top)
            rows = [{**each, "level": level} for each, level in levels]
        whole = after is None and first is None
        size = len(rows) if whole else await reads.outlines.size(top, is_root=is_root)
        open_ = await reads.questions.open(top)
        return ExecutionTree(
            id=top,
            cursor=cursor,
            ended=row["finished_at"] is not None,
            truncated=len(rows) > MOST_NODES,
            executions=size,
            nodes=await self.nodes(rows[:MOST_NODES], open_, gone),
            refused=await self._refused(root, top, is_root=is_root),
            approvals=[approval_of(each) for each in open_],
            critical_path=await reads.outlines.critical_path(top),
        )

    async def gone(self, top: str) -> set[str]:
        """The processes of open executions of a tree that are gone."""
        owners = await self._reads.open_owners(top)
        return {owner for owner in owners if not is_alive(self._path, owner)}

    async def nodes(self, rows: Sequence[Row], open_: Sequence[Row], gone: Collection[str]) -> list[ExecutionNode]:
        """The nodes of rows of one tree, in their order; each row has its `level`."""
        if not rows:
            return []
        reads, ids = self._reads, [row["id"] for row in rows]
        asked: dict[str, list[str]] = {}
        for each in open_:
            for identifier in (each["execution_id"], each["step_execution_id"]):
                asked.setdefault(identifier, []).append(each["tool"])
        used = await self.time_use(ids, rows[0]["root_execution_id"])
        at_work = any(row["finished_at"] is None for row in rows)
        stages = await reads.outlines.stages(rows[0]["root_execution_id"]) if at_work else {}
        present, shorts = Present(asked, used.calling, stages), await reads.shorts(ids)
        now, nodes = time.time(), list[ExecutionNode]()
        for row in rows:
            is_gone = row["finished_at"] is None and (row["owner"] is None or row["owner"] in gone)
            shown = {"short_id": shorts[row["id"]], "activity": activity_of(row, present, gone=is_gone)}
            nodes.append(_node(row, shown, used, now, is_gone=is_gone))
            if len(nodes) % TOGETHER == 0:
                await anyio.lowlevel.checkpoint()
        return nodes

    async def time_use(self, ids: Sequence[str], root: str) -> TimeUse:
        """What these executions of a tree did."""
        contents = self._reads.contents
        models, tools = await contents.model_times(ids), await contents.tool_times(ids)
        return time_use_of(models, tools, await contents.questions([root]), await contents.children_times(ids))

    async def _refused(self, root: str, top: str, *, is_root: bool) -> list[RefusedDispatch]:
        events = await self._reads.outlines.refused(root)
        if events and not is_root:
            parents = list({event["execution_id"] for event in events})
            inside = {row["id"] for row in await self._reads.outlines.some(top, parents)}
            events = [event for event in events if event["execution_id"] in inside]
        return [refused_of(event, payload) for event in events if "refused" in (payload := from_json(event["payload"]))]


def _node(row: Row, shown: Row, used: TimeUse, now: float, *, is_gone: bool) -> ExecutionNode:
    stretches = used.stretches.get(row["id"], ())
    return ExecutionNode(
        **{name: value for name, value in row.items() if name not in _DERIVED},
        **shown,
        task=first_line(row["task"] or "", TASK),
        error=cut_at(row["error"], TEXT) if row["error"] is not None else None,
        summary=cut_at(row["summary"] or "", TEXT),
        owner_gone=is_gone,
        cancel_requested=row["cancel_requested_at"] is not None,
        pricing=sorted(used.pricing.get(row["id"], ())),
        times=times_of(row, with_model_now(row, stretches, alive=not is_gone), now),
    )


def refused_of(event: Row, payload: Row) -> RefusedDispatch:
    """The refused dispatch of an event."""
    return RefusedDispatch(
        id=payload["id"],
        parent_execution_id=event["execution_id"],
        agent=payload["agent"],
        kind=payload["refused"],
        message=payload["reason"],
        at=event["at"],
    )


def approval_of(row: Row) -> Approval:
    """An open question of its row."""
    question = Question.of_row(row)
    return Approval(
        **{name: getattr(question, name) for name in Approval.model_fields if name != "arguments"},
        arguments=question.exact,
    )


def first_line(text: str, most: int) -> str:
    """The first line of a text that is not empty, cut."""
    begin = text.lstrip()[: 4 * most]  # a long text is not split to its end
    return cut_at(begin.splitlines()[0].rstrip(), most) if begin else ""


def cut_at(text: str, most: int) -> str:
    """A text of at most this many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
