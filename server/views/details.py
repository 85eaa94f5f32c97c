"""One execution with its texts: result, ancestors, sums, warnings, what it needs, what its answer cites, what can be done.

Owns which actions make sense in which state. Must not know: who may carry them out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from pydantic_core import from_json

from db.errors import UnknownExecution
from db.rows.reads import Reads
from db.status import TERMINAL, ExecutionStatus
from runner.core.history import lineage
from runner.result import LEAST_PREFIX, UNVERIFIED, Result, handles_of, remark
from server.views.answers import (
    Action,
    Ancestor,
    Citation,
    ExecutionDetail,
    ExecutionNode,
    ForkOrigin,
    Lacking,
    ResultDetail,
    SubtreeSums,
)
from server.views.times import stopped_at
from server.views.trees import Trees
from server.wording import happening

Row = Mapping[str, Any]


class LackOfTree(Protocol):
    """A need of an interrupted tree that this process lacks; in words as text."""

    @property
    def hint(self) -> str: ...


Lacks = Callable[[str], Awaitable[Sequence[LackOfTree]]]
"""What this process lacks to resume a tree, by its root."""


class Details:
    """Single executions of one database."""

    def __init__(self, reads: Reads, trees: Trees, lacks: Lacks | None) -> None:
        self._reads, self._trees, self._lacks = reads, trees, lacks

    async def of(self, identifier: str) -> ExecutionDetail:
        """One execution; raises UnknownExecution."""
        reads = self._reads
        rows = await reads.outlines.some(identifier, [identifier])
        if not rows:
            raise UnknownExecution(identifier)
        root = rows[0]["root_execution_id"]
        node = (await self._trees.nodes(rows, await reads.questions.open(identifier), await self._trees.gone(root)))[0]
        text = (await reads.contents.texts([identifier]))[0]
        result = Result.of_json(text["result"]) if text["result"] is not None else None
        above = [Ancestor(**each) for each in await reads.outlines.ancestors(identifier)]
        sums = sums_of((await reads.outlines.totals([identifier]))[identifier])
        lacks = await self._lacks(root) if node.owner_gone and self._lacks is not None else ()
        warnings = [*stated_warnings(result), *await self._warnings(identifier)]
        needs = [Lacking(words=str(each), hint=each.hint) for each in lacks]
        citations = await self._citations(node, result)
        top = rows[0] if root == identifier else await reads.execution(root)
        over = top is not None and top["finished_at"] is not None
        parts = node, text, above, sums
        detail = detail_of(*parts, warnings=warnings, needs=needs, citations=citations, whole_ended=over)
        after = [Ancestor(**each) for each in await reads.outlines.continuing(identifier)]
        clock, origin = await self._stopped_at(node), await origin_of(reads, node)
        more = {"clock_stopped_at": clock, "origin": origin, "continued_by": after}
        whole: ExecutionDetail = detail.model_copy(update=more)
        return whole

    async def _stopped_at(self, node: ExecutionNode) -> str | None:
        """Since when its time stands still."""
        reads, root = self._reads, node.root_execution_id
        waiting = await reads.questions.waiting(root) if node.status == ExecutionStatus.RUNNING else {}
        if not waiting:
            return None
        questions = await reads.contents.questions([root])
        if node.id != root:
            asked = await reads.outlines.some(node.id, sorted({each["execution_id"] for each in questions}))
            below = {row["id"] for row in asked}
            questions = [each for each in questions if each["execution_id"] in below]
            waiting = {each: row for each, row in waiting.items() if each in below}
        return stopped_at(questions, waiting.values())

    async def _warnings(self, identifier: str) -> list[str]:
        """What happened in the subtree that a reader of the answer should know."""
        notices = [(event, from_json(event["payload"])) for event in await self._reads.notices(identifier)]
        said = [f"{happening(event['type'], payload)}: {payload.get('message', '')}" for event, payload in notices]
        unknown = await self._reads.unknown_outcomes(identifier)
        said += [f"{call['tool']}: outcome unknown ({call['error_type']}), call {call['id']}" for call in unknown]
        return list(dict.fromkeys(each.split("\n", 1)[0] for each in said))

    async def _citations(self, node: ExecutionNode, result: Result | None) -> list[Citation]:
        handles = handles_of(result.text) if result is not None and result.output is not None else []
        if not handles:
            return []
        earlier = await self._reads.those(await lineage(self._reads, node.continues_execution_id))
        roots = [node.root_execution_id, *(row["root_execution_id"] for row in earlier)]
        return citations_of(handles, await self._reads.contents.cited(roots, handles, LEAST_PREFIX))


async def origin_of(reads: Reads, node: ExecutionNode) -> ForkOrigin | None:
    """Where the tree of a top comes from, if it is a fork."""
    first = await reads.outlines.first_event(node.id) if node.parent_execution_id is None else None
    if first is None or first["type"] != "execution.forked":
        return None
    return ForkOrigin.model_validate(from_json(first["payload"]))


def detail_of(  # noqa: PLR0913 - the parts of an answer, each from its own source
    node: ExecutionNode,
    text: Row,
    ancestors: Sequence[Ancestor],
    subtree: SubtreeSums,
    *,
    warnings: Sequence[str],
    needs: Sequence[Lacking] = (),
    citations: Sequence[Citation] = (),
    whole_ended: bool,
) -> ExecutionDetail:
    """The execution of its parts."""
    columns = ("principal", "cancelled_by", "cancel_reason", "timeout_seconds")
    return ExecutionDetail(
        **{name: text[name] for name in columns},
        node=node,
        task=text["task"] or "",
        input=from_json(text["input"]) if text["input"] is not None else None,
        result=ResultDetail.model_validate(from_json(text["result"])) if text["result"] is not None else None,
        ancestors=list(ancestors),
        subtree=subtree,
        warnings=list(warnings),
        needs=list(needs),
        citations=list(citations),
        actions=actions_of(node, whole_ended=whole_ended),
    )


def sums_of(row: Row) -> SubtreeSums:
    """The sums of a subtree, of a row of the view `subtree_totals`."""
    by_status = {status.value: int(row[status.value]) for status in ExecutionStatus if row[status.value]}
    names = ("executions", "tokens", "cost_usd", "seconds")
    return SubtreeSums(**{name: row[name] for name in names}, by_status=by_status)


def stated_warnings(result: Result | None) -> list[str]:
    """The warnings of a result itself."""
    if result is None:
        return []
    warnings = [str(each) for each in result.metadata.get("warnings", ())]
    unmade = result.metadata.get(UNVERIFIED, ())
    return [*warnings, *([remark(unmade)] if unmade and remark(unmade) not in warnings else [])]


def citations_of(handles: Sequence[str], calls: Sequence[Row]) -> list[Citation]:
    """The calls that the handles of an answer mean; a shortened handle may mean the beginning of one."""
    found = []
    for handle in handles:
        meant = [call for call in calls if call["call_id"] == handle]
        if not meant and len(handle) >= LEAST_PREFIX:
            meant = [call for call in calls if call["call_id"].startswith(handle)]
        call = meant[0] if meant else None
        found.append(
            Citation(
                cited=handle,
                call_id=call["id"] if call is not None else None,
                execution_id=call["execution_id"] if call is not None else None,
                tool=call["tool"] if call is not None else "",
            )
        )
    return found


def actions_of(node: ExecutionNode, *, whole_ended: bool) -> list[Action]:
    """What makes sense now: an open execution can be stopped and told something, an ended one continued.

    One of a tree that has ended as a whole can be run again.
    """
    again: list[Action] = ["rerun"] if whole_ended else []
    if node.status in TERMINAL:
        incomplete = node.status != ExecutionStatus.COMPLETED or node.outcome != "completed"
        return ["message", *(["resume"] if incomplete and node.started_at is not None else []), *again]  # type: ignore[list-item]
    if node.owner_gone:
        return ["resume", "cancel"]
    if node.cancel_requested:
        return []
    return ["cancel", "wrap-up", "message"] if node.status == "running" else ["cancel"]
