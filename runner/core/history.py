"""The history of an execution: its rows, read to resume it after a takeover or to continue it after its end.

Owns the reading and the usage of a tree before a takeover. What follows from the rows is the strategies' concern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from pydantic_core import from_json

from db.clock import moment, stamp
from db.ids import inherited_delivery, result_delivery
from db.rows.reads import Reads, Record
from db.status import ExecutionStatus
from runner.core.allowance import Spent
from runner.core.inbox import Item
from runner.core.views import TOKENS
from runner.messages import Delivered
from runner.origin import User
from runner.result import UNVERIFIED, Result


@dataclass(frozen=True, slots=True)
class TranscriptRows:
    """The transcript rows of one execution."""

    execution: str
    messages: Sequence[Record]
    tool_calls: Sequence[Record]
    model_calls: Sequence[Record]
    deliveries: Sequence[Record]

    @property
    def shows(self) -> frozenset[str]:
        """Ids of the rows that can show a delivery: messages and tool results."""
        return frozenset(row["id"] for row in (*self.messages, *self.tool_calls))


@dataclass(frozen=True)
class History:
    """An execution's own rows, preceded by those of the executions it continues."""

    transcripts: Sequence[TranscriptRows]
    """Oldest first; its own is the last."""
    children: Sequence[Record] = ()
    """Its children and those of the executions it continues, oldest first."""
    earlier: frozenset[str] = field(default_factory=frozenset)
    """The executions it continues."""
    plans: Sequence[Record] = ()
    """The versions of its plan and of the plan it continues, in order."""
    waited: bool = False
    """Whether its row says that it was waiting, so that no model call was in flight."""

    @property
    def own(self) -> TranscriptRows:
        return self.transcripts[-1]

    @property
    def prompt(self) -> str:
        """The first message of the oldest of these executions: the original task."""
        text: str = from_json(self.transcripts[0].messages[0]["content"])[0]["text"]
        return text

    @cached_property
    def by_id(self) -> Mapping[str, Record]:
        """Its children by id."""
        return {row["id"]: row for row in self.children}

    def unread(self) -> list[Item]:
        """Its unread deliveries, in order; ends of children with their results."""
        return [self.item(row) for row in self.own.deliveries if row["consumed_at"] is None]

    def unheard(self) -> list[Item]:
        """Ends of children that the continued executions had not read and that were not delivered to it either."""
        known = {row["child_execution_id"] for row in self.own.deliveries}
        came: dict[str, None] = {}
        for chapter in self.transcripts[:-1]:
            ends = [row for row in chapter.deliveries if row["kind"] == "result"]
            came.update({row["child_execution_id"]: None for row in ends})
            known |= {row["child_execution_id"] for row in ends if row["consumed_by"] in chapter.shows}
        own = self.own.execution
        return [replace(end_of(self.by_id[each]), id=inherited_delivery(each, own)) for each in came if each not in known]

    def item(self, delivery: Record) -> Item:
        """A delivery row as an inbox item."""
        if delivery["kind"] != "result":
            return Item.of_row(delivery)
        return replace(end_of(self.by_id[delivery["child_execution_id"]]), id=delivery["id"])

    def was(self, kind: str) -> list[Item]:
        """Its deliveries of one kind, read or unread, in order."""
        return [Item.of_row(row) for row in self.own.deliveries if row["kind"] == kind]


def end_of(child: Record) -> Item:
    """The end of a child as an inbox item, from its row."""
    answer = Result.of_json(child["result"]) if child["result"] else None
    text = answer.text if answer is not None else ""
    told = Delivered(
        agent=child["agent"],
        execution_id=child["id"],
        status=child["status"],
        outcome=child["outcome"],
        text=text,
        tool_calls=child["tool_call_count"],
        unverified=answer.metadata.get(UNVERIFIED, ()) if answer is not None else (),
    )
    return Item(result_delivery(child["id"]), "result", result=told, answer=answer)


async def read_history(reads: Reads, execution: str, continues: str | None) -> History:
    """The history of an execution that is resumed or continues another."""
    earlier = await lineage(reads, continues)
    chain = [*earlier, execution]
    children = [child for each in chain for child in await reads.children(each)]
    plans = [plan for each in chain for plan in await reads.plans.of(each)]
    return History([await _transcript_rows(reads, each) for each in chain], children, frozenset(earlier), plans)


