"""The board: the work items of a configuration. Anything may read it; an execution writes to it.

Owns the work item, and the reasons for refusals. Must not know: SQL, or who works on an item.
Invariant: a resumed or retried execution finds the items it had added, and adds none twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from db.rows import work_items
from db.rows.work_items import Author, ItemChange, NewItem, WorkItems
from registry import NOT_STARTED, Complexity, Settings
from runner.errors import Fenced, ItemRefused
from runner.functions.context import Context
from runner.messages import clean
from runner.record.recorder import Recorder
from runner.result import Outcome, Problem, Result, failed, summarise

Artifact = Mapping[str, Any]

LONGEST_TITLE = 500
"""In characters: every list shows all titles."""
TITLE_HINT = "describe the work in a few words"


@dataclass(frozen=True, slots=True)
class WorkItem:
    number: int
    title: str
    status: str
    language: str | None = None
    complexity: Complexity | None = None
    plan: str | None = None
    """The path of its plan, once it has one."""
    depends_on: tuple[int, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    execution_id: str | None = None
    """The execution that added it; None for an item of the configuration."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> WorkItem:
        plain = {
            name: row[name] for name in ("number", "title", "status", "language", "complexity", "plan", "execution_id")
        }
        return cls(**plain, depends_on=tuple(from_json(row["depends_on"])), artifacts=tuple(from_json(row["artifacts"])))


def configured_items(settings: Settings) -> Iterator[tuple[int, NewItem]]:
    """The items of a configuration, as rows to store."""
    board = settings.work_items.board
    for number, item in settings.work_items.items.items():
        depends_on = to_json(item.depends_on).decode()
        yield number, NewItem(board, item.title, item.status, item.language, item.complexity, item.plan, depends_on)


class BoardReader:
    """The items of one board, read-only."""

    def __init__(self, name: str, rows: WorkItems) -> None:
        self.name = name
        self._rows = rows

    async def find(self, number: int) -> WorkItem | None:
        row = await self._rows.one(self.name, number)
        return WorkItem.of_row(row) if row is not None else None

    async def all(self) -> Sequence[WorkItem]:
        """Every item, by number."""
        return [WorkItem.of_row(row) for row in await self._rows.all(self.name)]


class Board(BoardReader):
    """The same, writable by one attempt of an execution: items of an earlier attempt are found again."""

    def __init__(self, name: str, rows: WorkItems, recorder: Recorder, author: Author) -> None:
        super().__init__(name, rows)
        self._recorder, self._author = recorder, author
        self._added: Counter[str] = Counter()

    async def add(self, title: str, *, language: str | None = None, complexity: str | None = None) -> WorkItem:
        """Add an item under the next number: one more than the highest, also when several are added at once."""
        title = " ".join(clean(title).split())
        if not title:
            raise ItemRefused("no_title", "a work item needs a title", TITLE_HINT)
        if len(title) > LONGEST_TITLE:
            raise ItemRefused("long_title", f"a title has at most {LONGEST_TITLE} characters", TITLE_HINT)
        earlier = self._added[title]
        self._added[title] += 1
        item = NewItem(self.name, title, NOT_STARTED, language, complexity)
        ticket = await self._recorder.record_fenced(
            work_items.add(self._author, item, earlier), self._author.place.id, shielded=True
        )
        if ticket.touched:
            return WorkItem.of_row(ticket.touched[0]._mapping)
        before = await self._rows.added_by(self._author.place.id, self.name, title)
        return WorkItem.of_row(before[earlier])

    async def update(
        self, number: int, *, status: str | None = None, plan: str | None = None, artifacts: Sequence[Artifact] = ()
    ) -> WorkItem:
        """Change the status or plan of an item and add artifacts; None keeps a value. Raises ItemRefused."""
        seen: Mapping[str, Any] | None = None
        while True:
            row = await self._rows.one(self.name, number)
            if row is None:
                raise ItemRefused("unknown_item", f"there is no work item {number}", "list the work items")
            if row == seen:  # unchanged since the last try, so the write was refused by the fence
                raise Fenced(self._author.place.id)
            linked = _linked(row["artifacts"], artifacts)
            change = ItemChange(self.name, number, row["artifacts"], linked, status, plan)
            ticket = await self._recorder.record(work_items.change(self._author, change), shielded=True)
            if ticket.held:
                return WorkItem.of_row(ticket.touched[0]._mapping)
            seen = row


def _linked(stored: str, more: Sequence[Artifact]) -> str:
    """The stored artifacts and the new ones, without duplicates."""
    links = from_json(stored)
    for each in more:
        if each not in links:
            links.append(dict(each))
    return to_json(links).decode()


async def add_item(context: Context, task: str, title: str | None = None, language: str | None = None) -> Result:
    """A function for agents that number tasks: adds a work item and returns its number as `task_number`.

    Its title is the field `title`, else the whole task.
    """
    try:
        item = await context.board.add(title or task, language=language)
    except ItemRefused as refused:
        return failed(Problem(refused.kind, str(refused), recoverable=False, recommendation=refused.hint))
    summary = summarise(f"Task {item.number} was added: {item.title}")
    output = {
        "status": str(Outcome.COMPLETED),
        "summary": summary,
        "artifacts": [],
        "metadata": {
            "session_id": context.session_id,
            "agent_type": context.path[-1],
            "delegation_depth": context.depth,
            "delegation_path": list(context.delegation_path),
        },
        "errors": [],
        "task_number": item.number,
    }
    return Result(Outcome.COMPLETED, summary, output)
