"""The past of an execution: what rows know of it, read for one that goes on where another process, or its end, left it.

Owns the reading, and what a tree used before. Says nothing about what follows from it: strategies know their own rows.
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
class Chapter:
    """The transcript of one execution, as rows."""

    execution: str
    messages: Sequence[Record]
    tool_calls: Sequence[Record]
    model_calls: Sequence[Record]
    deliveries: Sequence[Record]

    @property
    def shows(self) -> frozenset[str]:
        """What of it can show a delivery: its messages and the results of its tools."""
        return frozenset(row["id"] for row in (*self.messages, *self.tool_calls))


@dataclass(frozen=True)
class Past:
    """An execution's own rows, and before them those of the executions it continues."""

    chapters: Sequence[Chapter]
    """Its own is the last."""
    children: Sequence[Record] = ()
    """Its children, and those of whoever it continues, older ones first."""
    earlier: frozenset[str] = field(default_factory=frozenset)
    """The executions it continues."""
    plans: Sequence[Record] = ()
    """The versions of its plan, and of the plan it continues, in order."""
    waited: bool = False
    """Whether its row says that it waited for something, so that nobody was being asked."""

    @property
    def own(self) -> Chapter:
        """Its own transcript."""
        return self.chapters[-1]

    @property
    def prompt(self) -> str:
        """What all of it is about: the first message of the first of them."""
        text: str = from_json(self.chapters[0].messages[0]["content"])[0]["text"]
        return text

    @cached_property
    def by_id(self) -> Mapping[str, Record]:
        """Its children by id."""
        return {row["id"]: row for row in self.children}

    def unread(self) -> list[Item]:
        """What came and was not read, in order; results with what the child had to say."""
        return [self.item(row) for row in self.own.deliveries if row["consumed_at"] is None]

    def unheard(self) -> list[Item]:
        """The ends that whoever it continues had not read, and that have not come to it either."""
        known = {row["child_execution_id"] for row in self.own.deliveries}
        came: dict[str, None] = {}
        for chapter in self.chapters[:-1]:
            ends = [row for row in chapter.deliveries if row["kind"] == "result"]
            came.update({row["child_execution_id"]: None for row in ends})
            known |= {row["child_execution_id"] for row in ends if row["consumed_by"] in chapter.shows}
        own = self.own.execution
        return [replace(end_of(self.by_id[each]), id=inherited_delivery(each, own)) for each in came if each not in known]

    def item(self, delivery: Record) -> Item:
        """A delivery as whoever reads the inbox gets it."""
        if delivery["kind"] != "result":
            return Item.of_row(delivery)
        return replace(end_of(self.by_id[delivery["child_execution_id"]]), id=delivery["id"])

    def was(self, kind: str) -> list[Item]:
        """What came of one kind, read or not, in order."""
        return [Item.of_row(row) for row in self.own.deliveries if row["kind"] == kind]


def end_of(child: Record) -> Item:
    """How a child ended, as its parent's inbox has it."""
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


async def read_past(reads: Reads, execution: str, continues: str | None) -> Past:
    """Everything rows know of an execution that is to go on."""
    earlier = await lineage(reads, continues)
    everybody = [*earlier, execution]
    children = [child for each in everybody for child in await reads.children(each)]
    plans = [plan for each in everybody for plan in await reads.plans.of(each)]
    return Past([await _chapter(reads, each) for each in everybody], children, frozenset(earlier), plans)


async def lineage(reads: Reads, continues: str | None) -> list[str]:
    """An execution that is continued, and before it those that it continues."""
    earlier: list[str] = []
    while continues is not None and continues not in earlier:
        earlier.insert(0, continues)
        row = await reads.execution(continues)
        continues = row["continues_execution_id"] if row is not None else None
    return earlier


async def _chapter(reads: Reads, execution: str) -> Chapter:
    return Chapter(
        execution,
        await reads.messages(execution),
        await reads.tool_calls(execution),
        await reads.model_calls(execution),
        await reads.deliveries(execution),
    )


class Legacy:
    """A tree as its process left it: for whom, and what it had used. Its rows are read once for all its executions."""

    def __init__(self, root: str, user: User | None = None) -> None:
        self._root = root
        self.user = user
        """Whom it works for."""
        self._below: dict[str | None, list[Record]] | None = None
        self.seen: datetime | None = None
        """The last sign of life."""
        self._waiting: Mapping[str, Record] = {}
        """Those that waited for a person, and since when: from there on their clocks, and their callers', stood still."""

    async def read(self, reads: Reads) -> None:
        """Read the rows, unless that was done."""
        if self._below is not None:
            return
        last = await reads.last_event(self._root, besides="approval.decided")  # which anybody may write
        self._waiting = await reads.questions.waiting(self._root)
        self.seen = moment(last["at"]) if last is not None else None
        self._below = {}
        for row in await reads.tree_rows(self._root):
            self._below.setdefault(row["parent_execution_id"], []).append(row)

    def spent(self, row: Record) -> tuple[Spent, Spent]:
        """What an execution used itself, and with everything below it."""
        own = _spent([row], self._dispatched(row))
        rows = list(self._all(row))
        return own, _spent(rows, sum(self._dispatched(each) for each in rows))

    def lived(self, row: Record) -> float:
        """Seconds from its birth to the last sign of life."""
        return max(0.0, (self.seen - moment(row["created_at"])).total_seconds()) if self.seen is not None else 0.0

    def remaining(self, row: Record) -> float | None:
        """Seconds it had left; the time in which nobody ran it does not count. None for one that had not begun."""
        if row["deadline_at"] is None:
            return None
        stood = [moment(each["since"]) for each in self._waits(row)]
        seen = min([self.seen or moment(row["started_at"]), *stood])
        return max(0.0, (moment(row["deadline_at"]) - seen).total_seconds())

    def allowed(self, row: Record) -> float:
        """Seconds from its start to its hard end: at most that, since restarts and people who were waited for moved it."""
        return (moment(row["deadline_at"]) - moment(row["started_at"])).total_seconds()

    def stands(self, row: Record) -> bool:
        """Whether its clock goes on standing still, for a question that is still open: its deadline stays."""
        return any(each["until"] > stamp() for each in self._waits(row))

    def _waits(self, row: Record) -> list[Record]:
        return [self._waiting[each["id"]] for each in self._all(row) if each["id"] in self._waiting]

    def open_children(self, row: Record) -> list[Record]:
        """Its children that had not ended: those at work before those that wait."""
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
    """The agent or chain of an execution, as configured: what it is called may say which of several like it it is."""
    name: str = row["path"].rpartition("/")[2]
    return name