async def lineage(reads: Reads, continues: str | None) -> list[str]:
    """The chain of continued executions, oldest first, up to and including `continues`."""
    earlier: list[str] = []
    while continues is not None and continues not in earlier:
        earlier.insert(0, continues)
        row = await reads.execution(continues)
        continues = row["continues_execution_id"] if row is not None else None
    return earlier


async def _transcript_rows(reads: Reads, execution: str) -> TranscriptRows:
    return TranscriptRows(
        execution,
        await reads.messages(execution),
        await reads.tool_calls(execution),
        await reads.model_calls(execution),
        await reads.deliveries(execution),
    )


class TreeUsage:
    """A tree as its process left it: its user and its usage. Rows are read once for all its executions."""

    def __init__(self, root: str, user: User | None = None) -> None:
        self._root = root
        self.user = user
        """The user it works for."""
        self._below: dict[str | None, list[Record]] | None = None
        self.seen: datetime | None = None
        """The time of its last event."""
        self._waiting: Mapping[str, Record] = {}
        """Executions with an open approval and its time: since then their clocks, and their ancestors', have stood."""

    async def read(self, reads: Reads) -> None:
        """Read the rows; a second call does nothing."""
        if self._below is not None:
            return
        last = await reads.last_event(self._root, besides="approval.decided")  # which any process may write
        self._waiting = await reads.questions.waiting(self._root)
        self.seen = moment(last["at"]) if last is not None else None
        self._below = {}
        for row in await reads.tree_rows(self._root):
            self._below.setdefault(row["parent_execution_id"], []).append(row)

    def spent(self, row: Record) -> tuple[Spent, Spent]:
        """The usage of an execution: its own, and that of its subtree."""
        own = _spent([row], self._dispatched(row))
        rows = list(self._all(row))
        return own, _spent(rows, sum(self._dispatched(each) for each in rows))

    def lived(self, row: Record) -> float:
        """Seconds from its spawn to the last event of its tree."""
        return max(0.0, (self.seen - moment(row["created_at"])).total_seconds()) if self.seen is not None else 0.0

    def remaining(self, row: Record) -> float | None:
        """Seconds it had left; the time without a process does not count. None if it had not started."""
        if row["deadline_at"] is None:
            return None
        stood = [moment(each["since"]) for each in self._waits(row)]
        seen = min([self.seen or moment(row["started_at"]), *stood])
        return max(0.0, (moment(row["deadline_at"]) - seen).total_seconds())

    def allowed(self, row: Record) -> float:
        """Seconds from its start to its stored deadline: an upper bound, because restarts and approvals moved it."""
        return (moment(row["deadline_at"]) - moment(row["started_at"])).total_seconds()

    def stands(self, row: Record) -> bool:
        """Whether its clock still stands for an open approval: then its deadline stays."""
        return any(each["until"] > stamp() for each in self._waits(row))

    def _waits(self, row: Record) -> list[Record]:
        return [self._waiting[each["id"]] for each in self._all(row) if each["id"] in self._waiting]

    def open_children(self, row: Record) -> list[Record]:
        """Its open children: running ones before pending ones."""
        rows = [each for each in self._children(row) if each["finished_at"] is None]
        return sorted(rows, key=lambda each: each["status"] != ExecutionStatus.RUNNING)

    def _children(self, row: Record) -> Sequence[Record]:
        return (self._below or {}).get(row["id"], ())

    def _dispatched(self, row: Record) -> int:
        return sum(each["tool_call_id"] is not None for each in self._children(row))

    def _all(self, row: Record) -> Iterable[Record]:
        yield row
        for child in self._children(row):
            yield from self._all(child)


def _spent(rows: Sequence[Mapping[str, Any]], dispatches: int) -> Spent:
    return Spent(
        turns=sum(row["turns"] for row in rows),
        tokens=sum(row[name] for row in rows for name in TOKENS),
        cost_usd=sum(row["cost_usd"] for row in rows),
        dispatches=dispatches,
        tool_calls=sum(row["tool_call_count"] for row in rows),
    )


def name_of(row: Record) -> str:
    """The configured name of its agent or chain; the name shown may be that of a replica."""
    name: str = row["path"].rpartition("/")[2]
    return name
