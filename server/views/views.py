"""The read models of one database, each as one method: what the HTTP API, the export and the MCP App answer.

Owns nothing but the way in. Must not know: who may see what; its caller has asked about a single id before. Invariant: no
question reads more rows of the database than its answer is about.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from db.rows.reads import Reads
from runner.result import Result
from runner.strategies.iterate.export import tasks_of
from runner.strategies.plan.export import plan_of
from server.views.answers import Approval, Counts, ExecutionDetail, ExecutionPage, ExecutionTree
from server.views.bundles import Bundles
from server.views.comparisons import Comparisons
from server.views.details import Details, Lacks
from server.views.figures import TreeComparison, UsageReport
from server.views.filters import ErrorFilter, ExecutionFilter
from server.views.lists import Lists
from server.views.records import ArtifactList, Bundle, ErrorPage, Timeline, TranscriptCall, TranscriptPage
from server.views.transcripts import Transcripts
from server.views.trees import Trees, approval_of
from server.views.usage import recorded, report


class Views:
    """What is answered about the executions of one database."""

    def __init__(self, reads: Reads, path: Path, lacks: Lacks | None = None) -> None:
        self._reads = reads
        self._lists = Lists(reads, path)
        self._trees = Trees(reads, path)
        self._details = Details(reads, self._trees, lacks)
        self._transcripts = Transcripts(reads, self._trees)

    async def lines(self, wanted: ExecutionFilter) -> ExecutionPage:
        """A page of a list."""
        return await self._lists.page(wanted)

    async def counts(self, principal: str | None = None) -> Counts:
        """Roots by group, and open questions."""
        return await self._lists.counts(principal)

    async def execution(self, identifier: str) -> ExecutionDetail:
        """One execution with its texts; raises UnknownExecution."""
        return await self._details.of(identifier)

    async def tree(self, top: str, after: int | None = None, first: int | None = None) -> ExecutionTree:
        """An execution and what is below it: all, what changed, or what is nearest; raises UnknownExecution."""
        return await self._trees.tree(top, after, first)

    async def timeline(self, identifier: str, after: int = 0) -> Timeline:
        """The spans and the stored events of one execution; raises UnknownExecution."""
        return await self._transcripts.timeline(identifier, after)

    async def transcript(self, identifier: str, start: int = 0) -> TranscriptPage:
        """The messages of one execution from a position on, with its calls."""
        return await self._transcripts.page(identifier, start)

    async def tool_call(self, identifier: str) -> tuple[str, TranscriptCall] | None:
        """One call with its whole result, by its row id, and the execution that made it; None if there is none."""
        return await self._transcripts.tool_call(identifier)

    async def plan(self, identifier: str) -> dict[str, Any] | None:
        """The plan of an execution, or the tasks of its iteration; None without either."""
        plan = await plan_of(self._reads, identifier)
        return plan if plan is not None else await tasks_of(self._reads, identifier)

    async def artifacts(self, identifier: str) -> ArtifactList:
        """What its result names."""
        row = await self._reads.execution(identifier)
        result = Result.of_json(row["result"]) if row is not None and row["result"] is not None else None
        return ArtifactList(artifacts=[dict(each) for each in result.artifacts] if result is not None else [])

    async def errors(self, wanted: ErrorFilter) -> ErrorPage:
        """Recorded errors, last seen first."""
        return await recorded(self._reads, wanted)

    async def approvals(self, top: str | None = None, principal: str | None = None) -> list[Approval]:
        """Open questions: all, or those of one subtree."""
        rows = await self._reads.questions.open(top)
        return [approval_of(row) for row in rows if principal is None or row["principal"] == principal]

    async def usage(self, days: int, principal: str | None = None) -> UsageReport:
        """What was used by agent, model and day."""
        return await report(self._reads, days, principal)

    async def compare(self, a: str, b: str) -> TreeComparison:
        """Two trees side by side; raises UnknownExecution."""
        return await Comparisons(self._reads, self._trees).of(a, b)

    async def bundle(self, top: str) -> Bundle:
        """Everything about one tree; raises UnknownExecution."""
        return await Bundles(self._reads, self._trees).of(top)
