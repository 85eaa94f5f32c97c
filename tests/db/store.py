"""A real database for tests: opened on a temporary file, with short ways to bring executions into a state.

Owns: building rows and writes with sensible values. Must not know: what a test is about.
Invariant: rows are looked at through the SQLite library the process writes with; a second copy of SQLite in one process
would drop the locks of the first.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from db.clock import stamp
from db.database import Database, open_database
from db.ids import new_execution_id, new_id
from db.rows import endings, executions
from db.rows.approvals import NewApproval, digest
from db.rows.endings import Ending, status_event
from db.rows.executions import NewExecution, Place, StartWrite
from db.rows.transcript import MessageDraft, ModelCall, ToolOutcome, ToolStart
from db.status import ExecutionStatus
from db.store.engine import sqlite_library
from db.store.unit import Event, Ticket, Write


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of the process's own library, with rows by name."""
    connection: sqlite3.Connection = sqlite_library().connect(str(path), isolation_level=None)
    with closing(connection):
        connection.row_factory = sqlite_library().Row
        yield connection


def rows_of(path: Path, query: str, *parameters: object) -> list[dict[str, Any]]:
    """The rows of a query."""
    with connected(path) as connection:
        return [dict(row) for row in connection.execute(query, parameters)]


def names_in(folder: Path) -> set[str]:
    """The names of the files and folders in a folder."""
    return {each.name for each in folder.iterdir()}


def place_of(new: NewExecution) -> Place:
    """Where a new execution stands."""
    return Place(new.id, new.parent_execution_id, new.root_execution_id)


def draft(parent: Place | None = None, position: int = 1, **more: Any) -> NewExecution:
    """An execution to create."""
    identifier = new_execution_id()
    values: dict[str, Any] = {
        "id": identifier,
        "parent_execution_id": parent.id if parent is not None else None,
        "root_execution_id": parent.root_execution_id if parent is not None else identifier,
        "owner": None,
        "agent": "Agent",
        "role": "sub_agent" if parent is not None else "root",
        "strategy": "loop",
        "position": position,
        "depth": 0,
        "path": "Agent",
        "created_at": stamp(),
    }
    return NewExecution(**(values | more))


def birth(new: NewExecution, first: MessageDraft | None = None) -> Write:
    """The creation of an execution, with its event."""
    return executions.create(new, [status_event(place_of(new), new.status, new.agent)], first)


def beginning(place: Place) -> Write:
    """pending → running."""
    return executions.start(place.id, StartWrite(stamp(), None), [status_event(place, ExecutionStatus.RUNNING, "Agent")])


def ending(place: Place, status: ExecutionStatus = ExecutionStatus.COMPLETED, **more: Any) -> Write:
    """The end of an execution, with its event."""
    values: dict[str, Any] = {"outcome": status.value, "reason": None, "result": f'{{"summary":"{status.value}"}}'}
    how = Ending(place=place, status=status, **(values | {"attempt": 1, "had_children": True} | more))
    return endings.end(how, [status_event(place, status, "Agent")])


def message(place: Place, position: int, kind: str = "note") -> MessageDraft:
    """A message of a transcript."""
    return MessageDraft(new_id(), place.id, position, "user", kind, '[{"type":"text","text":"…"}]')


def model_call(place: Place, turn: int = 1, **usage: Any) -> ModelCall:
    """A finished model call."""
    values: dict[str, Any] = {
        "input_tokens": 100,
        "output_tokens": 10,
        "cache_read_tokens": 5,
        "cache_write_tokens": 1,
        "cost_usd": 0.25,
    }
    return ModelCall(
        id=new_id(),
        execution_id=place.id,
        turn=turn,
        model="a-model",
        stop_reason="end_turn",
        request_id=None,
        rehearsed=0,
        pricing="priced",
        started_at=stamp(),
        finished_at=stamp(),
        **(values | usage),
    )


def tool_start(place: Place, said: MessageDraft, position: int = 1, tool: str = "loki__query") -> ToolStart:
    """A tool call about to run."""
    call = f"call_{new_id()}"
    return ToolStart(new_id(), place.id, said.id, position, call, tool, "loki", "{}", "read_only", stamp())


def outcome(tool: ToolStart, **more: Any) -> ToolOutcome:
    """How a tool call ended."""
    values: dict[str, Any] = {"attempt": 1, "status": "completed", "text": "found"}
    return ToolOutcome(tool.id, tool.execution_id, **(values | more))


def question(tool: ToolStart, **more: Any) -> NewApproval:
    """A question about a tool call."""
    values: dict[str, Any] = {
        "id": new_id(),
        "execution_id": tool.execution_id,
        "root_execution_id": tool.execution_id,
        "tool_call_id": tool.id,
        "principal": None,
        "kind": "gate",
        "tool": tool.tool,
        "arguments_hash": digest(tool.server, tool.tool, json.loads(tool.arguments)),
        "requested_at": stamp(),
        "expires_at": stamp(datetime.now(UTC) + timedelta(hours=1)),
    }
    return NewApproval(**(values | more))


@dataclass
class Store:
    """An open database and the events it published."""

    path: Path
    database: Database
    published: list[Event] = field(default_factory=list)

    async def apply(self, write: Write) -> Ticket:
        """Commit a write."""
        return await self.database.writer.apply(write)

    def post(self, *handed_in: Write) -> list[Ticket]:
        """Hand in writes without waiting."""
        return [self.database.writer.post(write) for write in handed_in]

    async def together(self, *handed_in: Write) -> list[Ticket]:
        """Hand in writes at once, so that they share commits; returns when all are done, whatever became of them."""
        tickets = self.post(*handed_in)
        for ticket in tickets:
            await ticket.done.wait()
        return tickets

    async def pending(self, parent: Place | None = None, position: int = 1, **more: Any) -> Place:
        """A new execution."""
        new = draft(parent, position, **more)
        assert (await self.apply(birth(new))).held
        return place_of(new)

    async def running(self, parent: Place | None = None, position: int = 1, **more: Any) -> Place:
        """A new execution that has started."""
        place = await self.pending(parent, position, **more)
        assert (await self.apply(beginning(place))).held
        return place

    async def in_status(self, status: ExecutionStatus, parent: Place | None = None, position: int = 1) -> Place:
        """A new execution, brought into a status by the legal way."""
        early = {ExecutionStatus.PENDING, ExecutionStatus.BLOCKED, ExecutionStatus.SKIPPED}
        place = await (self.pending if status in early else self.running)(parent, position)
        if status.is_terminal:
            assert (await self.apply(ending(place, status))).held
        return place

    def sql(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Rows, over a connection of its own."""
        return rows_of(self.path, query, *parameters)

    def row(self, place: Place) -> dict[str, Any]:
        """One execution."""
        return self.sql("select * from executions where id = ?", place.id)[0]

    def statuses(self, *places: Place) -> list[str]:
        """The statuses of executions."""
        return [self.row(place)["status"] for place in places]

    def inbox(self, place: Place) -> list[str | None]:
        """The children whose ends wait in an inbox or were taken from it."""
        query = "select child_execution_id as child from deliveries where execution_id = ? order by created_at"
        return [row["child"] for row in self.sql(query, place.id)]

    def sequence(self) -> list[int]:
        """The numbers of all events."""
        return [row["seq"] for row in self.sql("select seq from events order by seq")]


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[Store]:
    """Open a database, gathering what it publishes."""
    published: list[Event] = []

    def publish(events: Sequence[Event]) -> None:
        published.extend(events)

    async with open_database(path, publish) as database:
        yield Store(path, database, published)
