"""Lists: pages of executions in three groups, what a search finds, and how many there are of each.

Owns the groups and the order inside them. Must not know: who asks. Top-level executions need attention while a question of
their tree is open, when their process is gone, and for a day after they ended badly; without a day's limit, old failures
would have to be dismissed. Invariant: a page looks at a bounded number of rows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from db.clock import stamp
from db.ids import ALPHABET, LAST, LEAST_ENDING
from db.rows.pages import LOOKED_AT, PageFilter
from db.rows.reads import Reads
from db.status import OPEN, ExecutionStatus
from db.store.owners import is_alive
from runner.result import BUDGETS
from server.views.activity import Present, activity_of, activity_of_tree, waiting_for_person
from server.views.answers import Attention, Counts, ExecutionPage, ExecutionSummary
from server.views.filters import ExecutionFilter
from server.views.times import Lifetime
from server.views.trees import TASK, TEXT, cut_at, first_line

Row = Mapping[str, Any]

ATTENTION_HOURS = 24
"""How long an execution that ended badly needs attention."""
BADLY: Mapping[str, Attention] = {
    ExecutionStatus.BLOCKED.value: "blocked",
    ExecutionStatus.FAILED.value: "failed",
    ExecutionStatus.TIMED_OUT.value: "timed_out",
}
SEPARATOR = "~"
"""Between the parts of a cursor among what ended badly: the end, and the id."""


@dataclass(frozen=True, slots=True)
class _Standing:
    """What is open, and what of it needs attention."""

    since: str
    """What ended badly since then needs attention."""
    roots: Sequence[Row]
    asked: Mapping[str, Sequence[Row]]
    """Open questions by tree."""
    gone: frozenset[str]

    def attention(self, row: Row) -> Attention | None:
        """Why an execution needs attention."""
        if row["finished_at"] is not None:
            if row["finished_at"] < self.since:
                return None
            if row["status"] in BADLY:
                return BADLY[row["status"]]
            return "over_budget" if row["reason"] in BUDGETS else None
        return self.of_open(row)

    def of_open(self, row: Row) -> Attention | None:
        """Why an open one does."""
        if row["id"] in self.asked:
            return "approval"
        return "interrupted" if self.is_gone(row) else None

    def is_gone(self, row: Row) -> bool:
        return row["owner"] is None or row["owner"] in self.gone


@dataclass(frozen=True, slots=True)
class _Found:
    """The ids of a page, and where the next one begins."""

    ids: list[str]
    next: str | None = None
    searched_to: str | None = None


class Lists:
    """Lists of one database."""

    def __init__(self, reads: Reads, path: Path) -> None:
        self._reads, self._path = reads, path

    async def counts(self, principal: str | None) -> Counts:
        """Roots by group, and open questions."""
        standing, pages = await self._standing(principal), self._reads.pages
        troubled = sum(standing.of_open(row) is not None for row in standing.roots)
        badly = await pages.count_ended_badly(standing.since, principal)
        return Counts(
            attention=troubled + badly,
            running=len(standing.roots) - troubled,
            finished=await pages.count_ended(principal) - badly,
            approvals=sum(map(len, standing.asked.values())),
        )

    async def page(self, wanted: ExecutionFilter) -> ExecutionPage:
        """A page of a list."""
        standing = await self._standing(wanted.principal)
        named = await self._named(wanted, standing)
        if wanted.group == "attention":
            found = await self._attention(wanted, standing)
        elif wanted.group == "running":
            open_ = [row for row in standing.roots if standing.of_open(row) is None]
            found = await self._among(wanted, open_)
        else:
            found = await self._newest(wanted, standing)
        ids = [*named, *(each for each in found.ids if each not in named)]
        lines = await self._lines(ids, standing)
        return ExecutionPage(executions=lines, next_cursor=found.next, searched_to=found.searched_to)

    async def _standing(self, principal: str | None) -> _Standing:
        roots = await self._reads.pages.open_roots(principal)
        asked: dict[str, list[Row]] = {}
        for question in await self._reads.questions.open():
            if principal is None or question["principal"] == principal:
                asked.setdefault(question["root_execution_id"], []).append(question)
        owners = {row["owner"] for row in roots if row["owner"] is not None}
        gone = frozenset(owner for owner in owners if not is_alive(self._path, owner))
        since = stamp(datetime.now(UTC) - timedelta(hours=ATTENTION_HOURS))
        return _Standing(since, roots, asked, gone)

    async def _named(self, wanted: ExecutionFilter, standing: _Standing) -> list[str]:
        """On the first page of a search: the executions of any level whose id it may mean."""
        words = (wanted.q or "").strip().lower()
        if wanted.cursor is not None or len(words) < LEAST_ENDING or not set(words) <= set(ALPHABET):
            return []
        rows = await self._reads.pages.rows(await self._reads.named(words, wanted.principal))
        return [row["id"] for row in rows if _fits(row, wanted) and wanted.group in (None, _group_of(row, standing))]

    # -- pages of ids --------------------------------------------------------------------------------------------------

    async def _newest(self, wanted: ExecutionFilter, standing: _Standing) -> _Found:
        finished = standing.since if wanted.group == "finished" else None
        if finished is not None and wanted.status in OPEN:
            return _Found([])
        only_roots = not wanted.every_level or wanted.group is not None
        page = PageFilter(wanted.principal, wanted.status, wanted.agent, only_roots, finished, wanted.cursor)
        if not wanted.q:
            ids = await self._reads.pages.ids(page, wanted.limit + 1)
            return _cut(ids, wanted.limit)
        looked_at = await self._reads.pages.ids(page, LOOKED_AT)
        found = _cut(await self._reads.pages.matching(looked_at, wanted.q), wanted.limit)
        if found.next is None and len(looked_at) == LOOKED_AT:
            return _Found(found.ids, looked_at[-1], looked_at[-1])
        return found

    async def _among(self, wanted: ExecutionFilter, rows: Sequence[Row]) -> _Found:
        """A page of open executions, all of which are known."""
        before = wanted.cursor if wanted.cursor is not None else LAST
        ids = [row["id"] for row in rows if row["id"] < before and _fits(row, wanted)]
        if wanted.q:
            ids = await self._reads.pages.matching(ids, wanted.q)
        return _cut(ids, wanted.limit)

    async def _attention(self, wanted: ExecutionFilter, standing: _Standing) -> _Found:
        """First the open ones, newest first, then what ended badly, last ended first."""
        cursor, before = wanted.cursor, None
        ids: list[str] = []
        if cursor is not None and SEPARATOR in cursor:
            end, _, last = cursor.partition(SEPARATOR)
            before = (end, last)
        else:
            troubled = [row for row in standing.roots if standing.of_open(row) is not None]
            open_ = await self._among(wanted, troubled)
            if open_.next is not None:
                return open_
            ids = open_.ids
        page = PageFilter(wanted.principal, wanted.status, wanted.agent)
        most = LOOKED_AT if wanted.q else wanted.limit + 1
        looked_at = ended = await self._reads.pages.ended_badly(standing.since, page, before, most)
        if wanted.q:
            matching = set(await self._reads.pages.matching([each for _, each in ended], wanted.q))
            ended = [each for each in ended if each[1] in matching]
        room = wanted.limit - len(ids)
        if len(ended) <= room:
            found = [*ids, *(each for _, each in ended)]
            if wanted.q and len(looked_at) == LOOKED_AT:
                return _Found(found, SEPARATOR.join(looked_at[-1]), looked_at[-1][1])
            return _Found(found)
        shown = ended[:room]
        end_of_page = shown[-1] if shown else (stamp(), LAST)
        return _Found([*ids, *(each for _, each in shown)], SEPARATOR.join(end_of_page))

    # -- lines ---------------------------------------------------------------------------------------------------------

    async def _lines(self, ids: Sequence[str], standing: _Standing) -> list[ExecutionSummary]:
        if not ids:
            return []
        reads, rows = self._reads, await self._reads.pages.rows(ids)
        roots = [row["id"] for row in rows if row["parent_execution_id"] is None]
        others = [row["id"] for row in rows if row["parent_execution_id"] is not None]
        sums: dict[str, Row] = {**await reads.overview.sums(roots)}
        for each, row in (await reads.outlines.totals(others) if others else {}).items():
            open_ = sum(int(row[status.value]) for status in OPEN)
            sums[each] = {**row, "ended": row["executions"] - open_}
        pricing: dict[str, set[str]] = {each: set(kinds) for each, kinds in (await reads.overview.pricing(roots)).items()}
        for call in await reads.contents.model_times(others) if others else ():
            pricing.setdefault(call["execution_id"], set()).add(call["pricing"])
        doing, shorts = await self._doing(rows, standing), await reads.shorts(ids)
        now = time.time()
        return [
            _line(
                row,
                sums[row["id"]],
                {
                    "short_id": shorts[row["id"]],
                    "activity": doing.get(row["id"], ""),
                    "pricing": sorted(pricing.get(row["id"], ())),
                    "approvals": len(standing.asked.get(row["id"], ())),
                    "owner_gone": row["finished_at"] is None and standing.is_gone(row),
                    "attention": standing.attention(row),
                },
                now,
            )
            for row in rows
        ]

    async def _doing(self, rows: Sequence[Row], standing: _Standing) -> dict[str, str]:
        """What each of the open ones does."""
        open_ = [row for row in rows if row["finished_at"] is None]
        roots = [row["id"] for row in open_ if row["parent_execution_id"] is None]
        events, stages = await self._reads.overview.last_events(roots), await self._reads.overview.stages(roots)
        found = {}
        for row in open_:
            identifier = row["id"]
            if identifier in standing.asked:
                found[identifier] = waiting_for_person([each["tool"] for each in standing.asked[identifier]])
            elif identifier in events and not standing.is_gone(row):
                found[identifier] = activity_of_tree(row, events[identifier], stages.get(identifier))
            else:
                found[identifier] = activity_of(row, Present(), gone=standing.is_gone(row))
        return found


_COLUMNS = ("id", "parent_execution_id", "agent", "status", "outcome", "reason", "created_at", "started_at", "finished_at")


def _line(row: Row, sums: Row, shown: Row, now: float) -> ExecutionSummary:
    life = Lifetime.of(row, now)
    return ExecutionSummary(
        **{name: row[name] for name in _COLUMNS},
        **shown,
        task=first_line(row["task"] or "", TASK),
        error=cut_at(row["error"], TEXT) if row["error"] is not None else None,
        cancel_requested=row["cancel_requested_at"] is not None,
        seconds=round(life.end - (life.began if life.began is not None else life.created), 3),
        subtree_executions=sums["executions"],
        subtree_ended=sums["ended"],
        subtree_tokens=sums["tokens"],
        subtree_cost_usd=sums["cost_usd"],
    )


def _cut(ids: Sequence[str], limit: int) -> _Found:
    """A page of ids of which there is one more if there is another page."""
    shown = list(ids[:limit])
    return _Found(shown, shown[-1] if len(ids) > limit and shown else None)


def _fits(row: Row, wanted: ExecutionFilter) -> bool:
    return wanted.status in (None, row["status"]) and wanted.agent in (None, row["agent"])


def _group_of(row: Row, standing: _Standing) -> str:
    """The group of a top-level execution; others are in none."""
    if row["parent_execution_id"] is not None:
        return ""
    if standing.attention(row) is not None:
        return "attention"
    return "running" if row["finished_at"] is None else "finished"
