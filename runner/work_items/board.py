"""The board: the work items of a configuration's board, to be read by anybody and written by an execution.

Owns what an item is, and why a change is refused. Must not know: SQL, or who works on an item.
Invariant: whoever goes on with an execution, or tries once more, finds what it had added and adds it only once.
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
"""In characters: every listing shows the titles of all."""
IN_A_FEW_WORDS = "say in a few words what is to be done"


@dataclass(frozen=True, slots=True)
class WorkItem:
    """Something to do."""

    number: int
    title: str
    status: str
    language: str | None = None
    complexity: Complexity | None = None
    plan: str | None = None
    """Where its plan is, once it has one."""
    depends_on: tuple[int, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    execution_id: str | None = None
    """Whoever added it; nobody, if it stands in a configuration."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> WorkItem:
        """The item of a row."""
        plain = {
            name: row[name] for name in ("number", "title", "status", "language", "complexity", "plan", "execution_id")
        }
        return cls(**plain, depends_on=tuple(from_json(row["depends_on"])), artifacts=tuple(from_json(row["artifacts"])))


def configured_items(settings: Settings) -> Iterator[tuple[int, NewItem]]:
    """The items a configuration has, as they are stored."""
    board = settings.work_items.board
    for number, item in settings.work_items.items.items():
        depends_on = to_json(item.depends_on).decode()
        yield number, NewItem(board, item.title, item.status, item.language, item.complexity, item.plan, depends_on)


class Items:
    """The items of one board, to be looked at."""

    def __init__(self, name: str, rows: WorkItems) -> None:
        self.name = name
        self._rows = rows

    async def find(self, number: int) -> WorkItem | None:
        """The item of a number, or None."""
        row = await self._rows.one(self.name, number)
        return WorkItem.of_row(row) if row is not None else None

    async def all(self) -> Sequence[WorkItem]:
        """Every item, by number."""
        return [WorkItem.of_row(row) for row in await self._rows.all(self.name)]


class Board(Items):
    """The same, for one attempt of an execution to write on: what an earlier attempt had added is found again."""

    def __init__(self, name: str, rows: WorkItems, recorder: Recorder, author: Author) -> None:
        super().__init__(name, rows)
        self._recorder, self._author = recorder, author
        self._added: Counter[str] = Counter()

    async def add(self, title: str, *, language: str | None = None, complexity: str | None = None) -> WorkItem:
        """Add an item under the next number: one more than the highest, however many are added at once."""
        title = " ".join(clean(title).split())
        if not title:
            raise ItemRefused("no_title", "a work item needs a title", IN_A_FEW_WORDS)
        if len(title) > LONGEST_TITLE:
            raise ItemRefused("long_title", f"a title has at most {LONGEST_TITLE} characters", IN_A_FEW_WORDS)
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
        """Say how far an item has come, and link what came of it; None for what stays. Raises ItemRefused."""
        seen: Mapping[str, Any] | None = None
        while True:
            row = await self._rows.one(self.name, number)
            if row is None:
                raise ItemRefused("unknown_item", f"there is no work item {number}", "look at the items there are")
            if row == seen:  # nobody else has changed it, so it was not refused for that
                raise Fenced(self._author.place.id)
            linked = _linked(row["artifacts"], artifacts)
            change = ItemChange(self.name, number, row["artifacts"], linked, status, plan)
            ticket = await self._recorder.record(work_items.change(self._author, change), shielded=True)
            if ticket.held:
                return WorkItem.of_row(ticket.touched[0]._mapping)
            seen = row


def _linked(stored: str, more: Sequence[Artifact]) -> str:
    """The artifacts of an item with others, none of them twice."""
    links = from_json(stored)
    for each in more:
        if each not in links:
            links.append(dict(each))
    return to_json(links).decode()


async def add_item(context: Context, task: str, title: str | None = None, language: str | None = None) -> Result:
    """A function for an agent that numbers tasks: adds a work item, and returns its number as `task_number`.

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
