"""Bundles: everything about one tree, for a page without a server and for a person elsewhere.

Owns what a bundle contains. Must not know: the form of a file. Invariant: the number of statements is the same for every
number of executions, except for pages of events.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anyio.lowlevel

from db.clock import stamp
from db.rows.reads import Reads
from db.rows.trees import TOKENS
from runner.result import LEAST_PREFIX, MOST, Result, handles_of
from server.views.answers import Ancestor, ExecutionDetail, ExecutionNode, ExecutionTree, SubtreeSums
from server.views.details import citations_of, detail_of, origin_of, stated_warnings
from server.views.records import Bundle, StreamEvent, Timeline, TranscriptPage
from server.views.times import spans_of, stopped_at, with_model_now
from server.views.transcripts import event_of, messages_of, model_call_of
from server.views.trees import TOGETHER, Trees

Row = Mapping[str, Any]

EVENTS = 10_000
"""Events of one statement."""


class Bundles:
    """Whole trees of one database."""

    def __init__(self, reads: Reads, trees: Trees) -> None:
        self._reads, self._trees = reads, trees

    async def of(self, top: str) -> Bundle:
        """Everything about one tree; raises UnknownExecution."""
        written_at = stamp()
        tree = await self._trees.tree(top)
        ids = [node.id for node in tree.nodes]
        executions = await self._executions(tree, ids)
        executions |= await self._stopped(tree, executions)
        origin = await origin_of(self._reads, tree.nodes[0])
        executions[top] = executions[top].model_copy(update={"origin": origin})
        return Bundle(
            id=top,
            written_at=None if tree.ended else written_at,
            tree=tree,
            executions=executions,
            transcripts=await self._transcripts(ids),
            timelines=await self._timelines(tree, ids),
        )

    async def _executions(self, tree: ExecutionTree, ids: Sequence[str]) -> dict[str, ExecutionDetail]:
        texts = {row["id"]: row for row in await self._reads.contents.texts(ids)}
        above = _lineages(tree.nodes, [Ancestor(**each) for each in await self._reads.outlines.ancestors(tree.id)])
        sums = subtree_sums(tree.nodes)
        handles = {each: _handles(texts[each]) for each in ids}
        calls = await self._cited(tree.nodes[0].root_execution_id, [each for cited in handles.values() for each in cited])
        found = {}
        for node in tree.nodes:
            text = texts[node.id]
            result = Result.of_json(text["result"]) if text["result"] is not None else None
            found[node.id] = detail_of(
                *(node, text, above[node.id], sums[node.id]),
                warnings=stated_warnings(result),
                citations=citations_of(handles[node.id], calls),
                whole_ended=tree.ended and tree.nodes[0].parent_execution_id is None,
            )
            if len(found) % TOGETHER == 0:
                await anyio.lowlevel.checkpoint()
        return found

    async def _stopped(self, tree: ExecutionTree, found: Mapping[str, ExecutionDetail]) -> dict[str, ExecutionDetail]:
        """Those whose time stands still, because a call at or below them waits for a person."""
        root = tree.nodes[0].root_execution_id
        waiting = {} if tree.ended else await self._reads.questions.waiting(root)
        questions = await self._reads.contents.questions([root]) if waiting else []
        asked, waits = _upwards(questions, found), _upwards(waiting.values(), found)
        since = {each: stopped_at(asked.get(each, ()), rows) for each, rows in waits.items()}
        return {each: found[each].model_copy(update={"clock_stopped_at": at}) for each, at in since.items()}

    async def _cited(self, root: str, handles: Sequence[str]) -> list[Row]:
        """The calls of the tree that its answers cite: as many handles at once as one answer may have."""
        wanted, found = list(dict.fromkeys(handles)), list[Row]()
        for start in range(0, len(wanted), MOST):
            found += await self._reads.contents.cited([root], wanted[start : start + MOST], LEAST_PREFIX)
        return found

    async def _transcripts(self, ids: Sequence[str]) -> dict[str, TranscriptPage]:
        contents = self._reads.contents
        said = _by_execution(await contents.messages(ids))
        called, asked = _by_execution(await contents.tool_calls(ids)), _by_execution(await contents.model_calls(ids))
        found = {}
        for each in ids:
            messages = messages_of(said.get(each, ()), called.get(each, ()), None)
            models = [model_call_of(row) for row in asked.get(each, ())]
            found[each] = TranscriptPage(
                id=each, messages=messages, model_calls=models, total=len(messages), next_position=None
            )
            if len(found) % TOGETHER == 0:
                await anyio.lowlevel.checkpoint()
        return found

    async def _timelines(self, tree: ExecutionTree, ids: Sequence[str]) -> dict[str, Timeline]:
        root = tree.nodes[0].root_execution_id
        events = await self._events(root, ids, tree.cursor)
        used, now = await self._trees.time_use(ids, root), time.time()
        found = {}
        for node in tree.nodes:
            row = {name: getattr(node, name) for name in _LIFE}
            stretches = with_model_now(row, used.stretches.get(node.id, ()), alive=not node.owner_gone)
            spans = spans_of(row, stretches, now)
            found[node.id] = Timeline(id=node.id, spans=spans, events=events.get(node.id, []), next_seq=None)
        return found

    async def _events(self, root: str, ids: Sequence[str], until: int) -> dict[str, list[StreamEvent]]:
        found: dict[str, list[StreamEvent]] = {}
        after: int = 0
        while page := await self._reads.contents.events(root, ids, after, EVENTS):
            for row in page:
                if row["seq"] <= until:
                    found.setdefault(row["execution_id"], []).append(event_of(row))
            after = page[-1]["seq"]
        return found


_LIFE = ("status", "model", "waiting_for", "created_at", "started_at", "finished_at")


def _upwards(rows: Iterable[Row], found: Mapping[str, ExecutionDetail]) -> dict[str, list[Row]]:
    """The rows of each execution together with those of the executions below it."""
    gathered: dict[str, list[Row]] = {}
    for row in rows:
        if (detail := found.get(row["execution_id"])) is not None:
            for each in (detail.node.id, *(above.id for above in detail.ancestors if above.id in found)):
                gathered.setdefault(each, []).append(row)
    return gathered


def _handles(text: Row) -> list[str]:
    result = Result.of_json(text["result"]) if text["result"] is not None else None
    return handles_of(result.text) if result is not None and result.output is not None else []


def _by_execution(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["execution_id"], []).append(row)
    return found


def _lineages(nodes: Sequence[ExecutionNode], above: Sequence[Ancestor]) -> dict[str, list[Ancestor]]:
    """The executions above each node; `above` are those of the top."""
    found: dict[str, list[Ancestor]] = {nodes[0].id: list(above)}
    own = {node.id: Ancestor(id=node.id, agent=node.agent) for node in nodes}
    for node in nodes[1:]:
        found[node.id] = [*found[node.parent_execution_id], own[node.parent_execution_id]]
    return found


def subtree_sums(nodes: Sequence[ExecutionNode]) -> dict[str, SubtreeSums]:
    """The sums of each subtree, added up from the leaves; a test proves that the view `subtree_totals` agrees."""
    sums: dict[str, dict[str, Any]] = {}
    for node in nodes:
        times = node.times
        ran = sum((times.model, times.tool, times.approval, times.children, times.idle))
        tokens = sum(getattr(node, name) for name in TOKENS)
        own = {"executions": 1, "tokens": tokens, "cost_usd": node.cost_usd, "seconds": ran}
        sums[node.id] = {**own, "by_status": {node.status: 1}}
    for node in reversed(nodes[1:]):
        own, parent = sums[node.id], sums[node.parent_execution_id]
        for name in ("executions", "tokens", "cost_usd", "seconds"):
            parent[name] += own[name]
        for status, count in own["by_status"].items():
            parent["by_status"][status] = parent["by_status"].get(status, 0) + count
    return {each: SubtreeSums(**values) for each, values in sums.items()}
